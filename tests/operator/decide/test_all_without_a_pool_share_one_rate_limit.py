"""A fault that makes every deployment look idle at once takes a fifth of the GPUs within ten minutes, pool or not.

And, without one, what a single deployment gives back by its own steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from firsttoken_operator.decide import Memory, Ownership, decide, judge_owners, wrote
from firsttoken_operator.domain import Decision, FleetSnapshot, Metrics, Reason, ResourceSnapshot, ScalingMode
from tests.operator.decide.builders import POLICY, TICK_SECONDS, Fleet, idle, metrics, resource, target

QUICK = replace(POLICY, min_replicas=1, stabilization_seconds=15)


class Many:
    """Deployments without a pool, at the same tick."""

    def __init__(self, *sizes: int, gpus: int = 1) -> None:
        self.sizes = list(sizes)
        self.gpus = gpus
        self.policies = [QUICK] * len(sizes)
        self.memory, self.now = Memory(), 1000.0
        self.owners: dict[str, Ownership] = {}
        self.decided: tuple[Decision, ...] = ()

    def _seen(self, i: int, mtr: Metrics) -> ResourceSnapshot:
        tgt = target(self.sizes[i], uid=f"d-{i}", gpus_per_replica=self.gpus)
        return resource(tgt, mtr, uid=str(i), name=f"n{i:03}", policy=self.policies[i], time_to_ready_seconds=15.0)

    def run(self, seconds: float, seen: Iterable[Metrics]) -> int:
        """GPUs that were given back."""
        before, seen = sum(self.sizes), list(seen)
        for _ in range(round(seconds / TICK_SECONDS)):
            resources = tuple(self._seen(i, mtr) for i, mtr in enumerate(seen))
            owned = judge_owners(FleetSnapshot(self.now, TICK_SECONDS, resources), self.owners, 600)
            self.decided, self.memory = decide(owned.snapshot, self.memory)
            self.owners = dict(owned.ownerships)
            for i, decision in enumerate(self.decided):
                if self.policies[i].mode is ScalingMode.ACTIVE:
                    self.sizes[i] = decision.to_replicas
                    if decision.changes:
                        self.owners[str(i)] = wrote(self.owners[str(i)], decision.to_replicas, self.now)
            self.now += TICK_SECONDS
        return (before - sum(self.sizes)) * self.gpus


def busy(many: Many) -> list[Metrics]:
    return [metrics(size * 5 * 0.99) for size in many.sizes]


@pytest.mark.slow
def test_a_hundred_that_are_idle_at_once_lose_a_fifth_in_ten_minutes() -> None:
    many = Many(*[40] * 100)
    many.run(90, busy(many))

    given = many.run(600, [idle()] * 100)

    assert 800 <= given < 800 + 40
    assert Reason.SCALE_DOWN_BRAKE in {d.limited_by for d in many.decided}


@pytest.mark.slow
def test_the_next_window_gives_back_a_fifth_of_what_is_left() -> None:
    many = Many(*[40] * 20)
    many.run(90, busy(many))
    first = many.run(600, [idle()] * 20)
    second = many.run(600, [idle()] * 20)

    assert 160 <= first < 160 + 40
    assert 0.2 * (800 - first) - 1 <= second < 0.2 * (800 - first) + 40


def test_one_that_gives_back_alone_goes_by_its_own_steps() -> None:
    many = Many(40, *[10] * 5)
    many.run(90, busy(many))
    alone = Fleet(40, policy=QUICK, resource_changes={"time_to_ready_seconds": 15.0})
    alone.run(metrics(40 * 5 * 0.99), 90)

    others = busy(many)[1:]
    many.run(900, [idle(), *others])
    alone.run(idle(), 900)

    assert many.sizes == [alone.replicas, *[10] * 5]
    assert alone.replicas < 10


def test_a_small_fleet_gives_back_one_replica_at_least() -> None:
    many = Many(3, 3, gpus=8)
    many.run(90, busy(many))
    many.run(3600, [idle(), idle()])

    assert many.sizes == [1, 1]


def test_advice_takes_nothing_from_what_others_may_give_back() -> None:
    many = Many(40, 40, 40)
    many.policies[:2] = [replace(QUICK, mode=ScalingMode.ADVISORY)] * 2
    many.run(90, busy(many))
    many.run(120, [idle()] * 3)

    assert many.sizes == [40, 40, 30]


@pytest.mark.parametrize("mode", [ScalingMode.ACTIVE, ScalingMode.ADVISORY])
def test_what_was_scaled_down_by_hand_holds_up_no_other(mode: ScalingMode) -> None:
    many, quiet = Many(60, 40, 40), Many(40, 40)
    many.policies[0] = replace(QUICK, mode=mode)
    many.run(90, busy(many))
    quiet.run(90, busy(quiet))
    many.sizes[0] = 1
    many.run(120, [metrics(5), idle(), idle()])
    quiet.run(120, [idle(), idle()])

    assert many.sizes[1:] == quiet.sizes
    assert sum(quiet.sizes) < 80


def test_what_we_gave_back_before_it_was_scaled_down_by_hand_counts() -> None:
    many = Many(40, 40)
    many.run(90, busy(many))
    while many.sizes[0] == 40:
        many.run(TICK_SECONDS, [idle(), metrics(198)])
    ours = 40 - many.sizes[0]
    many.sizes[0] = 1
    many.run(TICK_SECONDS, [metrics(5), metrics(198)])

    assert sum(decrease.gpus for decrease in many.memory.resources["0"].decreases) == ours > 0


def idlers(count: int) -> list[ResourceSnapshot]:
    return [
        resource(target(40, uid=f"d-{i}"), idle(), uid=str(i), name=str(i), policy=QUICK, time_to_ready_seconds=15.0)
        for i in range(count)
    ]


def after_eight_ticks(resources: list[ResourceSnapshot]) -> dict[str, int]:
    """Decide eight times where nothing that was decided before became true."""
    memory, now = Memory(), 1000.0
    for _ in range(8):
        decided, memory = decide(FleetSnapshot(now, TICK_SECONDS, tuple(resources)), memory)
        now += TICK_SECONDS
    return {d.name: d.to_replicas for d in decided}


def test_replicas_without_a_pod_let_no_other_give_back_more() -> None:
    hollow = resource(target(100_000, uid="d-hollow", ready=0), metrics(5.0), uid="hollow", name="hollow", policy=QUICK)
    beside = after_eight_ticks([hollow, *idlers(4)])
    del beside["hollow"]

    assert beside == after_eight_ticks(idlers(4))


def test_the_order_of_resources_does_not_change_what_is_given_back() -> None:
    taken = after_eight_ticks(idlers(8))

    assert after_eight_ticks(idlers(8)[::-1]) == taken
    assert sum(taken.values()) == 8 * 40 - 64
