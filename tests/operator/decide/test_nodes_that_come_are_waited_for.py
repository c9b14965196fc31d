"""Pods that wait for nodes: in a cloud that is slow they are waited for, in one that has no more they are told of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.decide import Memory, decide, judge_facts, judge_pool
from firsttoken_operator.decide.hindered import hindrance
from firsttoken_operator.domain import (
    Decision,
    FleetSnapshot,
    Hindrances,
    Metrics,
    Outcome,
    PoolSnapshot,
    Provisioning,
    Reason,
    Target,
)
from tests.operator.decide.builders import TICK_SECONDS, lost, metrics, resource, target
from tests.operator.decide.test_a_pool_is_one_transaction import POOL

DAY = 86400.0


def cloud(slowest: float | None = None, newest: float | None = DAY) -> PoolSnapshot:
    """A pool whose nodes come by themselves; `slowest`: what they took at most, `newest`: age of the youngest."""
    learned = None if slowest is None else Provisioning(slowest / 2, slowest, slowest, 8)
    return replace(
        POOL, budget_gpus=None, on_prem=False, is_elastic=True, is_provisioned=True, servers=None,
        provisioning=learned, newest_node_seconds=newest,
    )  # fmt: skip


def waiting(seconds: float, pods: int = 4, **changes: object) -> Target:
    """30 replicas, of which so many pods have waited for a node for so long."""
    held = Hindrances(said="0/8 nodes are available", placeless_seconds=(seconds,) * pods)
    waits = {"starting": pods, "unschedulable": pods, "unplaced": pods, "waits_seconds": (seconds,) * pods}
    return target(30, **{"ready": 30 - pods, "hindrances": held} | waits | changes)


def judged(tgt: Target, of: PoolSnapshot, time_scale: float = 1.0) -> Target:
    snapshot = FleetSnapshot(0, TICK_SECONDS, (resource(tgt, metrics(20), pool="h100"),), {"h100": of})
    (found,) = judge_facts(snapshot, time_scale=time_scale).resources
    assert isinstance(found.target, Target)
    return found.target


def decided(tgt: Target, of: PoolSnapshot, seen: Metrics) -> Decision:
    snapshot = FleetSnapshot(0, TICK_SECONDS, (resource(tgt, seen, pool="h100"),), {"h100": of})
    (decision,) = decide(judge_facts(snapshot), Memory())[0]
    return decision


@pytest.mark.parametrize(
    ("slowest", "seconds", "newest", "overdue"),
    [
        (None, 800, None, False),
        (None, 901, None, True),
        (130, 250, DAY, False),
        (130, 310, DAY, True),
        (130, 310, 100, False),
        (130, 899, 100, False),
        (130, DAY, 100, True),
        (None, DAY, 100, True),
        (240, 470, DAY, False),
        (240, 481, DAY, True),
    ],
)
def test_the_worked_table_is_what_happens(
    slowest: float | None, seconds: float, newest: float | None, overdue: bool
) -> None:
    found = judged(waiting(seconds), cloud(slowest, newest))
    reason, _ = hindrance(found) or ("", "")

    assert reason == (Reason.INSUFFICIENT_CAPACITY if overdue else Reason.NODES_PROVISIONING)
    assert (found.stuck, found.starting) == ((4, 0) if overdue else (0, 4))


def test_measured_times_are_not_divided_by_the_time_scale() -> None:
    assert judged(waiting(91), cloud(None, None), time_scale=10).stuck == 4
    assert judged(waiting(31), cloud(1.0), time_scale=10).stuck == 4
    assert judged(waiting(31), cloud(20.0), time_scale=10).stuck == 0


def test_pods_with_a_node_are_judged_by_what_starts_take() -> None:
    tgt = waiting(310, starting=6, waits_seconds=(310.0,) * 4 + (950.0, 10.0))

    assert (judged(tgt, cloud(130)).stuck, judged(tgt, cloud(240)).stuck) == (5, 1)


def test_slow_nodes_are_ordered_once_and_for_more_load_more_are() -> None:
    slow = cloud(240)

    assert decided(waiting(250), slow, metrics(150)).to_replicas == 30
    assert decided(waiting(250), slow, metrics(190)).to_replicas == 38


def test_where_no_more_nodes_come_no_more_pods_are_asked_for_and_the_rest_is_unmet() -> None:
    decision = decided(waiting(310, 16), cloud(130), metrics(150))

    assert (decision.outcome, decision.to_replicas) == (Outcome.HELD, 30)
    assert (decision.reason, decision.limited_by) == (Reason.INSUFFICIENT_CAPACITY, Reason.INSUFFICIENT_CAPACITY)
    assert decision.unmet_replicas == 16
    told = judge_pool(cloud(130), [decision])[0]
    assert (told.holds, told.reason) == (False, Reason.INSUFFICIENT_CAPACITY)
    assert told.message == "no more nodes come for the pods of call-center/support-rag"


def test_what_no_node_fits_takes_no_more_of_a_bounded_pool_whatever_comes_for_others() -> None:
    """26 of 30 run and 4 have waited for days; it would take 40, the other deployment needs all 19 that are left."""
    bounded = replace(cloud(130, 100.0), budget_gpus=49, is_elastic=False)
    unfit = resource(waiting(3 * DAY), metrics(195), pool="h100")
    other = resource(target(10, uid="d-2"), metrics(95), uid="r-2", name="other", pool="h100")
    snapshot = FleetSnapshot(0, TICK_SECONDS, (unfit, other), {"h100": bounded})
    held, grown = decide(judge_facts(snapshot), Memory())[0]

    assert (held.outcome, held.to_replicas, held.reason) == (Outcome.HELD, 30, Reason.INSUFFICIENT_CAPACITY)
    assert (grown.outcome, grown.to_replicas, grown.limited_by) == (Outcome.UP, 19, None)


def test_pods_that_waited_for_days_stop_growth_also_beside_some_that_have_just_been_made() -> None:
    tgt = waiting(3 * DAY, 8)
    held = replace(tgt.hindrances, placeless_seconds=(3 * DAY,) * 4 + (20.0,) * 4)
    mixed = replace(tgt, hindrances=held, waits_seconds=held.placeless_seconds)
    decision = decided(mixed, cloud(130, 100.0), metrics(190))

    assert (judged(mixed, cloud(130, 100.0)).stuck, judged(mixed, cloud(130, 100.0)).starting) == (4, 4)
    assert (decision.to_replicas, decision.reason) == (30, Reason.INSUFFICIENT_CAPACITY)


@pytest.mark.parametrize(
    ("of", "reason"), [(cloud(130, 20.0), Reason.NODES_PROVISIONING), (cloud(130), Reason.INSUFFICIENT_CAPACITY)]
)
def test_a_fleet_whose_first_pods_wait_for_nodes_is_not_raised_for_want_of_metrics(
    of: PoolSnapshot, reason: Reason
) -> None:
    decision = decided(waiting(310, 30), of, lost())

    assert (decision.to_replicas, decision.reason) == (30, reason)


def test_where_nodes_do_not_come_by_themselves_nothing_is_awaited() -> None:
    manual = replace(cloud(130), is_provisioned=False)
    found = judged(waiting(310), manual)

    assert (found.stuck, hindrance(found)) == (
        0,
        (Reason.PODS_UNSCHEDULABLE, "4 pods cannot be scheduled: 0/8 nodes are available"),
    )


def test_pods_that_crash_stop_growth_whatever_comes_for_others() -> None:
    tgt = waiting(100, starting=6, failing=2, waits_seconds=(100.0,) * 4 + (950.0, 950.0))
    decision = decided(tgt, cloud(130), metrics(190))

    assert (decision.to_replicas, decision.reason) == (30, Reason.PODS_UNSCHEDULABLE)


def test_the_sentences_say_how_long_nodes_usually_take() -> None:
    assert hindrance(judged(waiting(100), cloud(130))) == (
        Reason.NODES_PROVISIONING,
        "4 pods wait for a node to come, as it does within 130 s for nine of ten: 0/8 nodes are available",
    )
    assert hindrance(judged(waiting(901), cloud(None))) == (
        Reason.INSUFFICIENT_CAPACITY, "no node has come in 901 s for 4 pods: 0/8 nodes are available",
    )  # fmt: skip
