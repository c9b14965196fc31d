"""Anything that a pool may hold (pods without GPUs, no member at all, servers of any size) is decided on."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.decide import Memory, admit, decide, judge_facts, judge_pool, peaks, shortages
from firsttoken_operator.domain import (
    FleetSnapshot,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    Server,
    Target,
    TargetMissing,
    Tenant,
    Unsized,
)
from tests.fixtures.hypothesis_scale import examples
from tests.operator.decide.builders import SIZED, TICK_SECONDS, metrics, resource, target
from tests.operator.decide.strategies import any_metrics
from tests.operator.decide.test_gpus_are_shared_fairly import servers

POOL = PoolSnapshot(
    "h100", 64, 64, on_prem=True, scale_down_limit_percent=20, scale_down_limit_window_seconds=600,
    servers=servers(*[4] * 8),
)  # fmt: skip
COUNTS = st.integers(0, 12)
pools = st.builds(
    lambda budget, sizes, tenants, per_server, elastic: replace(
        POOL, budget_gpus=budget, servers=sizes, tenants=tenants, tenant_names={"web": "web"},
        gpus_per_server=per_server, is_elastic=elastic and budget is None,
    ),
    st.none() | st.integers(0, 80),
    st.none() | st.lists(st.builds(Server, st.just("s"), st.integers(0, 16), st.integers(0, 16)), max_size=4),
    st.sampled_from([(), (Tenant("web", quota_gpus=9), Tenant("lab"))]),
    st.sampled_from([1, 4, 8]),
    st.booleans(),
)  # fmt: skip
targets = st.builds(
    target, COUNTS, ready=COUNTS, starting=COUNTS, stuck=COUNTS, terminating=COUNTS, draining=COUNTS, unplaced=COUNTS,
    unschedulable=COUNTS, gpus_per_replica=st.sampled_from([0, 0, 1, 4, 8, 12]), written=COUNTS,
    occupied_gpus=st.none() | COUNTS, refused=st.sampled_from(["", "exceeded quota"]), uid=st.uuids().map(str),
) | st.builds(TargetMissing, st.just(Reason.TARGET_NOT_FOUND), st.just(""), COUNTS)  # fmt: skip
members = st.builds(
    lambda tgt, mtr, sized, namespace, named, priority: (tgt, mtr, {
        "sized": sized, "namespace": namespace, "priority": priority,
        "pool": "h100" if named else None, "guest_of": None if named else "h100",
    }),
    targets, any_metrics(), st.sampled_from([SIZED, Unsized(Reason.UNKNOWN_MODEL, "")]),
    st.sampled_from(["web", "lab", "none"]), st.booleans(), st.integers(-2, 2),
)  # fmt: skip


def fleet(pool: PoolSnapshot, *found: ResourceSnapshot) -> FleetSnapshot:
    return FleetSnapshot(0, TICK_SECONDS, found, {"h100": pool})


@given(pools, st.lists(members, max_size=4))
@settings(max_examples=examples(150), deadline=None)
def test_every_tick_has_its_decisions(pool: PoolSnapshot, made: list[tuple[Target, object, dict[str, object]]]) -> None:
    found = [resource(t, m, uid=f"u{n}", name=f"n{n}", **more) for n, (t, m, more) in enumerate(made)]  # type: ignore[arg-type]
    snapshot, memory = fleet(pool, *found), Memory()
    for number in range(2):
        decided, memory = decide(replace(snapshot, now_seconds=number * 1000.0), memory)
        assert len(decided) == len(found)
    admit(snapshot, decided)
    judge_pool(pool, decided, peaks(pool, found))
    shortages(pool, found, 0.0, 1e5)


def test_pods_without_gpus_keep_no_other_from_its_own() -> None:
    waiting = target(2, ready=1, starting=1, unplaced=1, gpus_per_replica=0, uid="d-waiting")
    cpu = target(2, gpus_per_replica=0, uid="d-cpu")
    found = [
        resource(waiting, metrics(1), uid="waiting", name="waiting", pool="h100"),
        resource(cpu, metrics(20), uid="cpu", name="cpu", pool="h100"),
        resource(target(8, uid="d-gpu"), metrics(60), uid="gpu", name="gpu", pool="h100"),
    ]
    decided, _ = decide(judge_facts(fleet(POOL, *found)), Memory())

    assert [d.to_replicas for d in decided] == [2, 2, 12]


def test_a_pool_without_a_sized_member_has_no_shortage() -> None:
    unsized = resource(target(8), metrics(60), pool="h100", sized=Unsized(Reason.UNKNOWN_MODEL, ""))

    assert shortages(POOL, (), 0.0, 1e5) == ()
    assert shortages(POOL, (unsized,), 0.0, 1e5) == ()
