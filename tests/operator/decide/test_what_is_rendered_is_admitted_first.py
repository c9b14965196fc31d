"""Which deployments are rendered at a tick: new ones as far as their pool has GPUs, running ones if it can be read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.decide import Admission, Waiting, admit
from firsttoken_operator.domain import Claims, FleetSnapshot, PoolSnapshot, Reason, ResourceSnapshot, TargetMissing
from tests.operator.decide.builders import lost, resource, target

RENDERED = Claims("a", is_rendered=True)
NEW = resource(TargetMissing(Reason.TARGET_NOT_FOUND, ""), lost(), pool="h100", claims=RENDERED)
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


def test_what_is_new_gets_what_is_free() -> None:
    found = one(NEW, POOL)

    assert isinstance(found, Admission)
    assert (found.is_new, found.replicas) == (True, 4)
