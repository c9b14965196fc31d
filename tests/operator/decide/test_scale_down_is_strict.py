"""Giving GPUs back needs a full window of trustworthy data, a safe prediction and time."""

from dataclasses import replace

import numpy as np
import pytest

from firsttoken_operator.decide.bounds import Bounds, resource_bounds
from firsttoken_operator.decide.case import Case
from firsttoken_operator.decide.down import Reduction, pods_starting, veto
from firsttoken_operator.domain import (
    DEPLOYMENT,
    UNKNOWN_TIME_TO_READY_SECONDS,
    Idle,
    Metrics,
    Missing,
    Outcome,
    Reason,
    ScaleDown,
    ScalingMode,
    Target,
    TargetKind,
    Tick,
    TtftInterval,
    Value,
)
from firsttoken_operator.domain.target_kinds import LEADER_WORKER_SET, STATEFUL_SET
from firsttoken_operator.estimate import DEFAULT, Demand, ResourceMemory
from firsttoken_sizing.performance.limits import MissingPercentile, meets
from firsttoken_sizing.performance.table import CapacityTable
from firsttoken_sizing.profile import Latency
from tests.operator.decide.builders import (
    POLICY,
    SIZED,
    SLA,
    TICK_SECONDS,
    Fleet,
    late,
    lost,
    metrics,
    resource,
    table,
    target,
)


def settled(replicas: int = 40, seconds: float = 315, **changes: object) -> Fleet:
    """A fleet that was watched at full load for longer than a window."""
    fleet = Fleet(replicas=replicas, **changes)  # type: ignore[arg-type]
    fleet.run(metrics(replicas * 5 * 0.999), seconds)
    assert fleet.replicas == replicas
    return fleet


def first_change(fleet: Fleet, mtr: Metrics, seconds: float, **target_changes: object) -> float | None:
    """Seconds until replicas changed, or None."""
    start = fleet.now_seconds
    while fleet.now_seconds - start < seconds:
        if fleet.tick(mtr, **target_changes).changes:
            return fleet.now_seconds - start
    return None


def test_nothing_is_given_back_at_a_tick_at_which_the_last_scrape_failed() -> None:
    low = metrics(10.0)
    lowered_seconds = first_change(settled(), low, 1800)
    assert lowered_seconds is not None
    fleet = settled()
    fleet.run(low, lowered_seconds - TICK_SECONDS)
    held = fleet.tick(replace(low, overdue=True))

    assert (held.changes, held.limited_by) == (False, Reason.STABILIZING)
    assert held.metrics_health is Reason.PRESENT
    assert fleet.tick(low).to_replicas < 40


def test_nothing_is_given_back_before_the_whole_window_was_low() -> None:
    fleet = settled()

    fleet.run(metrics(50), 285)

    assert fleet.replicas == 40
    fleet.run(metrics(50), 45)
    assert fleet.replicas == 30


def test_one_step_at_a_time_with_a_new_measurement_in_between() -> None:
    fleet = settled()
    sizes = [d.to_replicas for d in fleet.run(metrics(50), 900) if d.changes]

    # Deadband: 50 requests/s need 10 replicas, 52.5 need 11.
    assert sizes == [30, 23, 18, 14, 11]


def test_a_single_busy_sample_holds_the_fleet_for_another_window() -> None:
    fleet = settled()
    fleet.run(metrics(50), 240)
    fleet.tick(metrics(150))
    fleet.run(metrics(50), 285)

    assert fleet.replicas >= 31


def test_at_least_one_replica_is_a_step() -> None:
    fleet = settled(replicas=3)
    sizes = [d.to_replicas for d in fleet.run(metrics(1), 900) if d.changes]

    assert sizes == [2]


def test_never_below_the_minimum() -> None:
    fleet = settled(replicas=8)
    fleet.run(metrics(0.1), 3600)

    assert fleet.replicas == POLICY.min_replicas


def test_proven_idleness_goes_to_the_minimum() -> None:
    fleet = settled(replicas=8)
    idle = replace(metrics(0), health=Reason.IDLE, arrivals=Idle(), error_share=Idle(), ttft=None)
    fleet.run(idle, 3600)

    assert fleet.replicas == POLICY.min_replicas


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"error_share": Value(0.02)}, Reason.ERRORS_PRESENT),
        ({"error_share": Missing(Reason.NO_SERIES)}, Reason.ERRORS_PRESENT),
        ({"kv_percent": Value(80)}, Reason.KV_PRESSURE),
        ({"ttft": TtftInterval(500, 750, 600, 1000)}, Reason.TTFT_ABOVE_SLA),
        ({"ttft": TtftInterval(250, 500, 400, 1000)}, Reason.LOW_RESOLUTION),
        ({"health": Reason.PARTIAL}, Reason.PARTIAL),
    ],
)
def test_doubt_keeps_the_fleet(changes: dict[str, object], reason: Reason) -> None:
    fleet = settled()
    decisions = fleet.run(metrics(50, **changes), 900)

    assert fleet.replicas == 40
    assert decisions[-1].reason is reason


def test_a_bucket_that_straddles_the_sla_is_no_doubt_when_the_mean_is_as_predicted() -> None:
    fleet = settled()

    fleet.run(metrics(50, ttft=TtftInterval(250, 500, 35, 1000)), 345)

    assert fleet.replicas == 30


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ({"rollout": True}, Reason.ROLLOUT),
        ({"ready": 39, "starting": 1}, Reason.PODS_STARTING),
        ({"terminating": 2, "draining": 1}, Reason.PODS_DRAINING),
    ],
)
def test_a_fleet_in_motion_is_left_alone(pods: dict[str, object], reason: Reason) -> None:
    fleet = settled()
    decisions = fleet.run(metrics(50), 900, **pods)

    assert fleet.replicas == 40
    assert decisions[-1].reason is reason


def test_stuck_pods_do_not_keep_the_fleet() -> None:
    fleet = settled()
    fleet.run(metrics(50), 330, ready=38, stuck=2)

    assert fleet.replicas == 30


@pytest.mark.parametrize(
    ("kind", "pods", "shrinks"),
    [
        (STATEFUL_SET, {"ready": 38, "stuck": 1}, True),
        (STATEFUL_SET, {"ready": 39}, True),
        (LEADER_WORKER_SET, {"ready": 39}, True),
        (STATEFUL_SET, {"ready": 38, "starting": 1}, False),
        (DEPLOYMENT, {"ready": 39}, False),
    ],
    ids=["behind a stuck one", "never made", "groups", "one after the other", "of a Deployment"],
)
def test_pods_that_a_kind_does_not_make_keep_no_fleet(kind: TargetKind, pods: dict[str, int], shrinks: bool) -> None:
    fleet = settled()
    fleet.run(metrics(50), 900, kind=kind, **pods)

    assert (fleet.replicas < 40) is shrinks


def test_pods_are_awaited_for_as_long_as_a_watch_may_be_behind() -> None:
    fleet = settled()
    fleet.tick(metrics(50), kind=STATEFUL_SET)
    at_once = Reduction(case_after(fleet, 30), Demand(50.0, 0.0, 0.0), 35, None)
    later = Reduction(case_after(fleet, 90), Demand(50.0, 0.0, 0.0), 35, None)

    assert [pods_starting(at_once), pods_starting(later)] == [Reason.PODS_STARTING, None]


def case_after(fleet: Fleet, seconds: float) -> Case:
    """A StatefulSet of which one pod is not seen, so long after its size was changed."""
    about, memory = resource(target(40, ready=39, kind=STATEFUL_SET), metrics(50)), fleet.known
    tick, limits = Tick(seconds, TICK_SECONDS, seconds, TICK_SECONDS), Bounds(0, 99, Reason.BURST_HEADROOM)
    assert isinstance(about.target, Target)
    return Case(about, about.target, SIZED, replace(memory, changed_seconds=0.0), tick, DEFAULT, None, None, limits)


def test_a_pause_starts_the_window_again() -> None:
    fleet = settled()
    assert first_change(fleet, metrics(50), 270) is None
    fleet.policy = replace(POLICY, mode=ScalingMode.PAUSED)
    fleet.tick(metrics(50))
    fleet.policy = POLICY

    assert first_change(fleet, metrics(50), 900) == pytest.approx(POLICY.stabilization_seconds + TICK_SECONDS, abs=15)


@pytest.mark.parametrize("unknown", [Reason.MISSING, Reason.STALE, Reason.RECOVERING, Reason.PARTIAL])
def test_one_doubtful_sample_starts_the_window_again(unknown: Reason) -> None:
    fleet = settled()
    fleet.run(metrics(50), 285)
    fleet.tick(lost(unknown))

    assert first_change(fleet, metrics(50), 600) == pytest.approx(315, abs=TICK_SECONDS)


def test_a_restart_starts_the_window_again() -> None:
    fleet = settled()
    fleet.run(metrics(50), 285)
    fleet.restart()

    assert first_change(fleet, metrics(50), 600) == pytest.approx(315, abs=TICK_SECONDS)


@pytest.mark.parametrize("jump_seconds", [-86_400, 86_400], ids=["backwards", "ahead"])
def test_a_clock_that_jumps_never_brings_a_scale_down_earlier(jump_seconds: float) -> None:
    fleet = settled()
    fleet.run(metrics(50), 150)
    fleet.now_seconds += jump_seconds

    assert first_change(fleet, metrics(50), 600) >= 300 - 150 - 2 * TICK_SECONDS  # type: ignore[operator]


def test_a_user_who_says_never_keeps_every_replica() -> None:
    fleet = settled(policy=replace(POLICY, scale_down=ScaleDown.NEVER))
    decisions = fleet.run(metrics(5), 900)

    assert fleet.replicas == 40
    assert decisions[-1].reason is Reason.SCALE_DOWN_NEVER


def test_a_lowered_maximum_is_approached_in_steps() -> None:
    fleet = settled()
    fleet.policy = replace(POLICY, max_replicas=20)
    sizes = [d.to_replicas for d in fleet.run(metrics(190), 1200) if d.changes]

    assert sizes == [30, 23, 20]


def test_a_lowered_maximum_is_never_undercut_however_low_the_load() -> None:
    fleet = settled(replicas=11)
    fleet.policy = replace(POLICY, max_replicas=10, scale_down=ScaleDown.NEVER, scale_down_step_percent=100)
    fleet.run(metrics(5, error_share=Value(0.3)), 1200)

    assert fleet.replicas == 10


def test_a_ttft_histogram_that_is_missing_is_doubt() -> None:
    fleet = settled()
    decisions = fleet.run(metrics(50, ttft=None), 900)

    assert fleet.replicas == 40
    assert decisions[-1].reason is Reason.PARTIAL


def test_one_bad_minute_does_not_keep_a_fleet_that_was_good_all_window() -> None:
    fleet = settled()
    fleet.run(metrics(50, ttft=late(0.0)), 270)
    fleet.tick(metrics(50, ttft=late(0.08)))
    fleet.run(metrics(50, ttft=late(0.0)), 60)

    assert fleet.replicas == 30


def test_too_many_late_over_the_window_keep_the_fleet() -> None:
    fleet = settled()
    decisions = fleet.run(metrics(150, ttft=late(0.08)), 600)

    assert fleet.replicas == 40
    assert decisions[-1].reason is Reason.TTFT_ABOVE_SLA


def test_too_few_requests_for_a_percentile_are_no_doubt() -> None:
    fleet = settled(replicas=8)
    fleet.run(metrics(0.1, ttft=None), 345)

    assert fleet.replicas == 6


def test_the_prediction_is_made_at_the_size_it_goes_to() -> None:
    assert vetoed(table(), 150, 29) is Reason.PREDICTION_ABOVE_SLA
    assert vetoed(table(), 150, 30) is None


def test_a_decision_without_change_says_what_it_waits_for() -> None:
    fleet = settled()
    decision = fleet.tick(metrics(50))
    fleet.run(metrics(50), 240)
    fleet.restart()

    assert decision.outcome is Outcome.STEADY
    assert fleet.tick(metrics(50)).message.endswith("40 replicas stay (Stabilizing)")


@pytest.mark.parametrize(("ready_seconds", "seconds"), [(180, 345), (600, 645), (7200, 1845)])
def test_what_takes_long_to_start_is_kept_for_longer(ready_seconds: float, seconds: float) -> None:
    fleet = settled()
    fleet.resource_changes["time_to_ready_seconds"] = ready_seconds
    fleet.run(metrics(190), 2700)
    fleet.run(metrics(50), seconds - 60)
    kept = fleet.replicas
    fleet.run(metrics(50), 120)

    assert kept == 40
    assert fleet.replicas < 40


def test_a_fleet_of_which_no_start_was_seen_is_kept_as_long_as_a_start_may_take() -> None:
    fleet = settled(policy=replace(POLICY, stabilization_seconds=120))

    assert first_change(fleet, metrics(50), 600) == pytest.approx(UNKNOWN_TIME_TO_READY_SECONDS, abs=2 * TICK_SECONDS)


def test_a_prediction_is_judged_as_sizing_judges_the_same_operating_point() -> None:
    known = table()
    inside = known.at(known.capacity_requests_per_second)
    at_the_limit = replace(inside, ttft=replace(inside.ttft, p95=300 * (1 + 1e-12)))
    without = replace(inside, ttft=Latency(mean=inside.ttft.mean))

    assert meets(at_the_limit, SLA) is True, "rounding is no broken limit"
    assert meets(without, SLA) is None
    assert meets(without, SLA, MissingPercentile.JUDGED_BY_MEAN) is True
    assert vetoed(known, 150, 30) == vetoed(replace(known, ttft=known.ttft * (1 + 1e-12)), 150, 30) is None
    assert vetoed(replace(known, ttft=np.where(np.arange(5) == 0, known.ttft, np.nan)), 150, 30) is None
    assert vetoed(replace(known, ttft=known.ttft * 1.01), 150, 30) is Reason.PREDICTION_ABOVE_SLA


def vetoed(known: CapacityTable, load: float, to_replicas: int) -> Reason | None:
    """Veto against making 40 replicas as many, at this load."""
    sized, seen = replace(SIZED, table=known), resource(target(40), metrics(load))
    memory = ResourceMemory("d-1", "", 40, healthy_since_seconds=0.0)
    demand, limits = Demand(load, 0, 0), resource_bounds(seen, sized)
    case = Case(seen, target(40), sized, memory, Tick(1000, 15, 1000, 15), DEFAULT, demand, None, limits)
    return veto(Reduction(case, demand, to_replicas, above=None))
