"""Probes and metrics: a resource that drops out of the loop is noticed, one that is deleted is forgotten."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from firsttoken_operator.act.errors import ClusterError
from firsttoken_operator.act.scorecard import Scorecard, Tally
from firsttoken_operator.api.status import InferenceDeploymentStatus
from firsttoken_operator.domain import Decision, FleetSnapshot, PoolSnapshot, Reason, ResourceSnapshot, TargetMissing
from firsttoken_operator.run import process
from firsttoken_operator.run.health import LEAST_ALLOWED_SECONDS, HealthServer, Heartbeats
from firsttoken_operator.run.metrics import OperatorMetrics
from tests.operator.act.objects import decision
from tests.operator.decide.builders import lost, metrics, resource, target

ALLOWED = 4 * 15.0
START = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def beating(tick_seconds: float = 15.0) -> Heartbeats:
    beats = Heartbeats(tick_seconds, 0.0, synced=True)
    beats.completed(100.0)
    return beats


def test_a_loop_that_stands_still_is_unhealthy() -> None:
    beats = beating()

    assert beats.problem(100 + ALLOWED) == ""
    assert beats.problem(101 + ALLOWED) == "the tick gets no further for 61 s"


def test_a_tick_that_takes_minutes_is_healthy_while_it_gets_further() -> None:
    beats = beating()
    beats.begin({"a/one"}, 115.0)
    for seconds in range(120, 900, 40):
        beats.step(float(seconds))
        assert beats.problem(seconds + 39.0) == ""


def test_a_loop_whose_ticks_all_fail_is_unhealthy() -> None:
    beats = beating()
    for failed in range(4):
        assert beats.problem(100.0) == "", failed
        beats.begin(set(), 100.0)
        beats.failures += 1

    assert beats.problem(100.0) == "4 ticks failed one after the other"
    beats.completed(100.0)
    assert beats.problem(100.0) == ""


def test_a_resource_that_dropped_out_of_a_living_loop_is_unhealthy() -> None:
    beats = beating()
    for _ in range(3):
        beats.begin({"a/one", "a/lost"}, 100.0)
        beats.decided("a/one")
        beats.completed(100.0)
    assert beats.problem(100.0) == ""
    beats.begin({"a/one", "a/lost"}, 100.0)
    beats.decided("a/one")

    assert beats.problem(100.0) == "no decision for 1 resources, first a/lost"
    beats.begin({"a/one"}, 100.0)
    assert beats.problem(100.0) == "", "one that is deleted is due no more"


def test_a_fast_tick_does_not_make_an_impatient_probe() -> None:
    assert beating(1.5).problem(100 + LEAST_ALLOWED_SECONDS) == ""


def test_a_start_is_alive_and_not_ready() -> None:
    beats = Heartbeats(15.0, 0.0)
    assert (beats.problem(299.0), beats.not_ready()) == ("", "starting: the API server")
    beats.synced = True
    assert beats.not_ready() == "no complete tick yet"
    beats.completed(1.0)
    assert beats.not_ready() == ""


@pytest.fixture
async def served() -> AsyncIterator[tuple[str, Heartbeats]]:
    beats = Heartbeats(15.0, 0.0)
    server = HealthServer(beats, OperatorMetrics().render, lambda: 0.0)
    port = await server.start("127.0.0.1", 0)
    yield f"http://127.0.0.1:{port}", beats
    await server.stop()


async def test_the_port_answers_probes_and_metrics(served: tuple[str, Heartbeats]) -> None:
    url, beats = served
    async with aiohttp.ClientSession() as session:
        statuses = []
        for path in ("healthz", "readyz", "metrics"):
            async with session.get(f"{url}/{path}") as answer:
                statuses.append(answer.status)
        assert statuses == [200, 503, 200]
        beats.synced = True
        beats.completed(0.0)
        async with session.get(f"{url}/readyz") as answer:
            assert answer.status == 200


async def test_probes_are_answered_while_metrics_are_written() -> None:
    probed = threading.Event()

    def write() -> bytes:
        assert probed.wait(5), "the probe waited for the metrics"
        return b"written"

    server = HealthServer(Heartbeats(15.0, 0.0), write, lambda: 0.0)
    url = f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
    async with aiohttp.ClientSession() as session:
        metrics = asyncio.create_task(session.get(f"{url}/metrics"))
        await asyncio.sleep(0.1)
        async with session.get(f"{url}/healthz") as answer:
            assert answer.status == 200
        probed.set()
        async with await metrics as answer:
            assert await answer.read() == b"written"
    await server.stop()


def test_a_page_that_is_read_while_series_come_and_go_is_whole() -> None:
    shown, ending = OperatorMetrics(), threading.Event()

    def change() -> None:
        for number in itertools.count():
            shown.record_writes({}, {"status": number, f"kind-{number % 50}": 1})
            shown.ready.set(("team", f"w-{number % 500}"), number if number % 3 else None)
            if ending.is_set():
                return

    writer = threading.Thread(target=change)
    writer.start()
    pages = [shown.render().decode() for _ in range(200)]
    ending.set()
    writer.join()

    assert all('firsttoken_writes_waiting{kind="status"}' in page for page in pages[1:])


def test_a_start_that_gets_no_further_is_told_of_and_at_last_a_reason_to_restart() -> None:
    beats = Heartbeats(15.0, 0.0)
    assert beats.problem(301.0) == "the start gets no further: the API server for 301 s"

    beats.note("still awaited are Pod: 12", 310.0)
    assert beats.not_ready() == "starting: still awaited are Pod: 12"
    assert beats.problem(609.0) == "", "as long as the caches become fuller there is nothing to mend"
    assert beats.problem(611.0) == "the start gets no further: still awaited are Pod: 12 for 301 s"
    beats.synced = True
    beats.step(610.0)
    assert beats.problem(611.0) == ""


class Definitions:
    """An API server that is away at first, and knows a kind late."""

    def __init__(self, answers: list[bool | None]) -> None:
        self.answers = answers

    async def serves(self, _: str, kind: str, plural: str = "") -> bool:
        answer = self.answers.pop(0) if kind == "InferenceDeployment" else True
        if answer is None:
            raise ClusterError("no answer in 10 s")
        return answer


async def test_definitions_that_are_missing_are_waited_for_and_an_api_server_that_is_away_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "DEFINITIONS_SECONDS", 0.0)
    now = itertools.count(1.0)
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: next(now)))
    away, told = Heartbeats(15.0, 0.0), Heartbeats(15.0, 0.0)

    await process._definitions(Definitions([None, None, None, True]), away)  # type: ignore[arg-type]
    await process._definitions(Definitions([False, False, False, True]), told)  # type: ignore[arg-type]

    assert away.progress_seconds == 0
    assert told.progress_seconds == 3
    assert told.not_ready() == "starting: no definition of inferencedeployments"


def series(made: OperatorMetrics) -> dict[str, float]:
    return {
        f"{sample.name}{dict(sorted(sample.labels.items()))}": sample.value
        for family in text_string_to_metric_families(made.render().decode())
        for sample in family.samples
    }


def record(made: OperatorMetrics, about: ResourceSnapshot, what: Decision) -> None:
    made.record_tick(FleetSnapshot(0, 15, (about,)), (what,))


NAME = "{'name': 'support-rag', 'namespace': 'call-center'}"


def test_a_decision_is_published_exactly() -> None:
    made, about = OperatorMetrics(), resource(target(5), metrics(20.0))
    record(made, about, decision(about, 5, 9, unmet_replicas=3, limit=60, late_budgets_spent=1.5, capacity_factor=0.8))
    found = series(made)

    assert found[f"firsttoken_desired_replicas{NAME}"] == 9
    assert found[f"firsttoken_ready_replicas{NAME}"] == 5
    assert found[f"firsttoken_sized_replicas{NAME}"] == 40
    assert found[f"firsttoken_limit_replicas{NAME}"] == 60
    assert found[f"firsttoken_unmet_gpus{NAME}"] == 3
    assert found[f"firsttoken_arrival_requests_per_second{NAME}"] == 20
    assert found[f"firsttoken_observed_ttft_seconds{NAME}"] == pytest.approx(0.1)
    assert found[f"firsttoken_ttft_limit_seconds{NAME}"] == 0.3
    assert found[f"firsttoken_error_budget_consumption{NAME}"] == 1.5
    assert found[f"firsttoken_capacity_factor{NAME}"] == 0.8
    at = [found[f"firsttoken_predicted_ttft{size}_seconds{NAME}"] for size in ("_one_fewer", "", "_one_more")]
    assert 0.3 > at[0] > at[1] > at[2] > 0.06
    assert found["firsttoken_decisions_total{'outcome': 'up', 'reason': 'DemandAboveCapacity'}"] == 1


def test_what_is_not_known_is_no_series_and_no_zero() -> None:
    made, about = OperatorMetrics(), resource(target(5), metrics(20.0))
    record(made, about, decision(about, 5, 5))
    blind = replace(about, metrics=lost())
    held = decision(blind, 5, 5, arrival_requests_per_second=None, prediction=None, reason=Reason.MISSING)
    record(made, blind, held)
    found = series(made)

    for gone in (
        "arrival_requests_per_second", "observed_ttft_seconds", "predicted_ttft_seconds",
        "predicted_ttft_one_fewer_seconds", "predicted_ttft_one_more_seconds",
    ):  # fmt: skip
        assert f"firsttoken_{gone}{NAME}" not in found
    assert found[f"firsttoken_desired_replicas{NAME}"] == 5


def test_advice_stays_while_the_target_or_the_spec_cannot_be_read() -> None:
    made, about = OperatorMetrics(), resource(target(5), metrics(20.0))
    record(made, about, decision(about, 5, 9))
    absent = replace(about, target=TargetMissing(Reason.TARGET_NOT_FOUND, "not there"))
    record(made, absent, replace(decision(about, 5, 5), from_replicas=0, to_replicas=0))

    assert series(made)[f"firsttoken_desired_replicas{NAME}"] == 9


def test_a_target_that_was_never_seen_has_no_advice() -> None:
    made, about = OperatorMetrics(), resource(TargetMissing(Reason.TARGET_NOT_FOUND, "not there"), lost())
    record(made, about, replace(decision(about, 5, 5), from_replicas=0, to_replicas=0))

    assert f"firsttoken_desired_replicas{NAME}" not in series(made)


@pytest.mark.parametrize(("budget", "free"), [(64, 52.0), (None, None)])
def test_the_gpus_of_a_pool_are_those_of_its_status(budget: int | None, free: float | None) -> None:
    made, about = OperatorMetrics(), resource(target(5), metrics(20.0), pool="h100")
    pool = PoolSnapshot("h100", budget, 64, False, 20, 600, charged_elsewhere={"lab": 7})
    made.record_tick(FleetSnapshot(0, 15, (about,), {"h100": pool}), (decision(about, 5, 5, unmet_replicas=3),))
    gpus = {name: value for name, value in series(made).items() if name.startswith("firsttoken_pool_gpus")}
    named = {"budget": budget, "inventory": 64, "charged": 12, "free": free, "unmet": 3}

    assert gpus == {
        f"firsttoken_pool_gpus{ {'pool': 'h100', 'state': state} }": value
        for state, value in named.items()
        if value is not None
    }


def scored(made: OperatorMetrics, about: ResourceSnapshot, card: Scorecard) -> dict[str, float]:
    record(made, about, decision(about, 5, 5))
    made.record_scorecards(FleetSnapshot(0, 15, (about,)), {about.uid: card})
    return series(made)


def card(counted: Tally, total: Tally) -> Scorecard:
    return Scorecard(START, {START.date(): total}, counted=counted)


WEEK = Tally(
    hours=100, gpu_hours=500, saved_gpu_hours=-20, requests=1000, late_requests=50, late_requests_at_most=90,
    compared_requests=10, error_requests=2, flaps=7, late_requests_allowed=40,
    late_requests_charged=30,
)  # fmt: skip
HOUR = Tally(
    hours=1, gpu_hours=5, saved_gpu_hours=35, requests=100, late_requests=1, late_requests_at_most=2, flaps=1,
    late_requests_allowed=4, late_requests_charged=0.5,
)  # fmt: skip


def test_the_scorecard_is_published_exactly() -> None:
    found = scored(OperatorMetrics(), resource(target(5), metrics(20.0)), card(HOUR, WEEK))

    assert found[f"firsttoken_slo_attainment_ratio{NAME}"] == pytest.approx(0.95)
    assert found[f"firsttoken_error_budget_remaining_ratio{NAME}"] == pytest.approx(0.25)
    assert found[f"firsttoken_slo_allowed_late_requests_total{NAME}"] == 4
    assert found[f"firsttoken_slo_charged_late_requests_total{NAME}"] == 0.5
    assert found[f"firsttoken_calibration_error_ratio{NAME}"] == pytest.approx(0.2)
    assert found[f"firsttoken_gpu_hours_saved_versus_peak{NAME}"] == -20
    assert found[f"firsttoken_gpu_hours_total{NAME}"] == 5
    assert found[f"firsttoken_slo_requests_total{NAME}"] == 100
    assert found[f"firsttoken_slo_late_requests_total{NAME}"] == 1
    assert found[f"firsttoken_flaps_total{NAME}"] == 1


def test_counters_grow_by_what_was_added_also_where_a_resource_is_made_anew() -> None:
    made, about = OperatorMetrics(), resource(target(5), metrics(20.0))
    first = scored(made, about, card(HOUR, WEEK))
    same = scored(made, about, card(HOUR, WEEK))
    grown = scored(made, about, card(HOUR + HOUR, WEEK))
    anew = scored(made, replace(about, uid="r-2"), card(HOUR, WEEK))
    hours = [found[f"firsttoken_gpu_hours_total{NAME}"] for found in (first, same, grown, anew)]

    assert hours == [5, 5, 10, 15]


def test_what_was_not_counted_is_no_series() -> None:
    blind = Tally(hours=1, gpu_hours=5)
    found = scored(OperatorMetrics(), resource(target(5), lost()), card(blind, blind))
    names = {name.split("{")[0] for name in found}

    assert "firsttoken_gpu_hours_total" in names
    for gone in (
        "slo_attainment_ratio",
        "error_budget_remaining_ratio",
        "slo_allowed_late_requests_total",
        "slo_charged_late_requests_total",
        "calibration_error_ratio",
        "gpu_hours_saved_versus_peak",
        "slo_requests_total",
    ):
        assert f"firsttoken_{gone}" not in names


def status(**conditions: str) -> InferenceDeploymentStatus:
    at = "2026-11-21T12:00:00Z"
    return InferenceDeploymentStatus.model_validate(
        {
            "conditions": [
                {"type": kind, "status": said, "reason": "Because", "lastTransitionTime": at}
                for kind, said in conditions.items()
            ],
            "decisions": [
                {"time": at, "from": 9, "to": 5, "reason": "DemandBelowCapacity"},
                {"time": "2026-11-21T11:00:00Z", "from": 5, "to": 9, "reason": "Backlog"},
            ],
        }
    )


def test_conditions_and_the_last_scaling_are_published_as_the_status_has_them() -> None:
    made, about = OperatorMetrics(), resource(target(5), metrics(20.0))
    fleet = FleetSnapshot(0, 15, (about,))

    def shown(statuses: dict[str, InferenceDeploymentStatus]) -> dict[str, float]:
        made.record_statuses(fleet, statuses)
        return {k: v for k, v in series(made).items() if "condition" in k or "last_scaling" in k}

    of = "'name': 'support-rag', 'namespace': 'call-center'"
    scaling = f"firsttoken_last_scaling_timestamp_seconds{{{of}, 'outcome': 'down', 'reason': 'DemandBelowCapacity'}}"
    assert shown({about.uid: status(Ready="True", SLAMet="False", Calibrated="Unknown")}) == {
        f"firsttoken_condition{{{of}, 'type': 'Ready'}}": 1,
        f"firsttoken_condition{{{of}, 'type': 'SLAMet'}}": 0,
        scaling: START.timestamp(),
    }
    assert shown({about.uid: status(SLAMet="Unknown")}) == {scaling: START.timestamp()}
    assert shown({}) == {}


def test_a_deleted_resource_or_pool_leaves_no_gauge() -> None:
    made, about = OperatorMetrics(), resource(target(5), metrics(20.0))
    pool = PoolSnapshot("h100", 64, 64, False, 20, 600)
    made.record_tick(FleetSnapshot(0, 15, (about,), {"h100": pool}), (decision(about, 5, 9),))
    made.record_scorecards(FleetSnapshot(0, 15, (about,)), {about.uid: card(HOUR, WEEK)})
    assert any("support-rag" in name for name in series(made))
    assert any("h100" in name for name in series(made))
    made.record_tick(FleetSnapshot(15, 15, ()), ())

    assert not [name for name in series(made) if "support-rag" in name or "h100" in name]
