"""Replicas on standby: how many sleep, which wake up before others are started, and whom they give way to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.decide import Memory, charged_gpus, decide
from firsttoken_operator.domain import (
    Decision,
    FleetSnapshot,
    Metrics,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    ScaleDown,
    ScalingMode,
    Target,
)
from tests.fixtures.hypothesis_scale import examples
from tests.operator.decide.builders import POLICY, TICK_SECONDS, Fleet, idle, lost, metrics, resource, target
from tests.operator.decide.strategies import any_metrics, pods
from tests.operator.decide.test_scale_down_is_strict import settled

KEEPS_TWO = replace(POLICY, standby=2)
GPUS = 9


def pool(budget: int | None = GPUS) -> PoolSnapshot:
    return PoolSnapshot("h100", budget, budget, True, 100, 600)


def member(replicas: int, standby: int, mtr: Metrics, uid: str = "a", **changes: object) -> ResourceSnapshot:
    sleeps = {"standby": standby, "asleep": standby, **changes.pop("pods", {})}  # type: ignore[dict-item]
    base = {"policy": KEEPS_TWO, "uid": uid, "name": uid, "pool": "h100"}
    return resource(target(replicas, uid=f"d-{uid}", **sleeps), mtr, **(base | changes))


def once(*members: ResourceSnapshot, of: PoolSnapshot | None = None) -> dict[str, Decision]:
    pools = {"h100": of or pool()}
    decisions, _ = decide(FleetSnapshot(0, TICK_SECONDS, members, pools), Memory())
    return {each.name: each for each in decisions}


def sizes(decision: Decision) -> tuple[int, int]:
    return decision.to_replicas, decision.to_standby


@pytest.mark.parametrize(
    ("replicas", "standby", "load", "answer", "asleep"),
    [(4, 2, 24, 5, 2), (5, 2, 39, 8, 1), (8, 1, 44, 9, 0)],
    ids=["one wakes, one is started", "all wake, the pool has room for one more", "none is left to start"],
)
def test_more_replicas_wake_up_before_any_is_started(
    replicas: int, standby: int, load: float, answer: int, asleep: int
) -> None:
    decision = once(member(replicas, standby, metrics(load)))["a"]

    assert sizes(decision) == (answer, asleep)
    assert decision.to_pods <= GPUS


def test_what_sleeps_wakes_up_where_the_pool_has_no_gpu_left() -> None:
    decision = once(member(7, 2, metrics(44)))["a"]

    assert sizes(decision) == (9, 0)
    assert not decision.resizes
    assert decision.changes


def test_what_sleeps_wakes_up_where_the_inventory_is_unknown_and_nothing_is_started() -> None:
    decision = once(member(4, 2, metrics(29)), of=pool(None))["a"]

    assert sizes(decision) == (6, 0)


def test_a_smaller_fleet_sleeps_where_standby_is_short_and_ends_otherwise() -> None:
    policy = replace(KEEPS_TWO, scale_down=ScaleDown.ALWAYS, scale_down_step_percent=1)
    found = []
    for standby in (0, 1, 2):
        fleet = settled(replicas=9, policy=policy)
        decision = next(d for _ in range(60) if (d := fleet.tick(metrics(20), standby=standby, asleep=standby)).changes)
        found.append((decision.to_replicas, decision.to_standby, decision.to_pods - decision.from_pods))

    # It was short of two at once: the one that falls asleep, and those that are started to sleep.
    assert found == [(8, 2, 1), (8, 2, 0), (8, 2, -1)]


def test_standby_is_inside_the_upper_bound() -> None:
    at_bound = replace(KEEPS_TWO, max_replicas=6)

    assert sizes(once(member(5, 0, metrics(24), policy=at_bound))["a"]) == (5, 1)
    assert sizes(once(member(6, 0, metrics(29), policy=at_bound))["a"]) == (6, 0)


def test_standby_gives_way_to_replicas_of_the_same_or_a_higher_priority() -> None:
    other = member(3, 0, metrics(44), "b", policy=POLICY)

    assert sizes(once(member(4, 2, metrics(19)), other)["a"]) == (4, 0)
    assert sizes(once(member(4, 2, metrics(19), priority=1), other)["a"]) == (4, 2)


def test_what_is_started_to_sleep_comes_after_all_that_answers() -> None:
    decided = once(member(4, 0, metrics(19), priority=5), member(3, 0, metrics(24), "b", policy=POLICY))

    assert decided["b"].to_replicas == 5
    assert sizes(decided["a"]) == (4, 0)


def test_pods_that_sleep_are_charged_with_their_gpus() -> None:
    assert charged_gpus(target(4, gpus_per_replica=4, standby=2)) == 24
    assert charged_gpus(target(4, gpus_per_replica=4, standby=2, occupied_gpus=24)) == 24


def test_a_fleet_at_zero_keeps_nothing_asleep() -> None:
    policy = replace(KEEPS_TWO, min_replicas=0)
    gateway = {"gateway_arrivals": idle().arrivals}
    fleet = Fleet(replicas=1, policy=policy)
    decisions = fleet.run(idle(**gateway), 900, standby=2, asleep=2)

    assert decisions[0].to_standby == 2
    assert sizes(decisions[-1]) == (0, 0)


@pytest.mark.parametrize("why", ["stuck", "failing", "unschedulable", "rollout"])
def test_nothing_is_started_to_sleep_where_pods_do_not_run(why: str) -> None:
    troubled = {"starting": 1, "ready": 3, why: True if why == "rollout" else 1}

    assert once(member(4, 0, metrics(15), pods=troubled))["a"].to_standby == 0


def test_advice_starts_nothing_to_sleep() -> None:
    advisory = replace(KEEPS_TWO, mode=ScalingMode.ADVISORY)

    assert once(member(4, 0, metrics(19), policy=advisory))["a"].to_standby == 0


def test_a_resource_that_cannot_be_decided_keeps_what_sleeps() -> None:
    paused = replace(KEEPS_TWO, mode=ScalingMode.PAUSED)

    decision = once(member(4, 2, metrics(19), policy=paused))["a"]

    assert decision.reason is Reason.PAUSED
    assert sizes(decision) == (4, 2)
    assert not decision.resizes


def test_the_next_replica_comes_as_fast_as_it_wakes_only_where_one_is_known_to_sleep() -> None:
    sleeping = member(4, 2, metrics(19), time_to_ready_seconds=300.0, time_to_wake_seconds=6.0)
    unknown = member(4, 2, metrics(19), pods={"asleep": 0}, time_to_ready_seconds=300.0, time_to_wake_seconds=6.0)

    assert sleeping.next_replica_seconds == 6
    assert unknown.next_replica_seconds == 300


def test_lost_metrics_keep_what_sleeps() -> None:
    assert sizes(once(member(4, 2, lost()))["a"]) == (4, 2)


@given(
    replicas=st.integers(0, 60), standby=st.integers(0, 10), kept=st.integers(0, 10),
    budget=st.integers(0, 80), sequence=st.lists(st.tuples(any_metrics(), pods), min_size=1, max_size=8),
)  # fmt: skip
@settings(max_examples=examples(80))
def test_whatever_is_seen_the_pool_holds_all_that_is_asked_for(
    replicas: int, standby: int, kept: int, budget: int, sequence: list[tuple[Metrics, dict[str, int]]]
) -> None:
    memory = Memory()
    for number, (mtr, changes) in enumerate(sequence):
        seen = member(replicas, standby, mtr, policy=replace(POLICY, standby=kept), pods=changes | {"asleep": standby})
        assert isinstance(seen.target, Target)
        charged = charged_gpus(seen.target)
        (decision,), memory = decide(
            FleetSnapshot(number * TICK_SECONDS, TICK_SECONDS, (seen,), {"h100": pool(budget)}), memory
        )
        assert 0 <= decision.to_standby <= max(standby, kept)
        assert decision.to_pods <= max(budget, charged, decision.from_pods)
        if decision.to_standby > standby:
            assert decision.to_standby <= kept
        replicas, standby = decision.to_replicas, decision.to_standby


@given(replicas=st.integers(1, 40), load=st.floats(0, 200))
@settings(max_examples=examples(40))
def test_without_standby_nothing_differs(replicas: int, load: float) -> None:
    plain, keeping = Fleet(replicas=replicas), Fleet(replicas=replicas, policy=replace(POLICY, standby=3))
    for _ in range(30):
        # NB: none is asleep yet, so nothing is woken and nothing comes sooner.
        one, other = plain.tick(metrics(load)), keeping.tick(metrics(load))
        assert one.to_replicas == other.to_replicas
