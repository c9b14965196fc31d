"""Rebalancing: what a lower priority gives up for a higher one that is short, how fast, and what it keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import (
    Decision,
    FleetSnapshot,
    Outcome,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    ScaleDown,
    Target,
)
from tests.operator.decide.builders import POLICY, TICK_SECONDS, metrics, resource, target
from tests.operator.decide.test_gpus_are_shared_fairly import servers

POOL = PoolSnapshot("h100", 40, 40, on_prem=True, scale_down_limit_percent=20, scale_down_limit_window_seconds=600)


class Rivals:
    """Two deployments that fill a pool; pods that are no longer wanted are gone at the next tick."""

    def __init__(self, **low: object) -> None:
        self.pool, self.memory, self.now = POOL, Memory(), 0.0
        self.replicas = {"high": 20, "low": 20}
        self.low, self.load = low, {"high": 140.0, "low": 100.0}

    def about(self, name: str) -> ResourceSnapshot:
        base = resource(
            target(self.replicas[name], uid=f"d-{name}"), metrics(self.load[name]), uid=name, name=name, pool="h100",
            priority=10 if name == "high" else 0,
        )  # fmt: skip
        return replace(base, **self.low) if name == "low" else base  # type: ignore[arg-type]

    def tick(self) -> dict[str, Decision]:
        members = (self.about("high"), self.about("low"))
        decided, self.memory = decide(FleetSnapshot(self.now, TICK_SECONDS, members, {"h100": self.pool}), self.memory)
        self.now += TICK_SECONDS
        self.replicas = {d.name: d.to_replicas for d in decided}
        assert sum(self.replicas.values()) <= (self.pool.budget_gpus or 0)
        return {d.name: d for d in decided}


def test_a_lower_priority_gives_up_what_a_higher_one_lacks() -> None:
    rivals = Rivals()
    first = rivals.tick()

    assert (first["low"].outcome, first["low"].reason) == (Outcome.DOWN, Reason.REBALANCED)
    assert (first["low"].from_replicas, first["low"].to_replicas) == (20, 15), "one step of 25 %"
    assert first["high"].to_replicas == 20, "GPUs are free when their pods are gone"
    second = rivals.tick()
    assert (second["high"].to_replicas, second["low"].to_replicas) == (25, 15)
    assert second["low"].limited_by is Reason.POOL_EXHAUSTED
    assert second["low"].unmet_replicas == 5


def test_it_gives_up_no_faster_than_the_pool_s_rate_limit_and_one_measured_step_at_a_time() -> None:
    rivals = Rivals()
    sizes = [rivals.tick()["low"].to_replicas for _ in range(38)]

    # 20 % of 40 GPUs are 8 in ten minutes: a step of 5, and 3 when it is measured.
    assert sorted(set(sizes), reverse=True) == [15, 12]
    assert sizes.count(15) * TICK_SECONDS >= 60 + 2 * TICK_SECONDS


def test_it_ends_where_the_higher_one_has_what_it_asks_for() -> None:
    rivals = Rivals()
    for _ in range(300):
        last = rivals.tick()

    assert rivals.replicas == {"high": 28, "low": 12}
    assert (last["high"].unmet_replicas, last["low"].unmet_replicas) == (0, 8)


@pytest.mark.parametrize(
    "low",
    [
        {"policy": replace(POLICY, min_replicas=20)},
        {"policy": replace(POLICY, scale_down=ScaleDown.NEVER)},
        {"priority": 10},
        {"priority": 20},
        {"target": target(20, uid="d-low", rollout=True)},
    ],
    ids=["at its minimum", "scaleDown Never", "of the same priority", "of a higher one", "in a rollout"],
)
def test_nothing_is_taken(low: dict[str, object]) -> None:
    assert Rivals(**low).tick()["low"].to_replicas == 20


def test_a_minimum_is_kept() -> None:
    rivals = Rivals(policy=replace(POLICY, min_replicas=18))
    for _ in range(100):
        rivals.tick()

    assert rivals.replicas == {"high": 22, "low": 18}


def test_nothing_is_taken_twice_while_pods_are_ending() -> None:
    rivals = Rivals(target=Target("d-low", "Deployment", "nim", 12, 12, terminating=8))
    rivals.replicas["low"] = 12

    assert rivals.tick()["low"].to_replicas == 12


def test_small_replicas_are_not_given_up_for_a_large_one_that_their_servers_could_not_hold() -> None:
    pool = replace(POOL, servers=servers(*[0] * 5))
    high = resource(
        target(5, uid="d-high", gpus_per_replica=4), metrics(40), uid="high", name="high", pool="h100", priority=10
    )
    low = resource(target(20, uid="d-low"), metrics(100), uid="low", name="low", pool="h100")
    decided, _ = decide(FleetSnapshot(0, TICK_SECONDS, (high, low), {"h100": pool}), Memory())

    assert {d.name: d.to_replicas for d in decided} == {"high": 5, "low": 20}
