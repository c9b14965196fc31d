"""The status document and its conditions: complete, valid for the schema, and still while nothing happens."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.scale import ScaleResult, Write
from firsttoken_operator.act.scorecard import Scorecard, Tally
from firsttoken_operator.act.status import KEPT_DECISIONS, Answer, Observed, document, sizing_status, status_of
from firsttoken_operator.api.status import InferenceDeploymentStatus
from firsttoken_operator.domain import (
    Claims,
    Decision,
    Ending,
    Hindrances,
    Metrics,
    Outcome,
    Reason,
    ResourceSnapshot,
    ScalingMode,
    Shortcoming,
    Target,
    TargetMissing,
    TtftInterval,
    Unsized,
)
from firsttoken_operator.runtimes.settings import Drain
from firsttoken_sizing.band import Band
from firsttoken_sizing.request import Basis, Sizing
from firsttoken_sizing.workload import Arrivals, Limit, Percentile, Sla, Workload
from tests.docs.pages import ROOT, blocks
from tests.fixtures.worked_examples import call_center
from tests.operator.act.objects import decision, infd
from tests.operator.decide.builders import POLICY, SIZED, lost, metrics, resource, target
from tools.cluster import Cluster

START = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
EMPTY = InferenceDeploymentStatus()
SIZING = Sizing(
    request=call_center(),
    feasible=True, reason="", cause=None, configuration=SIZED.configuration, arrivals=Arrivals.POISSON,
    table=SIZED.table, replicas=40, replicas_low=40, replicas_high=41, replicas_for_average=6,
    gpus=40, servers=5, peak_requests_per_second=200.0,
    requests_per_second_per_replica=5.0, requests_per_second_per_server=40.0, concurrency_per_replica=10.0,
    ttft=SIZED.table.at(5.0).ttft, itl=SIZED.table.at(5.0).itl, end_to_end=SIZED.table.at(5.0).end_to_end,
    binding_constraint="TTFT P95", basis=Basis.MEASURED, band=Band(0.99, 1.012), utilization_cap_percent=50.4,
)  # fmt: skip
EVERY_LIMIT = Sla(
    time_to_first_token=Limit(300, Percentile.P95), inter_token_latency=Limit(50, Percentile.MEAN),
    end_to_end=Limit(15000, Percentile.P95),
)  # fmt: skip
ELSEWHERE = {
    ".traffic.live.averageRequestsPerSecond", ".traffic.live.peakRequestsPerSecond",
    ".traffic.declared.requestsPerSecond",
}  # fmt: skip
"""One type holds both views of the traffic: what is declared and what is live have different fields of it."""
DECLARED = Workload(2000, 200, average_requests_per_second=28.54, peak_requests_per_second=200.0)
ANSWER = Answer(SIZED, sizing_status(SIZING), DECLARED)


def observed(
    made: Decision | None = None,
    about: ResourceSnapshot | None = None,
    *,
    at: datetime = START,
    result: ScaleResult | None = None,
    **changes: Any,
) -> Observed:
    snapshot = about or resource(target(5), metrics(20.0))
    answer, result = replace(ANSWER, **changes), result or ScaleResult(Write.NONE)
    return Observed(snapshot, made or decision(snapshot, 5, 5), result, answer, at)


def condition(status: InferenceDeploymentStatus, kind: str) -> tuple[str, str]:
    (found,) = [c for c in status.conditions if c.type == kind]
    return found.status.value, found.reason


def empty_fields(model: BaseModel, path: str = "") -> set[str]:
    """Paths of the fields that hold nothing; of a list the first item speaks."""
    empty: set[str] = set()
    for name, info in type(model).model_fields.items():
        value, here = getattr(model, name), f"{path}.{info.alias or name}"
        if value is None or value == ():
            empty.add(here)
        first = value[0] if isinstance(value, tuple) and value else value
        if isinstance(first, BaseModel):
            empty |= empty_fields(first, here)
    return empty


def scaled(from_replicas: int, to_replicas: int, at: datetime = START) -> Observed:
    snapshot = resource(target(from_replicas), metrics(20.0))
    done = ScaleResult(Write.DONE, Reason.DEMAND_ABOVE_CAPACITY, "", to_replicas)
    return observed(decision(snapshot, from_replicas, to_replicas), snapshot, at=at, result=done)


def test_nothing_new_leaves_the_status_as_it_is() -> None:
    first = status_of(EMPTY, observed())
    second = status_of(first, observed(at=START + timedelta(minutes=5)))

    assert first == second


def test_what_a_tenant_or_a_server_wrote_is_one_printable_line_of_bounded_length() -> None:
    hostile = Unsized(Reason.INVALID_SPEC, "\x1b[31mred\nline\u202e" + "x" * 5000)
    written = status_of(EMPTY, observed(about=replace(resource(target(5), metrics(20.0)), sized=hostile)))
    again = status_of(written, observed(about=replace(resource(target(5), metrics(20.0)), sized=hostile)))

    for shown in written.conditions:
        assert shown.message.isprintable()
        assert len(shown.message) <= 1024
    assert again == written


def test_a_status_that_was_read_back_is_the_same() -> None:
    first = status_of(EMPTY, scaled(5, 9))
    back = InferenceDeploymentStatus.model_validate(document(first))

    assert back == first


@pytest.mark.parametrize(
    ("rate", "shown"),
    [(20.0, "20"), (21.9, "20"), (22.6, "23"), (17.4, "17"), (123.4, "120"), (0.0, "0")],
)
def test_a_live_rate_has_two_digits_and_moves_by_more_than_a_tenth(rate: float, shown: str) -> None:
    snapshot = resource(target(5), metrics(20.0))
    first = status_of(EMPTY, observed(decision(snapshot, 5, 5), snapshot))
    second = status_of(
        first, observed(decision(snapshot, 5, 5, arrival_requests_per_second=rate), snapshot)
    )  # fmt: skip

    assert second.traffic is not None
    assert second.traffic.live is not None
    assert second.traffic.live.requests_per_second == shown


@pytest.mark.parametrize(("rate", "shown"), [(0.14, "0.2"), (0.5, "0.2"), (0.02, "0.02"), (0.55, "0.55")])
def test_a_small_rate_moves_only_by_more_than_chance(rate: float, shown: str) -> None:
    """Chance makes 2 to 31 requests in the minute after one of 12: sqrt(12) +- 3 * sqrt(1 / 2), squared."""
    snapshot = resource(target(5), metrics(0.2))
    quiet = observed(decision(snapshot, 5, 5, arrival_requests_per_second=0.2), snapshot)
    moved = observed(decision(snapshot, 5, 5, arrival_requests_per_second=rate), snapshot)
    traffic = status_of(status_of(EMPTY, quiet), moved).traffic

    assert traffic is not None
    assert traffic.live is not None
    assert traffic.live.requests_per_second == shown


def test_an_unknown_rate_is_absent_and_never_zero() -> None:
    snapshot = resource(target(5), lost())
    held = decision(
        snapshot, 5, 5, outcome=Outcome.HELD, reason=Reason.MISSING, arrival_requests_per_second=None, prediction=None
    )
    status = status_of(EMPTY, observed(held, snapshot))

    assert "live" not in document(status)["traffic"]  # type: ignore[operator]
    assert "prediction" not in document(status)


@pytest.mark.parametrize(
    ("declared", "drift"),
    [
        (DECLARED, "live traffic is 10 % of the declared peak and 70 % of the declared average"),
        (Workload(2000, 200, peak_requests_per_second=16.0), "live traffic is 125 % of the declared peak"),
        (Workload(2000, 200, concurrent_requests=50), None),
        (None, None),
    ],
)
def test_drift_is_the_shown_live_rate_against_the_declared_ones(declared: Workload | None, drift: str | None) -> None:
    first = status_of(EMPTY, observed(declared=declared))
    snapshot = resource(target(5), metrics(21.0))
    moved = observed(decision(snapshot, 5, 5, arrival_requests_per_second=21.0), snapshot, declared=declared)
    second = status_of(first, moved)

    assert first.traffic is not None
    assert first.traffic.drift == drift
    assert second.traffic == first.traffic


def test_an_unknown_rate_has_no_drift() -> None:
    snapshot = resource(target(5), lost())
    held = decision(snapshot, 5, 5, arrival_requests_per_second=None, prediction=None)
    status = status_of(EMPTY, observed(held, snapshot))

    assert status.traffic is not None
    assert status.traffic.drift is None


def status_with(previous: InferenceDeploymentStatus = EMPTY, **figures: object) -> InferenceDeploymentStatus:
    snapshot = resource(target(5), metrics(20.0))
    return status_of(previous, observed(decision(snapshot, 5, 5, **figures), snapshot))


@pytest.mark.parametrize(
    ("tokens", "shown"), [(2134.0, 2100), (2300.0, 2100), (1900.0, 2100), (2400.0, 2400), (3.4, 3), (None, None)]
)
def test_live_lengths_have_two_digits_and_move_by_more_than_a_tenth(tokens: float | None, shown: int | None) -> None:
    first = status_with(input_tokens=2134.0, output_tokens=200.0)
    second = status_with(first, input_tokens=tokens, output_tokens=204.0)

    assert second.traffic is not None
    assert second.traffic.live is not None
    assert (second.traffic.live.input_tokens, second.traffic.live.output_tokens) == (shown, 200)


def test_lengths_of_few_requests_move_only_by_more_than_chance() -> None:
    """Mean lengths of 4 requests a window scatter by half of themselves."""
    first = status_with(arrival_requests_per_second=4 / 60, input_tokens=2000.0)
    second = status_with(first, arrival_requests_per_second=4 / 60, input_tokens=3500.0)

    assert second.traffic == first.traffic


def test_drift_speaks_of_the_lengths_that_are_measured() -> None:
    def drift(**tokens: float) -> str | None:
        traffic = status_with(EMPTY, **tokens).traffic
        assert traffic is not None
        return traffic.drift

    rates = "live traffic is 10 % of the declared peak and 70 % of the declared average"
    assert drift(input_tokens=3000.0, output_tokens=180.0) == (
        f"{rates}; inputs are 150 % and outputs are 90 % of the declared length"
    )
    assert drift(output_tokens=180.0) == f"{rates}; outputs are 90 % of the declared length"


def test_without_a_declared_rate_lengths_drift_alone() -> None:
    snapshot = resource(target(5), metrics(20.0))
    concurrent = Workload(2000, 200, concurrent_requests=50)
    seen = observed(decision(snapshot, 5, 5, input_tokens=1000.0), snapshot, declared=concurrent)
    traffic = status_of(EMPTY, seen).traffic

    assert traffic is not None
    assert traffic.drift == "inputs are 50 % of the declared length"


@pytest.mark.parametrize(
    ("rate", "method", "shown"),
    [
        (31.4, "Trend", ("31", "Trend")),
        (33.0, "Trend", ("31", "Trend")),
        (36.0, "Trend", ("36", "Trend")),
        (31.9, "Season", ("32", "Season")),
        (0.0, "Trend", ("0", "Trend")),
        (None, "", None),
    ],
)
def test_a_forecast_is_shown_with_its_method(rate: float | None, method: str, shown: tuple[str, str] | None) -> None:
    first = status_with(forecast_requests_per_second=31.0, forecast_method="Trend")
    traffic = status_with(first, forecast_requests_per_second=rate, forecast_method=method).traffic

    assert traffic is not None
    assert (traffic.forecast and (traffic.forecast.requests_per_second, traffic.forecast.method)) == shown


LEARNED = {"capacity_samples": 1000, "late_budgets_spent": 0.2, "capacity_factor": 0.9, "replica_speed": 0.95}


def calibration_of(status: InferenceDeploymentStatus) -> tuple[int | None, ...]:
    shown = status.calibration
    assert shown is not None
    return shown.service_factor_percent, shown.speed_percent, shown.late_budget_spent_percent, shown.samples


@pytest.mark.parametrize(
    "moved",
    [
        {"capacity_samples": 9000}, {"late_budgets_spent": 0.7}, {"late_budgets_spent": 1.0},
        {"capacity_factor": 0.97, "replica_speed": 1.05}, {"capacity_factor": 1.2},
    ],
)  # fmt: skip
def test_what_is_learned_is_no_reason_to_write(moved: dict[str, Any]) -> None:
    first = status_with(**LEARNED)

    assert status_with(first, **LEARNED | moved) == first


def test_what_is_learned_is_that_of_now_where_something_else_is_written() -> None:
    moved = {"capacity_samples": 9123, "late_budgets_spent": 0.7, "capacity_factor": 1.2, "replica_speed": 1.1}
    second = status_with(status_with(**LEARNED), **moved, arrival_requests_per_second=40.0)

    assert calibration_of(second) == (120, 110, 70, 9100)
    assert [c.message for c in second.conditions if c.type == "Calibrated"] == [
        "a replica serves 90 % of what was sized"
    ], "words that did not change keep their number"


@pytest.mark.parametrize(("factor", "shown"), [(0.9, 90), (0.899, 87), (0.88, 86), (0.5, 50)])
def test_a_capacity_that_falls_is_told_with_room_to_fall_on(factor: float, shown: int) -> None:
    second = status_with(status_with(**LEARNED), **LEARNED | {"capacity_factor": factor})

    assert calibration_of(second)[0] == shown


@pytest.mark.parametrize(
    ("told", "now"),
    [((0.5, 0.5), (0.7, 1.0)), ((0.7, 0.7), (0.7, 1.0)), ((0.7, 1.0), (0.7, 0.75))],
    ids=["faster again", "the tail in place of the speed", "the speed in place of the tail"],
)
def test_a_restart_takes_over_the_tail_that_there_is(told: tuple[float, float], now: tuple[float, float]) -> None:
    first, second = ({"capacity_factor": factor, "replica_speed": speed} for factor, speed in (told, now))

    shown = calibration_of(status_with(status_with(**LEARNED | first), **LEARNED | second))

    assert shown[:2] == (math.floor(100 * now[0] + 1e-6), round(100 * now[1]))


def test_what_was_learned_outlives_the_time_until_a_new_process_has_sized() -> None:
    told = status_with(**LEARNED | {"late_budgets_spent": 4.4, "capacity_samples": 80_000})
    unsized = resource(target(5), metrics(20.0), sized=Unsized(Reason.UNKNOWN, "not sized yet"))
    knows_nothing = decision(unsized, 5, 5, capacity_samples=None, late_budgets_spent=None, capacity_factor=1.0)

    first = status_of(told, observed(knows_nothing, unsized))

    assert first.calibration == told.calibration


def test_a_capacity_above_the_sized_one_may_fall_unsaid_as_far_as_that() -> None:
    first = status_with(**LEARNED | {"capacity_factor": 1.2})

    assert status_with(first, **LEARNED | {"capacity_factor": 1.0}) == first
    assert calibration_of(status_with(first, **LEARNED | {"capacity_factor": 0.99}))[0] == 97


@pytest.mark.parametrize(("spent", "shown"), [(0.9, 20), (1.0, 20), (1.2, 132)])
def test_an_overspent_late_budget_is_news(spent: float, shown: int) -> None:
    second = status_with(status_with(**LEARNED), **LEARNED | {"late_budgets_spent": spent})

    assert calibration_of(second)[2] == shown


@pytest.mark.parametrize(("spent", "shown"), [(1.3, 132), (1.1, 132), (0.95, 95), (1.4, 154)])
def test_an_overspent_late_budget_moves_by_more_than_chance(spent: float, shown: int) -> None:
    first = status_with(**LEARNED | {"late_budgets_spent": 1.2})

    assert calibration_of(status_with(first, **LEARNED | {"late_budgets_spent": spent}))[2] == shown


def test_a_better_configuration_is_recommended_until_it_is_found_to_be_none() -> None:
    better = replace(SIZED.configuration, tensor_parallel=2)
    found = status_of(EMPTY, observed(recommended=better, compared=True))
    not_compared_yet = status_of(found, observed())
    gone = status_of(found, observed(compared=True))

    assert found.sizing is not None
    assert found.sizing.recommended is not None
    assert found.sizing.recommended.tensor_parallel == 2
    assert not_compared_yet.sizing == found.sizing
    assert gone.sizing is not None
    assert gone.sizing.recommended is None


def full() -> Observed:
    """All that one tick can tell."""
    told = metrics(20.0, family="Triton", shortcomings=(Shortcoming(Reason.TTFT_NOT_OBSERVED, "turn it on"),))
    about = resource(target(5), told, pool="h100", in_default_pool=True, sized=replace(SIZED, sla=EVERY_LIMIT))
    made = decision(
        about, 5, 9, limited_by=Reason.POOL_EXHAUSTED, unmet_replicas=1, forecast_requests_per_second=31.0,
        forecast_method="Trend", input_tokens=2100.0, output_tokens=190.0, capacity_samples=40, late_budgets_spent=1.2,
        metrics_lost_seconds=90.0,
    )  # fmt: skip
    done = ScaleResult(Write.DONE, Reason.DEMAND_ABOVE_CAPACITY, "", 9)
    counted = Tally(
        hours=1, gpu_hours=5, saved_gpu_hours=35, requests=9, compared_requests=9, late_requests_allowed=1,
        late_requests_charged=1,
    )  # fmt: skip
    seen = observed(made, about, result=done, recommended=SIZED.configuration, compared=True)
    return replace(seen, time_to_ready_seconds=(30.0, 61.0), scorecard=Scorecard(START, {START.date(): counted}))


def test_every_field_of_the_schema_is_written() -> None:
    assert empty_fields(status_of(EMPTY, full())) == ELSEWHERE


def test_the_family_that_was_found_last_stays_while_nothing_is_known_and_follows_a_change() -> None:
    def shown(before: InferenceDeploymentStatus, seen: Metrics) -> InferenceDeploymentStatus:
        snapshot = resource(target(5), seen)
        return status_of(before, observed(decision(snapshot, 5, 5), snapshot))

    found = shown(EMPTY, metrics(20.0, family="NIM 1.x"))
    blind, changed = shown(found, lost()), shown(found, metrics(20.0, family="vLLM"))

    assert [each.metrics and each.metrics.family for each in (found, blind, changed)] == ["NIM 1.x", "NIM 1.x", "vLLM"]


def test_the_start_that_decisions_count_with_is_shown_once_one_was_seen() -> None:
    seen = full()
    warm = replace(seen, resource=replace(seen.resource, time_to_ready_seconds=220.0))
    first, second = status_of(EMPTY, warm), status_of(EMPTY, replace(warm, time_to_ready_seconds=None))

    assert first.timing is not None
    assert second.timing is not None
    assert (first.timing.next_start_seconds, second.timing.next_start_seconds) == (220, None)


@pytest.mark.parametrize("edited", ["yesterday", "2026-11-21T11:58:30", ""])
def test_a_time_that_was_edited_into_something_else_is_written_anew(edited: str) -> None:
    before = status_of(EMPTY, full())
    assert before.timing is not None
    spoiled = before.model_copy(update={"timing": before.timing.model_copy(update={"metrics_lost_time": edited})})

    assert status_of(spoiled, full()).timing == before.timing
    assert before.timing.metrics_lost_time == "2026-11-21T11:58:30Z"


def test_a_scaling_is_recorded_with_what_explains_it() -> None:
    status = status_of(EMPTY, scaled(5, 9))
    (record,) = status.decisions

    assert (record.from_replicas, record.to_replicas, record.reason) == (5, 9, "DemandAboveCapacity")
    for part in ("5 -> 9", "20.0 requests/s", "TTFT P95", "at 8 replicas", "at 9", "limit 60", "2026-11-21T12:00:00Z"):
        assert part in record.message
    assert status.timing is not None
    assert status.timing.last_scale_time == "2026-11-21T12:00:00Z"
    assert status.replicas == 9


@pytest.mark.parametrize("write", [Write.REDECIDE, Write.FAILED])
def test_a_write_that_did_not_happen_is_no_scaling(write: Write) -> None:
    snapshot = resource(target(5), metrics(20.0))
    status = status_of(EMPTY, observed(decision(snapshot, 5, 9), snapshot, result=ScaleResult(write)))

    assert (status.decisions, status.replicas, status.desired_replicas) == ((), 5, 9)


def test_advice_is_recorded_once_for_as_long_as_it_stays() -> None:
    snapshot = resource(target(5), metrics(20.0), policy=replace(POLICY, mode=ScalingMode.ADVISORY))
    advised = observed(decision(snapshot, 5, 9), snapshot)
    first = status_of(EMPTY, advised)
    second = status_of(first, replace(advised, now=START + timedelta(minutes=1)))

    assert len(first.decisions) == 1
    assert second == first
    assert condition(first, "ScalingActive") == ("False", "Advisory")


def test_the_last_ten_scalings_are_kept_newest_first() -> None:
    status = EMPTY
    for step in range(14):
        status = status_of(status, scaled(step + 1, step + 2, START + timedelta(seconds=step)))

    assert [d.to_replicas for d in status.decisions] == list(range(15, 15 - KEPT_DECISIONS, -1))


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    later = START + timedelta(minutes=1)
    healthy = status_of(EMPTY, observed())
    other_reason = status_of(healthy, observed(about=resource(target(5), metrics(20.0, health=Reason.IDLE)), at=later))
    unhealthy = status_of(healthy, observed(about=resource(target(5), lost()), at=later))

    def time(status: InferenceDeploymentStatus) -> str:
        return next(c.last_transition_time for c in status.conditions if c.type == "MetricsHealthy")

    assert time(other_reason) == time(healthy) == "2026-11-21T12:00:00Z"
    assert time(unhealthy) == "2026-11-21T12:01:00Z"


def test_a_number_that_moves_inside_a_message_is_no_change() -> None:
    def seen(text: str) -> Observed:
        return observed(about=resource(target(5), metrics(20.0, detail=text)))

    first = status_of(EMPTY, seen("3 of 7 pods, sample 4.5 s old"))

    assert status_of(first, seen("5 of 9 pods, sample 12 s old")) == first
    assert status_of(first, seen("3 of 7 pods without series")) != first


def test_a_number_of_another_generation_or_of_another_size_is_a_change() -> None:
    def message(kind: str, before: InferenceDeploymentStatus, about: ResourceSnapshot) -> str:
        (found,) = [c for c in status_of(before, observed(about=about)).conditions if c.type == kind]
        return found.message

    seen = resource(target(5), metrics(20.0, detail="3 of 7 pods"))
    before = status_of(EMPTY, observed(about=seen))
    later = replace(seen, generation=seen.generation + 1, metrics=metrics(20.0, detail="5 of 9 pods"))
    smaller = replace(seen, sized=replace(SIZED, replicas_for_declared_peak=1))

    assert message("MetricsHealthy", before, later) == "5 of 9 pods"
    assert message("SizingReady", before, smaller) == "1 replicas for the declared peak"


def test_a_wide_error_band_is_told_with_what_a_new_deployment_starts_with() -> None:
    wide = replace(SIZED, most_replicas_for_declared_peak=67, careful_share=0.6)
    status = status_of(EMPTY, observed(about=replace(resource(target(5), metrics(20.0)), sized=wide)))
    (found,) = [c for c in status.conditions if c.type == "SizingReady"]

    assert found.message == (
        "40 replicas for the declared peak, and up to 67: one may carry only 60 % of what it was sized for, so a new"
        " deployment starts with replicas for that"
    )


@pytest.mark.parametrize(
    ("about", "kind", "expected"),
    [
        pytest.param(resource(target(5), metrics(1)), "Ready", ("True", "Ready"), id="all is well"),
        pytest.param(resource(target(5), lost()), "Ready", ("False", "Missing"), id="no metrics, not ready"),
        pytest.param(
            resource(target(5), lost(Reason.STALE)), "Ready", ("True", "Ready"), id="stale metrics are still ready"
        ),
        pytest.param(
            resource(TargetMissing(Reason.TARGET_NOT_FOUND, "Deployment nim not found"), lost()),
            "Ready", ("False", "TargetNotFound"), id="no target",
        ),
        # Its table has answers of 1.9 s.
        pytest.param(
            resource(target(5, ending=Ending(1.0)), metrics(1)),
            "ScalingActive", ("True", "GraceTooShort"), id="answers are cut short",
        ),
        pytest.param(
            resource(target(5, ending=Ending(30.0)), metrics(1)), "ScalingActive", ("True", "Active"), id="time to end"
        ),
        pytest.param(
            resource(target(5), metrics(1), conflict="HPA x"), "ScalingActive", ("False", "Conflict"), id="conflict"
        ),
        pytest.param(
            resource(target(5), metrics(1), sized=Unsized(Reason.UNKNOWN_MODEL, "unknown model")),
            "SizingReady", ("False", "UnknownModel"), id="not sized",
        ),
        pytest.param(
            resource(target(5), metrics(1), sized=Unsized(Reason.UNKNOWN_MODEL, "unknown model")),
            "SLAFeasible", ("Unknown", "Unknown"), id="not sized says nothing about the SLA",
        ),
        pytest.param(
            resource(target(5), metrics(1), sized=Unsized(Reason.SINGLE_REQUEST_TTFT, "one request takes 400 ms")),
            "SLAFeasible", ("False", "SingleRequestTTFT"), id="infeasible",
        ),
        pytest.param(
            resource(target(5), metrics(1, ttft=TtftInterval(100, 250, 180, 500))),
            "SLAMet", ("True", "SLAMet"), id="bucket inside the limit",
        ),
        pytest.param(
            resource(target(5), metrics(1, ttft=TtftInterval(500, 750, 600, 500))),
            "SLAMet", ("False", "SLAMissed"), id="bucket outside the limit",
        ),
        pytest.param(
            resource(target(5), metrics(1, ttft=TtftInterval(250, 500, 280, 500))),
            "SLAMet", ("Unknown", "LowResolution"), id="bucket around the limit",
        ),
        pytest.param(
            resource(target(5), metrics(1, ttft=TtftInterval(250, None, 280, 500))),
            "SLAMet", ("Unknown", "LowResolution"), id="last bucket",
        ),
        pytest.param(resource(target(5), lost()), "SLAMet", ("Unknown", "Unknown"), id="no TTFT is not a good TTFT"),
        pytest.param(
            resource(target(5), metrics(1), sized=replace(SIZED, sla=EVERY_LIMIT)),
            "SLAMet", ("Unknown", "Unknown"), id="limits that are not measured are not met",
        ),
        pytest.param(
            resource(
                target(5), metrics(1, ttft=TtftInterval(500, 750, 600, 500)), sized=replace(SIZED, sla=EVERY_LIMIT)
            ),
            "SLAMet", ("False", "SLAMissed"), id="one limit is enough to miss the SLA",
        ),
        pytest.param(
            resource(target(5), metrics(1), sized=replace(SIZED, sla=Sla())),
            "SLAMet", ("Unknown", "Unknown"), id="no limit cannot be met",
        ),
        pytest.param(
            resource(target(5), metrics(1, health=Reason.ERRORS_PRESENT)),
            "MetricsHealthy", ("False", "ErrorsPresent"), id="requests that fail",
        ),
        pytest.param(
            resource(target(5), metrics(1, health=Reason.ERRORS_PRESENT)),
            "Ready", ("True", "Ready"), id="requests that fail are no reason to wait for",
        ),
        pytest.param(
            resource(target(5, unschedulable=2), metrics(1)),
            "CapacityAvailable", ("False", "PodsUnschedulable"), id="pods without a place",
        ),
        pytest.param(
            resource(target(5, ready=3, refused="exceeded quota: gpus"), metrics(1)),
            "CapacityAvailable", ("False", "PodsRefused"), id="pods that a quota refuses",
        ),
        pytest.param(
            resource(target(5, ready=3, starting=2, hindrances=Hindrances(gated=2, gates="kueue")), metrics(1)),
            "CapacityAvailable", ("False", "PodsGated"), id="pods behind a gate",
        ),
        pytest.param(
            resource(target(5, unschedulable=2, hindrances=Hindrances(preempted=1)), metrics(1)),
            "CapacityAvailable", ("False", "PodsPreempted"), id="pods that had to end for others",
        ),
        pytest.param(
            resource(target(5, hindrances=Hindrances(preempted=1)), metrics(1)),
            "CapacityAvailable", ("True", "Available"), id="others have found their places elsewhere",
        ),
        pytest.param(
            resource(target(5, starting=1, hindrances=Hindrances(unmounted=1, volume_claim="weights")), metrics(1)),
            "CapacityAvailable", ("False", "VolumesNotMounted"), id="pods whose volume another node has",
        ),
        pytest.param(
            resource(target(5, failing=1), metrics(1)),
            "CapacityAvailable", ("True", "Available"), id="pods that crash have their GPUs",
        ),
        pytest.param(
            resource(target(5, refused="exceeded quota: gpus"), metrics(1)),
            "CapacityAvailable", ("True", "Available"), id="a quota that refused no pod of these",
        ),
    ],
)  # fmt: skip
def test_conditions_say_what_is(about: ResourceSnapshot, kind: str, expected: tuple[str, str]) -> None:
    assert condition(status_of(EMPTY, observed(about=about)), kind) == expected


def test_the_message_names_the_limits_that_are_not_measured() -> None:
    about = resource(target(5), metrics(1), sized=replace(SIZED, sla=EVERY_LIMIT))
    (found,) = [c for c in status_of(EMPTY, observed(about=about)).conditions if c.type == "SLAMet"]

    assert found.message == "TTFT P95 in (60, 100] ms, limit 300 ms; not measured live: interTokenLatency, endToEnd"


def server(seconds: float) -> Drain:
    return Drain("--shutdown-timeout", seconds)


GRACE, SERVER = "terminationGracePeriodSeconds", "--shutdown-timeout or the preStop sleep"
TIMES = "0 s (terminationGracePeriodSeconds {:g}, preStop {:g}, --shutdown-timeout {:g}): raise "


@pytest.mark.parametrize(
    ("ending", "rendered", "told"),
    [
        (Ending(1.0), False, f"1 s ({GRACE} 1): raise {GRACE}"),
        (Ending(60.0, 5.0, server(0)), False, TIMES.format(60, 5, 0) + SERVER),
        (Ending(2.0, 1.0, server(0)), False, TIMES.format(2, 1, 0) + f"{SERVER} and {GRACE}"),
        (Ending(5.0, 5.0, server(60)), False, TIMES.format(5, 5, 60) + GRACE),
        (Ending(60.0, 5.0, server(0)), True, TIMES.format(60, 5, 0) + f"spec.runtime.{GRACE}"),
        (Ending(60.0, 5.0, server(45)), False, ""),
    ],
)
def test_the_message_says_what_breaks_answers_off(ending: Ending, rendered: bool, told: str) -> None:
    about = resource(target(5, ending=ending), metrics(1), claims=Claims("nim", is_rendered=rendered))
    (found,) = [c for c in status_of(EMPTY, observed(about=about)).conditions if c.type == "ScalingActive"]

    before = "; an answer takes up to 2 s, and a pod that ends leaves it "
    assert found.message == "replicas follow the load" + (before + told if told else "")


def test_the_message_names_the_quota() -> None:
    about = resource(target(5, ready=3, refused='pods "nim-7" is forbidden: exceeded quota: gpus'), metrics(1))
    (found,) = [c for c in status_of(EMPTY, observed(about=about)).conditions if c.type == "CapacityAvailable"]

    assert found.message == '2 pods are refused: pods "nim-7" is forbidden: exceeded quota: gpus'


@pytest.mark.parametrize(
    ("limited_by", "limited", "capacity"),
    [
        (None, "False", "True"),
        (Reason.BURST_HEADROOM, "True", "True"),
        (Reason.POOL_EXHAUSTED, "True", "False"),
        (Reason.POOL_INVENTORY_UNKNOWN, "True", "Unknown"),
        (Reason.STABILIZING, "False", "True"),
    ],
)
def test_a_limit_is_a_cap_and_not_a_wait(limited_by: Reason | None, limited: str, capacity: str) -> None:
    snapshot = resource(target(5), metrics(1), pool="h100")
    status = status_of(EMPTY, observed(decision(snapshot, 5, 5, limited_by=limited_by), snapshot))

    assert condition(status, "ScalingLimited")[0] == limited
    assert condition(status, "CapacityAvailable")[0] == capacity


@pytest.mark.parametrize(
    ("factor", "reason"),
    [(1.0, "AsSized"), (0.997, "AsSized"), (0.81, "Learned"), (1.3, "Learned"), (0.5, "Pegged"), (2.0, "Pegged")],
)
def test_what_was_learned_of_live_traffic_is_shown(factor: float, reason: str) -> None:
    snapshot = resource(target(5), metrics(1))
    status = status_of(EMPTY, observed(decision(snapshot, 5, 5, capacity_factor=factor), snapshot))

    assert condition(status, "Calibrated")[1] == reason
    assert status.calibration is not None
    assert status.calibration.state == reason


@given(
    health=st.sampled_from([Reason.PRESENT, Reason.IDLE, Reason.MISSING, Reason.STALE, Reason.PARTIAL]),
    replicas=st.integers(0, 50),
    to=st.integers(1, 60),
    unmet=st.integers(0, 20),
    rate=st.none() | st.floats(0, 1e6),
    reason=st.sampled_from(list(Reason)),
    text=st.text(max_size=3000),
)
def test_whatever_happens_the_status_fits_its_schema_and_is_stable(
    health: Reason, replicas: int, to: int, unmet: int, rate: float | None, reason: Reason, text: str
) -> None:
    mtr: Metrics = metrics(1.0, health=health, detail=text)
    tgt: Target = target(replicas)
    snapshot = resource(tgt, mtr, conflict=text[:10])
    made = decision(
        snapshot, replicas, to, unmet_replicas=unmet, arrival_requests_per_second=rate, reason=reason,
        limited_by=reason, message=text,
    )  # fmt: skip
    first = status_of(EMPTY, observed(made, snapshot))

    assert InferenceDeploymentStatus.model_validate(document(first)) == first
    assert status_of(first, observed(made, snapshot, at=START + timedelta(hours=1))) == first


@pytest.mark.cluster
async def test_the_real_api_server_takes_the_whole_status(api: KubernetesCluster) -> None:
    live = await api.create(infd("told"))
    ref = ObjectRef.of(live)
    status = status_of(EMPTY, full())
    written = await api.replace_status(ref, document(status), uid=live["metadata"]["uid"])

    assert written["status"] == document(status)


@pytest.mark.cluster
async def test_the_commands_of_the_documentation_read_the_scorecard(cluster: Cluster, api: KubernetesCluster) -> None:
    """The page shows what kubectl prints of these two days: attainment, GPU-hours, error budget and burn rates."""
    pages = [b.text for b in blocks(ROOT / "docs/operate.md", "text") if ".status.scorecard." in b.text]
    shown = [line for text in pages for line in text.splitlines()]
    today, yesterday = (
        Tally(12, 141.6, 326.4, 950_400, 8553, 8553, 900_000, 100_800, 1, 9504, 8553),
        Tally(15, 260.25, 324.75, 1_512_000, 9072, 9072, 1_400_000, 189_000, 0, 15_120, 9072),
    )
    nine = START.replace(day=20, hour=9)
    card = Scorecard(nine, {START.date(): today, nine.date(): yesterday})
    cluster.kubectl("create", "namespace", "call-center")
    made = infd()
    live = await api.create(made | {"metadata": made["metadata"] | {"namespace": "call-center"}})
    status = status_of(EMPTY, replace(observed(), scorecard=card))
    await api.replace_status(ObjectRef.of(live), document(status), uid=live["metadata"]["uid"])
    printed = []
    for command in re.findall(r"^\$ kubectl (.*)$", "\n".join(shown), flags=re.MULTILINE):
        output = cluster.kubectl(*shlex.split(command)).stdout
        printed += [f"$ kubectl {command}", *(line.rstrip() for line in output.splitlines())]

    assert printed == shown


def test_a_default_pool_is_told_for_the_time_when_it_cannot_be_read() -> None:
    def capacity(**changes: Any) -> dict[str, object]:
        status = status_of(EMPTY, observed(about=resource(target(5), metrics(20.0), **changes)))
        assert status.capacity is not None
        return status.capacity.model_dump(by_alias=True, exclude_none=True)

    assert capacity(pool="h100", in_default_pool=True)["byDefault"] is True
    assert "byDefault" not in capacity(pool="h100")
