"""Shares of a pool: quotas, minimums inside them, classes of priority, weighted max-min fair shares, whole servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.decide import Ledger, Memory, decide, judge, judge_facts
from firsttoken_operator.decide.sharing import Claim, Grant, share
from firsttoken_operator.domain import (
    ConditionType,
    Decision,
    FleetSnapshot,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    Server,
    Tenant,
)
from tests.fixtures.hypothesis_scale import examples
from tests.operator.decide.builders import TICK_SECONDS, metrics, resource, target

PAGE = Path(__file__).parents[3] / "docs" / "design" / "control.md"
POOL = PoolSnapshot("h100", 32, 32, on_prem=True, scale_down_limit_percent=20, scale_down_limit_window_seconds=600)
TENANTS = (Tenant("web", weight=2), Tenant("lab", quota_gpus=12, max_priority=0))
NAMES = {"web": "web", "lab": "lab"}


def servers(*free: int, gpus: int = 8) -> tuple[Server, ...]:
    return tuple(Server(f"gpu-{number}", gpus, gpus - each) for number, each in enumerate(free))


def claim(uid: str, replicas: int, **changes: object) -> Claim:
    base = Claim(uid, "web", 1, replicas, 0, 0, ("", "web", uid))
    return replace(base, **changes)  # type: ignore[arg-type]


def shared(pool: PoolSnapshot, *claims: Claim) -> Mapping[str, Grant]:
    return share(claims, Ledger(pool, (), ()))


def replicas(pool: PoolSnapshot, *claims: Claim) -> dict[str, int]:
    return {uid: grant.replicas for uid, grant in shared(pool, *claims).items()}


def worked() -> list[dict[str, str]]:
    """Rows of the worked table on the page of the control law."""
    lines = PAGE.read_text("utf-8").split("## Pool")[1].split("## ")[0].splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [dict(zip(table[0], row, strict=True)) for row in table[2:]]


def test_the_worked_table_is_what_the_ledger_gives() -> None:
    members, asked, expected = [], [], {}
    for row in worked():
        name, tenant, gpus, now = row["deployment"], row["tenant"], int(row["GPUs a replica"]), int(row["replicas"])
        members.append(resource(target(now, uid=name, gpus_per_replica=gpus), metrics(1), uid=name, namespace=tenant))
        priority = min(int(row["priority"]), 0 if tenant == "lab" else 1000)
        minimum = max(0, int(row["minimum"]) - now)
        whole = claim(
            name, int(row["asks for"]) - now - minimum, namespace=tenant, gpus=gpus, priority=priority,
            held_gpus=now * gpus,
        )  # fmt: skip
        asked += [whole, replace(whole, replicas=minimum, is_minimum=True)] if minimum else [whole]
        expected[name] = (int(row["gets"]), row["limited by"].strip("`") or None)
    # Of five servers one is cordoned; what runs there counts in the budget, what is free there does not.
    pool = replace(POOL, budget_gpus=40, servers=servers(*[8] * 6), tenants=TENANTS, tenant_names=NAMES)
    granted = share(asked, Ledger(pool, members, ()))

    assert len(expected) >= 4
    assert {
        row["deployment"]: (
            int(row["replicas"]) + granted[row["deployment"]].replicas,
            granted[row["deployment"]].refused,
        )
        for row in worked()
    } == expected


def test_who_holds_the_least_is_served_next() -> None:
    assert replicas(replace(POOL, budget_gpus=6), claim("a", 9, held_gpus=4), claim("b", 9)) == {"a": 1, "b": 5}


def test_a_demand_that_is_met_leaves_its_share_to_the_others() -> None:
    assert replicas(replace(POOL, budget_gpus=9), claim("a", 1), claim("b", 9), claim("c", 9)) == {
        "a": 1, "b": 4, "c": 4,
    }  # fmt: skip


def test_a_tenant_with_twice_the_weight_gets_twice_as_much() -> None:
    pool = replace(POOL, budget_gpus=9, tenants=(Tenant("web", weight=2), Tenant("lab")), tenant_names=NAMES)

    assert replicas(pool, claim("a", 9), claim("b", 9), claim("c", 9, namespace="lab")) == {"a": 3, "b": 3, "c": 3}


def test_many_deployments_do_not_make_a_larger_tenant() -> None:
    many = [claim(f"a{number}", 4) for number in range(4)]
    granted = replicas(replace(POOL, budget_gpus=8), *many, claim("b", 9, namespace="lab"))

    assert granted["b"] == sum(granted.values()) - granted["b"] == 4


@pytest.mark.parametrize("changes", [{"is_minimum": True}, {"priority": 1000}], ids=["minimum", "priority"])
def test_neither_a_minimum_nor_a_priority_goes_beyond_a_quota(changes: dict[str, object]) -> None:
    pool = replace(POOL, tenants=TENANTS, tenant_names=NAMES, charged_elsewhere={"lab": 4})
    greedy = shared(pool, claim("b", 30, namespace="lab", **changes))["b"]

    assert (greedy.replicas, greedy.refused) == (8, Reason.QUOTA_EXCEEDED)
    assert greedy.words == "tenant lab holds 12 of its 12 GPUs"


def test_a_namespace_without_a_tenant_gets_nothing_where_tenants_are_declared() -> None:
    grant = shared(replace(POOL, tenants=TENANTS, tenant_names=NAMES), claim("c", 3, namespace="other"))["c"]

    assert (grant.replicas, grant.refused) == (0, Reason.NOT_A_TENANT)


def test_a_priority_counts_as_the_highest_that_the_tenant_may_have() -> None:
    def member(name: str, namespace: str, priority: int) -> ResourceSnapshot:
        tgt = target(2, uid=f"d-{name}")
        return resource(tgt, metrics(50), uid=name, name=name, namespace=namespace, pool="h100", priority=priority)

    pool = replace(POOL, budget_gpus=8, tenants=TENANTS, tenant_names=NAMES)
    members = (member("pushy", "lab", 1_000), member("a", "web", 1))
    decided, _ = decide(judge_facts(FleetSnapshot(0, TICK_SECONDS, members, {"h100": pool})), Memory())

    assert {d.name: d.to_replicas for d in decided} == {"pushy": 2, "a": 6}


def test_eight_gpus_one_a_server_start_no_replica_of_four_and_the_reason_says_so() -> None:
    pool = replace(POOL, budget_gpus=64, servers=servers(*[1] * 8))
    about = resource(target(2, gpus_per_replica=4), metrics(20), pool="h100")
    (decision,), _ = decide(FleetSnapshot(0, TICK_SECONDS, (about,), {"h100": pool}), Memory())

    assert (decision.to_replicas, decision.limited_by) == (2, Reason.POOL_FRAGMENTED)
    condition = next(j for j in judge(about, decision) if j.kind is ConditionType.CAPACITY_AVAILABLE)
    assert condition.holds is False
    assert condition.message == (
        "pool h100: 8 GPUs are missing; no server has 4 free GPUs: 8 are free, at most 1 on one; "
        "gathered on whole servers they would hold 2 replicas"
    )


def test_the_fullest_server_that_has_room_is_taken_so_that_large_replicas_still_fit() -> None:
    pool = replace(POOL, budget_gpus=64, servers=servers(2, 8))

    assert replicas(pool, claim("small", 2), claim("large", 1, gpus=8, priority=1)) == {"small": 0, "large": 1}
    small = resource(target(2, starting=2, ready=0, unplaced=2, unschedulable=2), metrics(1), pool="h100")
    assert Ledger(pool, (small,), ()).refusal("web", 8) is None


def test_smaller_replicas_wait_until_larger_ones_have_their_nodes_unless_there_is_room_in_any_case() -> None:
    both = claim("large", 2, gpus=4, priority=1), claim("small", 2)
    pool = replace(POOL, budget_gpus=64, servers=servers(6, 6))
    waiting = shared(pool, *both)

    assert (waiting["large"].replicas, waiting["small"].replicas) == (2, 0)
    assert waiting["small"].words == "replicas of more GPUs get their servers first"
    assert replicas(replace(pool, servers=servers(6, 6, 8)), *both) == {"large": 2, "small": 2}
    assert replicas(replace(pool, servers=servers(2, 2)), both[1]) == {"small": 2}


def test_a_replica_of_more_than_a_server_takes_whole_ones() -> None:
    pool = replace(POOL, budget_gpus=64, servers=servers(8, 8, 7))

    assert replicas(pool, claim("a", 2, gpus=16)) == {"a": 1}
    assert replicas(pool, claim("a", 2, gpus=12)) == {"a": 1}
    assert replicas(replace(pool, servers=servers(8, 7, 7)), claim("a", 1, gpus=16)) == {"a": 0}


def test_pods_that_wait_for_a_node_have_their_place_on_a_server() -> None:
    waiting = resource(target(1, ready=0, starting=1, unplaced=1, gpus_per_replica=8), metrics(1), pool="h100")
    pool = replace(POOL, budget_gpus=64)

    assert Ledger(replace(pool, servers=servers(8, 4)), (waiting,), ()).refusal("web", 8) is Reason.POOL_EXHAUSTED
    assert Ledger(replace(pool, servers=servers(8, 8)), (waiting,), ()).refusal("web", 4) is None


def test_what_a_higher_class_waits_for_is_not_taken_bit_by_bit() -> None:
    ending = resource(target(0, terminating=1, draining=1, gpus_per_replica=4), metrics(0), pool="h100", uid="ending")
    pool = replace(POOL, budget_gpus=8)
    both = claim("high", 1, priority=1, gpus=8), claim("low", 4)

    assert {uid: g.replicas for uid, g in share(both, Ledger(pool, (ending,), ())).items()} == {"high": 0, "low": 0}
    # Nothing is coming: what is free is of use to the others.
    stuck = replace(pool, charged_elsewhere={"lab": 4})
    assert replicas(stuck, *both) == {"high": 0, "low": 4}


def test_a_pod_counts_with_the_gpus_that_it_has_or_is_to_have() -> None:
    changing = resource(target(4, gpus_per_replica=2, occupied_gpus=14), metrics(1), pool="h100")

    assert Ledger(POOL, (changing,), ()).free_gpus == 32 - 14


def test_pods_that_may_be_ending_are_no_room_to_grow_into() -> None:
    leaving = resource(target(1, ready=2), metrics(50), pool="h100")
    (decision,), _ = decide(FleetSnapshot(0, TICK_SECONDS, (leaving,), {"h100": POOL}), Memory())

    assert (decision.to_replicas, decision.limited_by) == (1, Reason.PODS_DRAINING)


sizes = st.sampled_from([1, 1, 2, 4, 8])
pools = st.builds(
    lambda cap, free, quota, weight: replace(
        POOL, budget_gpus=cap, servers=None if free is None else servers(*free),
        tenants=(Tenant("web", weight=weight), Tenant("lab", quota_gpus=quota)), tenant_names=NAMES,
    ),
    st.integers(0, 40),
    st.none() | st.lists(st.integers(0, 8), max_size=5),
    st.none() | st.integers(0, 20),
    st.integers(1, 3),
)  # fmt: skip


@st.composite
def claims(draw: st.DrawFn) -> list[Claim]:
    return [
        claim(
            f"c{number}", draw(st.integers(1, 12)), namespace=draw(st.sampled_from(["web", "lab", "other"])),
            gpus=draw(sizes), priority=draw(st.integers(0, 2)), held_gpus=draw(st.integers(0, 9)),
            is_minimum=draw(st.booleans()),
        )
        for number in range(draw(st.integers(0, 6)))
    ]  # fmt: skip


@given(pool=pools, asked=claims())
@settings(max_examples=examples(200))
def test_never_more_than_the_pool_a_quota_or_the_servers_have(pool: PoolSnapshot, asked: list[Claim]) -> None:
    granted, by_uid = shared(pool, *asked), {c.uid: c for c in asked}
    gpus = {uid: by_uid[uid].gpus * grant.replicas for uid, grant in granted.items()}

    assert sum(gpus.values()) <= (pool.budget_gpus or 0)
    if pool.servers is not None:
        assert sum(gpus.values()) <= sum(server.free_gpus for server in pool.servers)
    lab = pool.tenants[1].quota_gpus
    assert lab is None or sum(gpus[c.uid] for c in asked if c.namespace == "lab") <= lab
    assert all(gpus[c.uid] == 0 for c in asked if c.namespace == "other")
    assert all((grant.refused is None) == (grant.replicas == by_uid[uid].replicas) for uid, grant in granted.items())


@given(pool=pools, asked=claims(), order=st.randoms())
@settings(max_examples=examples(100))
def test_the_order_of_the_claims_does_not_change_the_shares(
    pool: PoolSnapshot, asked: list[Claim], order: object
) -> None:
    shuffled = list(asked)
    order.shuffle(shuffled)  # type: ignore[attr-defined]

    assert shared(pool, *asked) == shared(pool, *shuffled)


@given(asked=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 9)), min_size=1, max_size=6), cap=st.integers(0, 40))
@settings(max_examples=examples(100))
def test_who_is_short_could_be_given_more_only_by_taking_from_who_has_less(
    asked: list[tuple[int, int]], cap: int
) -> None:
    wanted = [claim(f"c{n}", replicas, held_gpus=held) for n, (replicas, held) in enumerate(asked)]
    granted = replicas(replace(POOL, budget_gpus=cap), *wanted)
    total = {c.uid: c.held_gpus + granted[c.uid] for c in wanted}

    for short in (c for c in wanted if granted[c.uid] < c.replicas):
        richest = max((total[c.uid] for c in wanted if granted[c.uid]), default=0)
        assert total[short.uid] >= richest - 1


def test_a_decision_says_what_the_pool_says() -> None:
    pool = replace(POOL, tenants=TENANTS, tenant_names=NAMES)
    about = resource(target(12, uid="d"), metrics(100), namespace="lab", pool="h100")
    decided: tuple[Decision, ...]
    decided, _ = decide(FleetSnapshot(0, TICK_SECONDS, (about,), {"h100": pool}), Memory())

    assert decided[0].limited_by is Reason.QUOTA_EXCEEDED
    assert decided[0].shortage == "tenant lab holds 12 of its 12 GPUs"
