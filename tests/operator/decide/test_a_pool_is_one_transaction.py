"""The sum of all resources of a pool stays inside its budget, whatever they ask for."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from firsttoken_operator.decide import Memory, Ownership, charged_gpus, decide, judge, judge_owners, judge_pool, wrote
from firsttoken_operator.domain import (
    ConditionType,
    Decision,
    FleetSnapshot,
    Metrics,
    Outcome,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    ScaleDown,
    ScalingMode,
    Target,
    TargetMissing,
)
from tests.operator.decide.builders import POLICY, TICK_SECONDS, Fleet, metrics, resource, target
from tests.operator.decide.test_scale_down_is_strict import settled

POOL = PoolSnapshot("h100", 64, 64, on_prem=False, scale_down_limit_percent=20, scale_down_limit_window_seconds=600)


def member(uid: str, replicas: int, mtr: Metrics, **changes: object) -> ResourceSnapshot:
    gpus = changes.pop("gpus_per_replica", 1)
    pods = changes.pop("pods", {})
    tgt = target(replicas, uid=f"d-{uid}", gpus_per_replica=gpus, **pods)  # type: ignore[arg-type]
    return resource(tgt, mtr, uid=uid, name=uid, pool="h100", **changes)


def once(*members: ResourceSnapshot, pool: PoolSnapshot | None = POOL) -> dict[str, Decision]:
    pools = {} if pool is None else {pool.name: pool}
    decisions, _ = decide(FleetSnapshot(0, TICK_SECONDS, members, pools), Memory())
    return {d.name: d for d in decisions}


def test_the_budget_caps_the_sum() -> None:
    decided = once(member("a", 30, metrics(200)), member("b", 30, metrics(200)))

    assert decided["a"].to_replicas + decided["b"].to_replicas == 64
    assert decided["a"].limited_by is Reason.POOL_EXHAUSTED
    assert decided["a"].unmet_replicas + decided["b"].unmet_replicas == 16


@pytest.mark.parametrize(
    ("load", "changes"),
    [
        (100, {}),
        (10, {"scheduled_requests_per_second": 100.0, "has_schedule": True}),
        (10, {"policy": replace(POLICY, min_replicas=20)}),
    ],
    ids=["by demand", "by a window", "by its minimum"],
)
def test_what_is_in_vain_is_all_that_is_wanted_and_not_one_step(load: float, changes: dict[str, object]) -> None:
    full = replace(POOL, charged_elsewhere={"others": 61})
    decision = once(member("a", 2, metrics(load), **changes), pool=full)["a"]

    assert (decision.to_replicas, decision.limited_by, decision.unmet_replicas) == (3, Reason.POOL_EXHAUSTED, 17)


def test_a_higher_priority_is_served_first() -> None:
    kept = replace(POLICY, min_replicas=30)
    decided = once(member("a", 30, metrics(200), policy=kept), member("b", 30, metrics(200), priority=10))

    assert (decided["a"].to_replicas, decided["b"].to_replicas) == (30, 34)
    assert decided["a"].outcome is Outcome.HELD


def test_a_guaranteed_minimum_comes_before_priority() -> None:
    below = member("a", 2, metrics(5), policy=replace(POLICY, min_replicas=6))

    decided = once(below, member("b", 58, metrics(350), priority=10))

    assert (decided["a"].to_replicas, decided["b"].to_replicas) == (6, 58)


def test_gpus_of_pods_that_are_still_terminating_are_charged() -> None:
    decided = once(member("a", 30, metrics(200), pods={"terminating": 30}), member("b", 2, metrics(10)))

    assert decided["a"].to_replicas == 32


def test_gpus_of_strangers_on_the_nodes_are_charged() -> None:
    pool = replace(POOL, charged_elsewhere={"lab": 30})

    assert once(member("a", 30, metrics(200)), pool=pool)["a"].to_replicas == 34


def test_a_replica_of_several_gpus_needs_all_of_them() -> None:
    decided = once(member("a", 15, metrics(200), gpus_per_replica=4, pods={"terminating": 0}))

    assert decided["a"].to_replicas == 16


@pytest.mark.parametrize(
    ("pool", "reason"),
    [(None, Reason.POOL_NOT_FOUND), (replace(POOL, budget_gpus=None), Reason.POOL_INVENTORY_UNKNOWN)],
)
def test_an_unknown_budget_is_neither_unlimited_nor_zero(pool: PoolSnapshot | None, reason: Reason) -> None:
    decided = once(member("a", 30, metrics(200)), pool=pool)

    assert (decided["a"].to_replicas, decided["a"].limited_by) == (30, reason)


def test_an_overdrawn_pool_takes_nothing_away_at_once() -> None:
    decided = once(member("a", 40, metrics(300)), member("b", 40, metrics(300)))

    assert [d.to_replicas for d in decided.values()] == [40, 40]


def test_the_rate_limit_bounds_what_a_pool_gives_back_in_its_window() -> None:
    fleet = settled(replicas=40, pools={"h100": POOL}, pool="h100")
    sizes = [d.to_replicas for d in fleet.run(metrics(10), 600) if d.changes]

    # 20 % of 64 GPUs are 12: a step of 10, then the 2 that are left of this window.
    assert sizes == [30, 28]


def test_the_rate_limit_lets_at_least_one_replica_go() -> None:
    pool = replace(POOL, budget_gpus=4)
    fleet = settled(replicas=4, pools={"h100": pool}, pool="h100")
    fleet.run(metrics(1), 345)

    assert fleet.replicas == 3


def test_gpus_that_are_paid_for_stay_until_another_workload_is_short() -> None:
    policy = replace(POLICY, scale_down=ScaleDown.WHEN_POOL_SHORT)
    fleet = settled(replicas=40, policy=policy, pools={"h100": POOL}, pool="h100")
    decisions = fleet.run(metrics(50), 900)

    assert fleet.replicas == 40
    assert decisions[-1].reason is Reason.POOL_NOT_SHORT


def test_gpus_are_given_back_when_another_workload_is_short() -> None:
    policy = replace(POLICY, scale_down=ScaleDown.WHEN_POOL_SHORT)
    memory, now = Memory(), 0.0
    for _ in range(30):
        idle, busy = member("a", 40, metrics(50), policy=policy), member("b", 24, metrics(150))
        decisions, memory = decide(FleetSnapshot(now, TICK_SECONDS, (idle, busy), {"h100": POOL}), memory)
        now += TICK_SECONDS
        if decisions[0].changes:
            break

    assert decisions[0].to_replicas == 30
    assert (decisions[1].to_replicas, decisions[1].unmet_replicas) == (24, 6)


def test_advice_keeps_no_gpus_from_what_is_scaled() -> None:
    advisory = replace(POLICY, mode=ScalingMode.ADVISORY)
    pool = replace(POOL, budget_gpus=30)
    decided = once(
        member("advice", 10, metrics(150), policy=advisory, priority=10), member("active", 10, metrics(100)), pool=pool
    )

    assert (decided["active"].to_replicas, decided["advice"].to_replicas) == (20, 10)


def test_advice_does_not_make_a_pool_short() -> None:
    advisory, paid = replace(POLICY, mode=ScalingMode.ADVISORY), replace(POLICY, scale_down=ScaleDown.WHEN_POOL_SHORT)
    memory, now = Memory(), 0.0
    for _ in range(40):
        members = (
            member("idle", 40, metrics(50), policy=paid), member("advice", 24, metrics(150), policy=advisory),
        )  # fmt: skip
        decisions, memory = decide(FleetSnapshot(now, TICK_SECONDS, members, {"h100": POOL}), memory)
        now += TICK_SECONDS

    assert decisions[0].reason is Reason.POOL_NOT_SHORT


@pytest.mark.parametrize("pool", [None, replace(POOL, budget_gpus=None)], ids=["gone", "unknown inventory"])
def test_nothing_is_given_back_of_a_pool_that_is_not_known(pool: PoolSnapshot | None) -> None:
    fleet = settled(replicas=40, pools={} if pool is None else {"h100": pool}, pool="h100")
    fleet.run(metrics(10), 3600)

    assert fleet.replicas == 40


def paid_for_next_to(other: ResourceSnapshot, seconds: float = 345) -> Decision:
    """The last decision on an idle deployment whose GPUs are paid for, beside another one in its pool."""
    policy = replace(POLICY, scale_down=ScaleDown.WHEN_POOL_SHORT)
    memory = Memory()
    for tick in range(round(seconds / TICK_SECONDS)):
        members = (member("idle", 40, metrics(50), policy=policy), other)
        decisions, memory = decide(FleetSnapshot(tick * TICK_SECONDS, TICK_SECONDS, members, {"h100": POOL}), memory)
    return decisions[0]


def test_another_ones_own_maximum_makes_no_pool_short() -> None:
    capped = member("b", 4, metrics(150), policy=replace(POLICY, max_replicas=4))

    assert paid_for_next_to(capped).reason is Reason.POOL_NOT_SHORT


def test_a_deployment_that_waits_for_its_first_gpus_makes_a_pool_short() -> None:
    missing = TargetMissing(Reason.POOL_EXHAUSTED, "pool h100 has no free GPU for a replica")
    waiting = resource(missing, metrics(0), uid="b", name="b", pool="h100")

    assert paid_for_next_to(waiting).to_replicas == 30


def test_a_lowered_maximum_is_obeyed_although_the_gpus_are_paid_for() -> None:
    pool = replace(POOL, scale_down_limit_percent=100)
    fleet = settled(replicas=30, pools={"h100": pool}, pool="h100")
    fleet.policy = replace(POLICY, scale_down=ScaleDown.WHEN_POOL_SHORT, max_replicas=20)
    fleet.run(metrics(50), 600)

    assert fleet.replicas == 20


def test_two_claims_on_one_target_are_charged_once() -> None:
    shared = target(30, uid="d-shared")
    claims = [
        resource(shared, metrics(150), uid=u, name=u, pool="h100", conflict="" if u == "a" else "a") for u in "abc"
    ]

    decided = once(*claims, member("d", 10, metrics(150)))

    assert decided["d"].to_replicas == 20


def test_scaled_down_gpus_are_free_only_when_their_pods_are_gone() -> None:
    leaving = target(10, ready=10, terminating=6)

    assert isinstance(leaving, Target)
    assert charged_gpus(leaving) == 16


def test_what_we_wrote_is_charged_before_the_watch_shows_it() -> None:
    """The watch is a tick behind: one replica of 8 GPUs is free for one of the two, and no tick gives it twice."""
    pools = {"h100": replace(POOL, budget_gpus=8)}
    owned: Mapping[str, Ownership] = {}
    memory = Memory()
    for tick in range(6):
        now = 100.0 + tick * TICK_SECONDS
        # Only from the second tick on does the second one want what the first one was given.
        members = (member("a", 2, metrics(40)), member("b", 2, metrics(40 if tick else 10)))
        judged = judge_owners(FleetSnapshot(now, TICK_SECONDS, members, pools), owned, 600)
        decided, memory = decide(judged.snapshot, memory)
        sizes = {d.name: d.to_replicas for d in decided}
        owned = {
            d.uid: wrote(judged.ownerships[d.uid], d.to_replicas, now) if d.changes else judged.ownerships[d.uid]
            for d in decided
        }
        assert sum(sizes.values()) <= 8
    assert sizes == {"a": 6, "b": 2}


def test_a_repeated_decision_is_granted_what_it_was_granted_before() -> None:
    pool = replace(POOL, budget_gpus=8)
    full = member("a", 2, metrics(30), pods={"written": 6}), member("b", 2, metrics(10))

    assert once(*full, pool=pool)["a"].to_replicas == 6


def guest(uid: str, replicas: int, mtr: Metrics, **changes: object) -> ResourceSnapshot:
    return replace(member(uid, replicas, mtr, **changes), pool=None, guest_of="h100")


def test_one_that_names_no_pool_takes_what_is_free_of_the_pool_on_whose_nodes_it_runs() -> None:
    # 30 and 20 of 64 GPUs are in use, those of the guest as of a stranger; 14 are free.
    pool = replace(POOL, charged_elsewhere={"lab": 20})
    decided = once(member("a", 30, metrics(200)), guest("b", 20, metrics(200)), pool=pool)

    assert decided["a"].to_replicas + decided["b"].to_replicas == 64
    alone = once(member("a", 30, metrics(100)), guest("b", 20, metrics(200)), pool=pool)
    assert (alone["b"].to_replicas, alone["b"].limited_by) == (34, Reason.POOL_EXHAUSTED)


def test_what_a_guest_asked_for_is_charged_before_a_node_has_it() -> None:
    pool = replace(POOL, charged_elsewhere={"lab": 20})
    waiting = guest("b", 30, metrics(100), pods={"ready": 20, "starting": 10, "unplaced": 4})

    assert once(member("a", 30, metrics(200)), waiting, pool=pool)["a"].to_replicas == 40


def test_a_guest_of_which_no_pod_has_a_node_takes_no_more_than_is_free() -> None:
    new = guest("b", 2, metrics(200), pods={"ready": 0, "starting": 2, "unplaced": 2})
    pool = replace(POOL, charged_elsewhere={"lab": 32})

    assert once(member("a", 28, metrics(140)), new, pool=pool)["b"].to_replicas == 4


@pytest.mark.parametrize("pool", [None, replace(POOL, budget_gpus=None)])
def test_an_unknown_pool_holds_no_guest(pool: PoolSnapshot | None) -> None:
    assert once(guest("b", 20, metrics(150)), pool=pool)["b"].to_replicas == 30


def test_a_guest_makes_no_pool_short_and_is_told_of_the_pool_by_its_name() -> None:
    paid = replace(POLICY, scale_down=ScaleDown.WHEN_POOL_SHORT)
    memory, about = Memory(), guest("b", 24, metrics(150))
    pool = replace(POOL, charged_elsewhere={"lab": 24})
    for tick in range(40):
        members = (member("idle", 40, metrics(50), policy=paid), about)
        now = tick * TICK_SECONDS
        decisions, memory = decide(FleetSnapshot(now, TICK_SECONDS, members, {"h100": pool}), memory)

    assert decisions[0].reason is Reason.POOL_NOT_SHORT
    capacity = next(j for j in judge(about, decisions[1]) if j.kind is ConditionType.CAPACITY_AVAILABLE)
    assert (capacity.holds, capacity.message) == (False, "pool h100: 6 GPUs are missing")


def test_a_pool_whose_nodes_come_with_the_pods_withholds_nothing() -> None:
    elastic = replace(POOL, budget_gpus=None, inventory_gpus=None, is_elastic=True)

    assert once(member("a", 10, metrics(100)), pool=elastic)["a"].to_replicas == 20


def test_a_pool_whose_nodes_come_with_the_pods_gives_back_a_share_of_what_it_holds() -> None:
    elastic = replace(POOL, budget_gpus=None, inventory_gpus=None, is_elastic=True)
    fleet = settled(replicas=40, pools={"h100": elastic}, pool="h100")
    sizes = [d.to_replicas for d in fleet.run(metrics(10), 600) if d.changes]

    # 20 % of 40 GPUs.
    assert sizes == [32]
    assert judge_pool(elastic, ())[0].holds is True


def test_the_order_of_resources_does_not_change_the_answer() -> None:
    members = [member("a", 30, metrics(200)), member("b", 20, metrics(200), priority=3), member("c", 5, metrics(40))]

    assert once(*members) == once(*reversed(members))


def test_without_a_pool_there_is_no_budget() -> None:
    assert Fleet(replicas=30).tick(metrics(290)).to_replicas == 58
