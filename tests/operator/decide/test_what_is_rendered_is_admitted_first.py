"""Admission to rendering at a tick: new deployments as far as their pool has GPUs, running ones if it can be read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.decide import Admission, Waiting, admit
from firsttoken_operator.domain import (
    Claims,
    FleetSnapshot,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    TargetMissing,
    Unsized,
)
from tests.operator.decide.builders import SIZED, lost, resource, target

RENDERED = Claims("a", is_rendered=True)
NEW = resource(TargetMissing(Reason.TARGET_NOT_FOUND, ""), lost(), pool="h100", claims=RENDERED)
GUEST = replace(NEW, pool=None, guest_of="h100")
RUNNING = replace(NEW, target=target(3))
POOL = PoolSnapshot("h100", 4, 4, False, 20, 600)
UNREADABLE = replace(POOL, budget_gpus=None, problem="spec.gpu: unknown")


def one(about: ResourceSnapshot, *pools: PoolSnapshot) -> Admission | Waiting:
    (found,) = admit(FleetSnapshot(0, 15, (about,), {pool.name: pool for pool in pools}), ())
    return found


def test_what_runs_in_a_pool_that_can_be_read_is_rendered() -> None:
    found = one(RUNNING, POOL)

    assert isinstance(found, Admission)
    assert not found.is_new


@pytest.mark.parametrize(
    ("pools", "reason"), [((UNREADABLE,), Reason.INVALID_SPEC), ((), Reason.POOL_NOT_FOUND)], ids=["unreadable", "gone"]
)
def test_what_runs_waits_for_a_pool_that_cannot_be_read(pools: tuple[PoolSnapshot, ...], reason: Reason) -> None:
    found = one(RUNNING, *pools)

    assert found == Waiting(RUNNING, False, reason, "pool h100 cannot be read; what runs stays as it is")


def test_what_runs_needs_no_free_gpu_and_no_pool() -> None:
    for found in (one(RUNNING, replace(POOL, budget_gpus=0)), one(replace(RUNNING, pool=None))):
        assert isinstance(found, Admission)


@pytest.mark.parametrize(
    ("pools", "reason"),
    [
        ((UNREADABLE,), Reason.POOL_INVENTORY_UNKNOWN),
        ((), Reason.POOL_NOT_FOUND),
        ((replace(POOL, budget_gpus=0),), Reason.POOL_EXHAUSTED),
    ],
    ids=["unreadable", "gone", "full"],
)
def test_what_is_new_waits_for_gpus(pools: tuple[PoolSnapshot, ...], reason: Reason) -> None:
    found = one(NEW, *pools)

    assert isinstance(found, Waiting)
    assert (found.is_new, found.reason) == (True, reason)


@pytest.mark.parametrize("new", [NEW, GUEST], ids=["member", "guest"])
def test_what_is_new_gets_what_is_free(new: ResourceSnapshot) -> None:
    found = one(new, POOL)

    assert isinstance(found, Admission)
    assert (found.is_new, found.replicas) == (True, 4)


def test_what_is_new_and_names_no_pool_waits_for_gpus_of_the_one_whose_nodes_it_would_run_on() -> None:
    found = one(GUEST, replace(POOL, budget_gpus=0))

    assert isinstance(found, Waiting)
    assert (found.is_new, found.reason) == (True, Reason.POOL_EXHAUSTED)


def test_what_names_no_pool_waits_for_none_of_unknown_size() -> None:
    larger = replace(SIZED, configuration=replace(SIZED.configuration, tensor_parallel=2))
    for about in (GUEST, replace(GUEST, target=target(3), sized=larger)):
        for pools in ((UNREADABLE,), ()):
            assert isinstance(one(about, *pools), Admission)


def test_what_a_guest_was_made_or_granted_is_not_given_twice() -> None:
    made = replace(GUEST, uid="r-2", target=TargetMissing(Reason.TARGET_NOT_FOUND, "", made_gpus=3))
    snapshot = FleetSnapshot(0, 15, (replace(NEW, priority=1), made), {"h100": POOL})

    assert [found.replicas for found in admit(snapshot, ()) if isinstance(found, Admission)] == [1, 3]


@pytest.mark.parametrize(("budget", "admitted"), [(5, False), (6, True)])
def test_what_runs_takes_more_gpus_a_replica_only_where_the_pool_has_them(budget: int, admitted: bool) -> None:
    larger = replace(SIZED, configuration=replace(SIZED.configuration, tensor_parallel=2))
    for sized in (larger, Unsized(Reason.TENSOR_PARALLEL_MISMATCH, "", withheld=larger)):
        found = one(replace(RUNNING, sized=sized), replace(POOL, budget_gpus=budget))

        assert isinstance(found, Admission) == admitted
        if isinstance(found, Waiting):
            assert (found.is_new, found.is_news, found.reason) == (False, True, Reason.POOL_EXHAUSTED)
            assert "3 free GPUs more for 2 GPUs a replica" in found.message


def test_what_runs_takes_no_more_gpus_a_replica_of_a_pool_of_unknown_size() -> None:
    larger = replace(SIZED, configuration=replace(SIZED.configuration, tensor_parallel=2))
    found = one(replace(RUNNING, sized=larger), replace(POOL, budget_gpus=None))

    assert isinstance(found, Waiting)
    assert found.reason is Reason.POOL_INVENTORY_UNKNOWN


def test_groups_that_wait_for_their_deployment_to_be_deleted_need_none() -> None:
    groups = replace(SIZED, configuration=replace(SIZED.configuration, tensor_parallel=8, pipeline_parallel=2))
    full = replace(POOL, budget_gpus=0)

    assert isinstance(one(replace(RUNNING, sized=groups), full), Admission)
    assert isinstance(one(replace(RUNNING, sized=groups), replace(full, gpus_per_server=16)), Waiting)


def test_fewer_gpus_a_replica_need_none() -> None:
    larger_pods = replace(RUNNING, target=target(3, gpus_per_replica=2))

    assert isinstance(one(larger_pods, replace(POOL, budget_gpus=0)), Admission)


def test_gpus_of_a_larger_replica_are_not_given_twice() -> None:
    larger = replace(SIZED, configuration=replace(SIZED.configuration, tensor_parallel=2))
    running = replace(RUNNING, sized=larger, priority=1)
    new = replace(NEW, uid="r-2", name="b", claims=Claims("b", is_rendered=True))
    snapshot = FleetSnapshot(0, 15, (new, running), {"h100": replace(POOL, budget_gpus=7)})
    first, second = admit(snapshot, ())

    assert isinstance(first, Admission)
    assert isinstance(second, Admission)
    assert (first.resource.uid, second.replicas) == ("r-1", 1)
