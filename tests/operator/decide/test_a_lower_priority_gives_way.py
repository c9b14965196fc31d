"""Rebalancing: what a lower priority gives up for a higher one that is short, how fast, and what it keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.decide import Memory, decide, rebalancing
from firsttoken_operator.decide.propose import Proposal
from firsttoken_operator.domain import (
    Decision,
    Excluded,
    Exclusion,
    FleetSnapshot,
    Metrics,
    Outcome,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    ScaleDown,
    Tenant,
    Value,
)
from tests.fixtures.hypothesis_scale import examples
from tests.operator.decide.builders import POLICY, TICK_SECONDS, lost, metrics, resource, target
from tests.operator.decide.strategies import any_metrics
from tests.operator.decide.test_gpus_are_shared_fairly import servers

POOL = PoolSnapshot("h100", 40, 40, on_prem=True, scale_down_limit_percent=20, scale_down_limit_window_seconds=600)
WINDOW_TICKS = 50
"""Ticks after which every fleet was watched for a whole window."""


def decided(pool: PoolSnapshot, *members: ResourceSnapshot) -> dict[str, Decision]:
    """Decisions on fleets that stay as they are for a window."""
    memory = Memory()
    for number in range(WINDOW_TICKS):
        found, memory = decide(FleetSnapshot(number * TICK_SECONDS, TICK_SECONDS, members, {"h100": pool}), memory)
    return {d.name: d for d in found}


def high(replicas: int, load: float, **changes: object) -> ResourceSnapshot:
    gpus = changes.pop("gpus", 1)
    base = resource(target(replicas, uid="d-high", gpus_per_replica=gpus), metrics(load), pool="h100", priority=10)
    return replace(base, uid="high", name="high", **changes)  # type: ignore[arg-type]


def low(replicas: int, load: float, **changes: object) -> ResourceSnapshot:
    gpus, name = changes.pop("gpus", 1), changes.pop("name", "low")
    pods = changes.pop("pods", {})
    tgt = target(replicas, uid=f"d-{name}", gpus_per_replica=gpus, **pods)  # type: ignore[arg-type]
    return replace(resource(tgt, metrics(load), pool="h100", uid=name, name=name), **changes)  # type: ignore[arg-type]


class Rivals:
    """Two deployments that fill a pool; pods that are no longer wanted are gone at the next tick."""

    def __init__(self, **low: object) -> None:
        self.pool, self.memory, self.now = POOL, Memory(), 0.0
        self.replicas = {"high": 20, "low": 20}
        self.low, self.load = low, {"high": 99.0, "low": 100.0}
        for _ in range(WINDOW_TICKS):
            self.tick()
        assert self.replicas == {"high": 20, "low": 20}
        self.load["high"] = 140.0

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


WINDOW = {"scheduled_requests_per_second": 100.0, "has_schedule": True}
"""A window that is open, whose peak takes 20 replicas."""


def test_what_only_a_window_asks_for_is_given_up_down_to_the_minimum_and_comes_again() -> None:
    rivals = Rivals(**WINDOW, policy=replace(POLICY, min_replicas=14))
    rivals.load["low"] = 10
    for _ in range(100):
        last = rivals.tick()
    assert rivals.replicas == {"high": 26, "low": 14}
    assert (last["high"].unmet_replicas, last["low"].unmet_replicas) == (2, 6)

    rivals.load["high"] = 90
    for _ in range(200):
        rivals.tick()
    assert rivals.replicas["low"] == 20


def test_a_window_does_not_make_a_middle_priority_give_up_what_it_serves_with() -> None:
    middle, lowest = low(20, 100, name="middle", priority=5), low(20, 10, **WINDOW)
    found = decided(replace(POOL, budget_gpus=60), high(20, 120), middle, lowest)

    assert (found["middle"].to_replicas, found["low"].to_replicas) == (20, 16)


class Crowd:
    """Three classes of two tenants on eight servers of eight GPUs, with replicas of four."""

    def __init__(self) -> None:
        self.memory, self.now = Memory(), 0.0
        self.replicas = {"chat": 2, "search": 8, "batch": 4}
        self.load = {"chat": 7.5, "search": 37.5, "batch": 64.9}

    def about(self, name: str, priority: int) -> ResourceSnapshot:
        pods = target(self.replicas[name], uid=f"d-{name}", gpus_per_replica=4)
        about = resource(pods, metrics(self.load[name]), uid=name, name=name, pool="h100", priority=priority)
        return replace(about, namespace="lab" if name == "batch" else "web")

    def ticks(self, number: int) -> dict[str, Decision]:
        """Decisions of the last one. No tick asks for more than the pool or the quota has."""
        ranks = {"chat": 20, "search": 10, "batch": 0}
        tenants, names = (Tenant("web"), Tenant("lab", quota_gpus=24)), {"web": "web", "lab": "lab"}
        for _ in range(number):
            used = sum(self.replicas.values())
            free = [8 - 4 * min(2, max(0, used - 2 * server)) for server in range(8)]
            pool = replace(POOL, budget_gpus=64, servers=servers(*free), tenants=tenants, tenant_names=names)
            members = tuple(self.about(name, rank) for name, rank in ranks.items())
            snapshot = FleetSnapshot(self.now, TICK_SECONDS, members, {"h100": pool})
            found, self.memory = decide(snapshot, self.memory)
            self.now += TICK_SECONDS
            self.replicas = {d.name: d.to_replicas for d in found}
            assert sum(self.replicas.values()) * 4 <= 64
            assert self.replicas["batch"] * 4 <= 24
        return {d.name: d for d in found}


def test_where_1_6_times_the_pool_is_wanted_the_highest_has_all_and_what_is_in_vain_adds_up() -> None:
    crowd = Crowd()
    crowd.ticks(WINDOW_TICKS)
    before = dict(crowd.replicas)
    assert before == {"chat": 2, "search": 8, "batch": 6}, "the lowest has what its quota allows"

    crowd.load["chat"] = 24.9
    found = crowd.ticks(250)
    wanted = sum((d.recommended or 0) * 4 for d in found.values())
    assert crowd.replicas == {"chat": 5, "search": 8, "batch": 3}
    assert wanted >= 1.6 * 64
    assert sum(d.unmet_replicas * 4 for d in found.values()) == wanted - 64

    crowd.load["chat"] = 7.5
    crowd.ticks(250)
    assert crowd.replicas == before


def test_nothing_is_taken_twice_while_pods_are_ending() -> None:
    stays = low(12, 100)
    ending = low(0, 0, name="ending", pods={"terminating": 8, "draining": 8})

    assert decided(POOL, high(20, 140), stays, ending)["low"].to_replicas == 12


def test_pods_that_never_end_are_not_waited_for() -> None:
    gone = low(0, 0, name="gone", pods={"terminating": 8})

    assert decided(POOL, high(20, 140), low(12, 100), gone)["low"].reason is Reason.REBALANCED


def test_what_is_kept_for_a_large_replica_is_not_taken_a_second_time() -> None:
    pool = replace(POOL, budget_gpus=16 + 20 + 8)
    ending = low(0, 0, name="ending", pods={"terminating": 4, "draining": 4})
    found = decided(pool, high(2, 14, gpus=8), low(20, 100), ending)

    assert (found["high"].limited_by, found["low"].to_replicas) == (Reason.POOL_EXHAUSTED, 20)


def test_no_more_is_taken_than_the_quota_of_the_other_leaves() -> None:
    tenants, names = (Tenant("a", quota_gpus=22), Tenant("b")), {"a": "a", "b": "b"}
    pool = replace(POOL, tenants=tenants, tenant_names=names)

    assert decided(pool, high(20, 200, namespace="a"), low(20, 100, namespace="b"))["low"].to_replicas == 18


def test_small_replicas_are_not_given_up_for_a_large_one_that_their_servers_could_not_hold() -> None:
    pool = replace(POOL, servers=servers(*[0] * 5))

    assert decided(pool, high(5, 40, gpus=4), low(20, 100))["low"].to_replicas == 20
    assert decided(pool, high(20, 140), low(5, 25, gpus=4))["low"].to_replicas == 4


def test_free_gpus_that_no_replica_could_use_are_not_counted_as_free() -> None:
    pool = replace(POOL, budget_gpus=64, servers=servers(*[1] * 8))

    assert decided(pool, high(7, 40, gpus=4), low(7, 35, gpus=4))["low"].to_replicas == 6


CORDONED = (Excluded(Exclusion.CORDONED, 1, 8),)


@pytest.mark.parametrize(
    "pool",
    [
        replace(POOL, budget_gpus=32, servers=servers(*[0] * 4)),
        replace(POOL, servers=()),
        replace(POOL, servers=(), excluded=CORDONED),
        replace(POOL, servers=servers(*[0] * 4), excluded=CORDONED),
        replace(POOL, servers=None, excluded=CORDONED),
        replace(POOL, charged_elsewhere={"lab": 5}),
    ],
    ids=["overdrawn", "no node", "no node counts", "pods elsewhere", "not known where", "charged elsewhere"],
)
def test_nothing_is_taken_where_it_might_not_become_free(pool: PoolSnapshot) -> None:
    assert decided(pool, high(20, 140), low(20, 100))["low"].to_replicas == 20


def test_nothing_is_taken_across_namespaces_unless_an_administrator_declared_who_shares() -> None:
    rivals = high(20, 140, namespace="a"), low(20, 100, namespace="b")
    declared = replace(POOL, tenants=(Tenant("a"), Tenant("b")), tenant_names={"a": "a", "b": "b"})

    assert decided(POOL, *rivals)["low"].to_replicas == 20
    assert decided(declared, *rivals)["low"].to_replicas == 15


def test_a_window_that_is_only_declared_takes_nothing() -> None:
    ahead = high(20, 99, scheduled_requests_per_second=140.0, has_schedule=True)

    assert decided(POOL, ahead, low(20, 100))["low"].to_replicas == 20


def test_one_that_sleeps_is_given_room_for_the_requests_that_a_gateway_counted() -> None:
    pool, asleep = replace(POOL, budget_gpus=20), replace(POLICY, min_replicas=0)
    woken = replace(lost(), gateway_arrivals=Value(20))

    assert decided(pool, high(0, 0, policy=asleep, metrics=woken), low(20, 100))["low"].to_replicas == 16
    assert decided(pool, high(0, 0, policy=asleep, metrics=lost()), low(20, 100))["low"].to_replicas == 20


@given(any_metrics(), any_metrics(), st.fixed_dictionaries({}, optional={"priority": st.integers(-1, 11)}))
@settings(max_examples=examples(25), deadline=None)
def test_nothing_is_taken_of_one_whose_data_is_missing_or_for_a_demand_that_is_not_measured(
    mine: Metrics, theirs: Metrics, changes: dict[str, object]
) -> None:
    """Whatever the signals say, also after the grace time, when missing data raises to what was declared."""
    memory, rivals = Memory(), (high(20, 0, metrics=mine), low(20, 0, metrics=theirs, **changes))
    gives, takes = {"high": mine, "low": theirs}, {"high": theirs, "low": mine}
    for number in range(80):
        snapshot = FleetSnapshot(number * TICK_SECONDS, TICK_SECONDS, rivals, {"h100": POOL})
        found, memory = decide(snapshot, memory)
        taken = [d.name for d in found if d.reason is Reason.REBALANCED]
        assert all(takes[name].may_raise and gives[name].may_lower for name in taken)


def test_what_is_taken_is_looked_for_once_however_many_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counter[int]()

    def counted(p: Proposal, *more: object) -> Proposal | None:
        asked[number] += 1
        return None

    monkeypatch.setattr(rebalancing, "_smaller", counted)
    for number in (50, 200):
        members = [
            resource(target(2, uid=f"d{n}"), metrics(20), uid=f"u{n}", name=f"n{n}", pool="h100", priority=n % 50)
            for n in range(number)
        ]
        pool = replace(POOL, budget_gpus=2 * number)
        decide(FleetSnapshot(0, TICK_SECONDS, tuple(members), {"h100": pool}), Memory())

    assert all(0 < asked[number] <= number for number in (50, 200))
