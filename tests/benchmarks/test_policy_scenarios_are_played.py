from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from policies import playing
from policies.cells import Cell
from policies.contenders import CLAIRVOYANT, PEERS, TUNING_PARAMETERS, contender, misjudged
from policies.episodes import EPISODES, Episode
from policies.results import Outcome
from policies.scenarios import DAY_SECONDS, FLEETS, HOURS, SCENARIOS, WEEKS, Kind, Scenario
from policies.traffic import Declared, after, declared, series_of, setting, sized, traffic

TRACES = Path(__file__).resolve().parents[2].parent / "shared" / "traces"
NO_TRACES = Path("no-traces")
MOST_REQUESTS = 4.1e6
MOST_REPLICAS = 40


@pytest.fixture(scope="module")
def burst() -> Outcome:
    return playing.outcome_of(Cell("burst", "firsttoken"), NO_TRACES)


def traces() -> Path:
    if not TRACES.is_dir():
        pytest.skip("needs the traces of ../shared/traces")
    return TRACES


def test_an_episode_is_played_to_its_figures(burst: Outcome) -> None:
    figures = burst.figures

    assert 50 < figures.attainment_percent <= 100
    assert figures.worst_hour_attainment_percent <= figures.attainment_percent
    assert figures.requests == pytest.approx(8 * 7200 + 24 * 182.5, rel=0.02)
    assert figures.seconds > 0


def test_the_first_hour_and_the_rest_add_up_to_all(burst: Outcome) -> None:
    figures = burst.figures

    assert figures.first_hour.gpu_hours + figures.later.gpu_hours == pytest.approx(figures.gpu_hours)
    low, high = sorted((figures.first_hour.attainment_percent, figures.later.attainment_percent))
    assert low <= figures.attainment_percent <= high


def test_the_same_cell_gives_the_same_figures(burst: Outcome) -> None:
    again = playing.outcome_of(burst.cell, NO_TRACES)

    assert again.figures.gpu_hours == burst.figures.gpu_hours
    assert again.figures.attainment_percent == burst.figures.attainment_percent


def test_a_policy_that_believes_too_much_of_a_replica_takes_less_of_them() -> None:
    low, high = (
        playing.outcome_of(Cell("burst", "firsttoken", capacity_error_percent=error), NO_TRACES).figures.first_hour
        for error in (-30, 30)
    )

    assert high.gpu_hours < low.gpu_hours


def test_metrics_are_out_where_the_episode_says_so() -> None:
    scene = playing._scene(SCENARIOS["outage"], NO_TRACES, 1, None, 180.0, False)

    assert scene.stage.metric_outages == ((4200.0, 5400.0),)


@pytest.mark.parametrize("name", [name for name in PEERS if name != "dynamo"])
def test_a_peer_obeys_its_tuning_parameter(name: str) -> None:
    scene = playing._scene(SCENARIOS["burst"], NO_TRACES, 1, None, 180.0, False)
    low, high = (vars(contender(name, tuning, scene.context)) for tuning in TUNING_PARAMETERS[name].values[:2])
    differing = {key for key in low if isinstance(low[key], float) and low[key] != high[key]}

    assert len(differing) == 1, "one parameter is tuned, and nothing else"


@pytest.mark.parametrize("error", [-30, 30])
def test_a_wrong_capacity_is_believed_at_every_rate(error: int) -> None:
    resource = sized(Declared(2000, 300, 10.0, 40.0))
    right, factor = resource.sized, 1 + error / 100
    wrong = misjudged(right, resource.request.workload, error)

    rate = 0.8 * right.table.capacity_requests_per_second
    assert wrong.table.capacity_requests_per_second == pytest.approx(factor * right.table.capacity_requests_per_second)
    assert wrong.table.at(factor * rate).ttft.p99 == pytest.approx(right.table.at(rate).ttft.p99)
    assert wrong.replicas_for_declared_peak == pytest.approx(right.replicas_for_declared_peak / factor, abs=1)
    assert misjudged(right, resource.request.workload, 0) is right


def test_weeks_warm_up_for_a_day_and_the_clairvoyant_plays_what_is_scored() -> None:
    week = SCENARIOS["conv-week"]
    assert playing.warm_up_seconds(week, None) == DAY_SECONDS
    assert playing.warm_up_seconds(week, 1) == 0
    assert playing.warm_up_seconds(SCENARIOS["step"], None) == 0

    played = traffic(SCENARIOS["burst"], NO_TRACES, 1, None)
    rest = after(played, 3600.0).requests
    assert len(rest) == int((played.requests.arrival_s >= 3600).sum())
    assert 0 <= rest.arrival_s[0] < 10


@pytest.mark.parametrize("episode", EPISODES, ids=lambda episode: episode.name)
def test_what_an_episode_declares_is_what_it_brings(episode: Episode) -> None:
    scenario = SCENARIOS[episode.name]
    said = declared(scenario, NO_TRACES)
    series = series_of(scenario, NO_TRACES)

    assert said.peak == pytest.approx(series.requests_per_second.max(), rel=0.05)
    assert said.average < said.peak
    assert setting(scenario, NO_TRACES).sized.configuration.gpus_per_replica == 4


@pytest.mark.parametrize("scenario", WEEKS, ids=lambda scenario: scenario.name)
def test_a_week_is_no_larger_than_it_may_be(scenario: Scenario) -> None:
    folder, week = traces(), scenario
    said = declared(week, folder)
    series = series_of(week, folder)
    requests = np.trapezoid(series.requests_per_second, series.at_seconds) * week.rate_scale

    assert requests <= MOST_REQUESTS
    assert 2 <= setting(week, folder).sized.replicas_for_declared_peak <= MOST_REPLICAS
    assert (series.requests_per_second > 0).all()
    assert said.average > 1


@pytest.mark.parametrize("scenario", FLEETS, ids=lambda scenario: scenario.name)
def test_a_large_fleet_has_about_fifty_replicas_at_the_peak(scenario: Scenario) -> None:
    assert 45 <= setting(scenario, traces()).sized.replicas_for_declared_peak <= 55


@pytest.mark.parametrize("scenario", HOURS, ids=lambda scenario: scenario.name)
def test_a_recorded_hour_declares_its_busiest_minute(scenario: Scenario) -> None:
    said = declared(scenario, traces())

    assert scenario.kind is Kind.HOUR
    assert 1 < said.average < said.peak
    assert said.input_tokens > said.output_tokens > 10


def test_the_clairvoyant_is_no_policy_of_the_registry() -> None:
    scene = playing._scene(SCENARIOS["burst"], NO_TRACES, 1, None, 180.0, False)

    with pytest.raises(KeyError):
        contender(CLAIRVOYANT, None, scene.context)
