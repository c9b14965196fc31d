"""Declarations of a resource for windows of time hold in a replay too, on the clock that the trace began by."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import yaml

from firsttoken_lab.replay.calendar import MONDAY_EPOCH_SECONDS, Calendar
from firsttoken_lab.replay.compare import scene_of
from firsttoken_lab.replay.observed import Observed
from firsttoken_lab.replay.play import Played, play
from firsttoken_lab.replay.policies.ours import TICK_SECONDS, Ours
from firsttoken_lab.replay.policies.view import View
from firsttoken_lab.replay.replicas import ColdStart, Pods, Replicas, SimulatedPod
from firsttoken_lab.replay.setting import Setting, setting_of
from firsttoken_lab.replay.traffic import Traffic
from firsttoken_operator.api.documents import parse_documents
from firsttoken_operator.api.schedule import Window
from firsttoken_operator.cli import main
from firsttoken_operator.domain import Idle, Reason, Value
from firsttoken_operator.observe import MeasureSettings
from firsttoken_sizing.simulation.fleet import Fleet
from tests.lab.replay.worlds import STEP, stage, traffic, view

pytestmark = pytest.mark.slow


EXAMPLE = Path(__file__).resolve().parents[3] / "examples/call-center.yaml"
MINUTE = 60.0
EVERY_DAY = frozenset(range(7))
COLD_START_SECONDS = 60.0


def setting(*, minimum: int = 2, schedule: tuple[Window, ...] = (), on_prem: bool = False) -> Setting:
    documents = list(yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8")))
    (deployment,) = (document for document in documents if document["kind"] == "InferenceDeployment")
    deployment["spec"]["scaling"] = {"minReplicas": minimum}
    parsed = parse_documents(yaml.safe_dump_all(documents), file=EXAMPLE.name)
    found = setting_of(parsed.deployments[0], parsed.pools, parsed.benchmarks)
    assert isinstance(found, Setting)
    return replace(found, schedule=schedule, on_prem=on_prem)


def window(start_minutes: int, end_minutes: int, peak: float, days: frozenset[int] = EVERY_DAY) -> Window:
    return Window("UTC", days, start_minutes, end_minutes, peak)


def played(
    found: Setting, rates: list[tuple[float, float]], start: float = MONDAY_EPOCH_SECONDS
) -> tuple[Ours, Played]:
    ours = Ours(found.sized, found.policy, calendar=Calendar(start, found.schedule), on_prem=found.on_prem)
    return ours, play(ours, traffic(rates), found.stage(120, COLD_START_SECONDS, 0.0, 1))


def ready_at(whole: Played, seconds: float) -> int:
    at = int(np.searchsorted(whole.trajectory.at_seconds, seconds, side="right")) - 1
    return int(whole.trajectory.ready[at])


def test_a_window_is_staffed_before_it_opens_and_left_after_it_closes() -> None:
    found = setting(schedule=(window(30, 60, 60.0),))
    needed = found.sized.table.replicas_for(60.0)
    ours, whole = played(found, [(110 * MINUTE, 5.0)])

    assert ready_at(whole, 20 * MINUTE) < needed
    assert ready_at(whole, 30 * MINUTE) >= needed
    assert min(ready_at(whole, minute * MINUTE) for minute in range(30, 60)) >= needed
    assert ready_at(whole, 110 * MINUTE) < needed
    assert Reason.SCHEDULED_PEAK in {decision.reason for decision in ours.decisions}


def test_the_days_of_a_window_are_those_of_the_trace() -> None:
    tuesdays = (window(30, 60, 60.0, days=frozenset({1})),)
    needed = setting().sized.table.replicas_for(60.0)
    for start, staffed in ((MONDAY_EPOCH_SECONDS, False), (MONDAY_EPOCH_SECONDS + 86_400, True)):
        _, whole = played(setting(schedule=tuesdays), [(45 * MINUTE, 5.0)], start)
        assert (ready_at(whole, 40 * MINUTE) >= needed) is staffed


def test_a_replay_begins_for_a_window_that_opens_before_a_pod_could_be_ready() -> None:
    found = setting(schedule=(window(4, 60, 90.0),))
    ours = Ours(found.sized, found.policy, calendar=Calendar(windows=found.schedule))

    assert ours.initial == found.sized.table.replicas_for(90.0)


def test_on_prem_it_begins_with_the_replicas_for_the_peak() -> None:
    found = setting(on_prem=True)
    ours = Ours(found.sized, found.policy, on_prem=True)

    assert ours.initial == found.sized.replicas_for_declared_peak


def test_between_windows_it_sleeps_and_requests_wait_for_the_next_one() -> None:
    found = setting(minimum=0, schedule=(window(90, 150, 10.0),))
    ours, whole = played(found, [(20 * MINUTE, 5.0), (50 * MINUTE, 0.0), (40 * MINUTE, 0.05), (10 * MINUTE, 5.0)])
    asked = dict(whole.changes)

    assert 0 in asked.values()
    assert ready_at(whole, 75 * MINUTE) == 0
    assert ready_at(whole, 90 * MINUTE) >= found.sized.table.replicas_for(10.0)
    assert not np.isnan(whole.ttft_seconds).any(), "what waited for the window is answered in it"
    woken = next(d for d in ours.decisions if d.from_replicas == 0)
    assert woken.reason is Reason.SCHEDULED_PEAK


def test_without_windows_nothing_tells_of_requests_at_zero_and_one_replica_stays() -> None:
    _, whole = played(setting(minimum=0), [(20 * MINUTE, 5.0), (50 * MINUTE, 0.0), (MINUTE, 1.0)])

    assert ready_at(whole, 70 * MINUTE) == 1


def test_the_scene_lets_every_policy_use_what_the_largest_window_allows() -> None:
    requests = traffic([(300, 5.0)])
    scenes = [
        scene_of(Traffic("made", requests, 1.0, 0), setting(schedule=windows), COLD_START_SECONDS, 1)
        for windows in ((), (window(600, 660, 2000.0),))
    ]
    without, beside = (scene.context.maximum for scene in scenes)

    assert beside > without
    assert scenes[1].context.calendar.windows


def test_the_time_to_ready_is_that_of_the_starts_that_were_seen() -> None:
    fleet = Fleet(STEP, traffic([(60, 1.0)]), stage().settings)
    replicas = Replicas(fleet, ColdStart(100.0, jitter_percent=20.0), np.random.default_rng(1))
    replicas.begin(2)
    before = replicas.time_to_ready_seconds
    replicas.scale(10, 10.0)
    replicas.advance(50.0)
    while_starting = replicas.time_to_ready_seconds
    replicas.advance(200.0)
    seen = replicas.time_to_ready_seconds

    assert (before, while_starting) == (None, None), "those that were there at the start were not seen to start"
    assert seen is not None
    assert 100.0 < seen <= 120.0


@pytest.mark.parametrize("measured", [None, 30.0])
def test_a_window_is_staffed_as_long_before_as_starts_were_seen_to_take(measured: float | None) -> None:
    found = setting(schedule=(window(30, 60, 50.0),))
    ours = Ours(found.sized, found.policy, calendar=Calendar(windows=found.schedule))
    due = 30 * MINUTE - (300.0 if measured is None else measured) - TICK_SECONDS
    asked = [ours.desired(replace(view(at, 6, running=1.0), time_to_ready_seconds=measured)) for at in (due - 1.0, due)]

    assert asked == [6, found.sized.table.replicas_for(50.0)]


def test_without_a_ready_replica_idleness_was_not_observed() -> None:
    found = setting()
    for ready, lowered in ((0, False), (6, True)):
        ours = Ours(found.sized, found.policy)
        for tick in range(1, 31):
            ours.desired(idle(tick * TICK_SECONDS, ready))
        ours.desired(idle(31 * TICK_SECONDS, 6))
        assert bool(ours.decisions) is lowered


def idle(now_seconds: float, ready: int) -> View:
    """Six replicas, of which all are ready or none is, as the operator reads a simulated fleet."""
    seen = view(now_seconds, 6, running=0.0, ready=ready)
    nothing_came = replace(
        seen.metrics, health=Reason.IDLE, arrivals=Idle(), first_tokens=Idle(), waiting=Value(0), running=Value(0),
        error_share=Idle(),
    )  # fmt: skip
    starting = Pods(tuple(SimulatedPod(number, number, 0.0, math.inf) for number in range(1, 7)), (), ())
    nothing_is_ready = Observed(now_seconds, starting, (), None, MeasureSettings(60.0, 15.0))
    return replace(seen, read_metrics=(lambda: nothing_came) if ready else nothing_is_ready.metrics)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--start", "Monday"], "--start: 'Monday' is no time; write it as 2026-11-16T00:00Z"),
        (["--start", "2026-11-16T00:00"], "--start: '2026-11-16T00:00' has no time zone"),
        (["--start", "9999-12-31T00:00Z"], "--start: '9999-12-31T00:00Z' is in no year"),
    ],
)
def test_the_start_has_to_be_a_moment(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], words: str
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("t,rps\n0,1\n600,1\n")

    assert main(["replay", "-f", str(EXAMPLE), "--trace", str(trace), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_the_start_of_what_prometheus_tells_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--prometheus", "http://127.0.0.1:1", "--start", "2026-11-16T00:00Z"]

    assert main(["replay", "-f", str(EXAMPLE), *arguments]) == 2
    assert "--start: is known of what --prometheus tells; leave it out" in capsys.readouterr().err


def test_the_second_zero_of_a_trace_is_a_monday() -> None:
    assert datetime.fromtimestamp(MONDAY_EPOCH_SECONDS, UTC) == datetime(2026, 11, 16, tzinfo=UTC)
    assert datetime.fromtimestamp(MONDAY_EPOCH_SECONDS, UTC).weekday() == 0
