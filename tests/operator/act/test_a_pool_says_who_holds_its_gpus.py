"""The status of a GPUPool: shares, what is free, and which deployment has to do without; written on change only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from firsttoken_operator.act import pool_status
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.pool_status import PoolPublisher, pool_figures
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_operator.decide import Peak, peaks
from firsttoken_operator.domain import Decision, FleetSnapshot, PoolSnapshot, Provisioning, Reason, ResourceSnapshot
from firsttoken_operator.observe.resources import read_resource
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.act.objects import decision
from tests.operator.decide.builders import SIZED, metrics, resource, target

START = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
REF = ObjectRef("firsttoken.dev/v1alpha1", "GPUPool", "", "h100")
POOL = PoolSnapshot("h100", 20, 16, on_prem=True, scale_down_limit_percent=20, scale_down_limit_window_seconds=600,
                    charged_elsewhere={"lab": 2}, uid="uid-h100", generation=4)  # fmt: skip


def member(name: str, replicas: int, **changes: Any) -> ResourceSnapshot:
    tgt = target(replicas, uid=f"d-{name}", gpus_per_replica=2, terminating=1)
    sized = replace(SIZED, replicas_for_declared_peak=4)
    return replace(resource(tgt, metrics(20.0), pool="h100", sized=sized), uid=name, name=name, **changes)


A, B, OTHER = member("a", 3), member("b", 2), member("other", 9, pool="elsewhere")


def asked(about: ResourceSnapshot, unmet: int = 0, limited_by: Reason | None = None) -> Decision:
    return decision(about, 3, 3, unmet_replicas=unmet, gpus_per_replica=2, limited_by=limited_by)


class Pool:
    """A published pool; `tick` returns its status as the server has it."""

    def __init__(self) -> None:
        self.cluster = FakeCluster({REF: {"status": {}}})
        self.restart()

    def restart(self) -> None:
        self.writes = WriteQueue()
        self.publisher = PoolPublisher(self.cluster, self.writes)  # type: ignore[arg-type]

    async def tick(self, *decisions: Decision, pool: PoolSnapshot = POOL, minutes: int = 0) -> dict[str, Any]:
        snapshot = FleetSnapshot(0, 15, (A, B, OTHER), {"h100": pool})
        body = {"metadata": {"uid": pool.uid}, "status": self.cluster.objects[REF]["status"]}
        shown = {"h100": read_resource(GPUPool, body).status}
        self.publisher.publish(snapshot, decisions, shown, START + timedelta(minutes=minutes))
        await self.writes.settle()
        status: dict[str, Any] = self.cluster.objects[REF]["status"]
        return status


def condition(status: dict[str, Any]) -> tuple[str, str]:
    found = next(each for each in status["conditions"] if each["type"] == "CapacityAvailable")
    return found["status"], found["reason"]


async def test_every_gpu_is_counted_once() -> None:
    status = await Pool().tick(asked(A, unmet=2), asked(B), asked(OTHER, unmet=7))

    assert status["deployments"] == [
        {"namespace": "call-center", "name": "a", "chargedGPUs": 8, "unmetGPUs": 4},
        {"namespace": "call-center", "name": "b", "chargedGPUs": 6, "unmetGPUs": 0},
    ]
    assert (status["chargedGPUs"], status["freeGPUs"], status["unmetGPUs"]) == (16, 4, 4)
    assert (status["inventoryGPUs"], status["observedGeneration"]) == (16, 4)


async def test_what_is_known_of_nodes_that_come_is_told() -> None:
    learned = replace(POOL, provisioning=Provisioning(118.6, 131.2, 140.0, 12), warm_gpus=8)
    status = await Pool().tick(asked(A), pool=learned)

    assert status["provisioning"] == {"p50Seconds": 119, "p90Seconds": 131, "pods": 12}
    assert status["warmGPUs"] == 8
    assert not {"provisioning", "warmGPUs"} & (await Pool().tick(asked(A))).keys()


def test_the_figures_are_those_of_the_members_only() -> None:
    snapshot = FleetSnapshot(0, 15, (A, B, OTHER), {"h100": POOL})
    figures = pool_figures(replace(POOL, budget_gpus=None), snapshot, (asked(A, unmet=1), asked(OTHER, unmet=7)))

    assert (figures.charged, figures.free, figures.unmet) == (16, None, 2)


@pytest.mark.parametrize(
    ("limited_by", "expected"),
    [
        (None, ("True", "Available")),
        (Reason.POOL_EXHAUSTED, ("False", "PoolExhausted")),
        (Reason.MAX_REPLICAS, ("True", "Available")),
    ],
)
async def test_capacity_is_missing_when_the_pool_is_what_limits(
    limited_by: Reason | None, expected: tuple[str, str]
) -> None:
    assert condition(await Pool().tick(asked(A, 1, limited_by))) == expected


async def test_who_is_short_in_another_pool_is_not_short_here() -> None:
    assert condition(await Pool().tick(asked(OTHER, 1, Reason.POOL_EXHAUSTED))) == ("True", "Available")


async def test_an_unknown_budget_is_neither_available_nor_exhausted() -> None:
    unknown = replace(POOL, budget_gpus=None, inventory_gpus=None)

    assert condition(await Pool().tick(pool=unknown)) == ("Unknown", "PoolInventoryUnknown")
    assert condition(await Pool().tick(pool=replace(unknown, problem="spec.gpu: unknown"))) == (
        "Unknown",
        "InvalidSpec",
    )


async def test_it_says_when_declared_peaks_will_be_short() -> None:
    # Four replicas for the declared peak of each of the two; others hold two of nine GPUs.
    status = await Pool().tick(asked(A), pool=replace(POOL, budget_gpus=9), minutes=30)

    assert status["shortages"] == [
        {"start": "2026-11-21T12:00:00Z", "end": "2026-11-28T12:00:00Z", "needGPUs": 8, "shortGPUs": 1}
    ]
    assert condition(status) == ("False", "PeakAbovePool")


async def test_it_is_written_on_change_only_also_after_a_restart() -> None:
    pool = Pool()
    await pool.tick(asked(A))
    await pool.tick(asked(A), minutes=1)
    pool.restart()
    await pool.tick(asked(A), minutes=2)
    assert pool.cluster.writes() == ["replace_status"]

    status = await pool.tick(asked(A), pool=replace(POOL, generation=5), minutes=3)
    assert pool.cluster.writes() == ["replace_status"] * 2
    assert status["observedGeneration"] == status["conditions"][0]["observedGeneration"] == 5
    assert status["conditions"][0]["lastTransitionTime"] == "2026-11-21T12:00:00Z"


async def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    pool = Pool()
    await pool.tick(asked(A))
    short = await pool.tick(asked(A, 1, Reason.POOL_EXHAUSTED), minutes=5)

    assert short["conditions"][0]["lastTransitionTime"] == "2026-11-21T12:05:00Z"


@pytest.mark.cluster
async def test_the_real_api_server_takes_the_whole_status(api: KubernetesCluster) -> None:
    body = {
        "apiVersion": REF.api_version, "kind": REF.kind, "metadata": {"name": REF.name},
        "spec": {"location": "OnPrem", "gpu": "H100-SXM-80GB", "peakGPUs": 20},
    }  # fmt: skip
    live = await api.create(body)
    made = replace(POOL, uid=live["metadata"]["uid"], generation=live["metadata"]["generation"])
    snapshot = FleetSnapshot(0, 15, (A, B, OTHER), {"h100": made})
    writes = WriteQueue()
    PoolPublisher(api, writes).publish(snapshot, (asked(A, 1, Reason.POOL_EXHAUSTED),), {}, START)
    await writes.settle()
    status = (await api.read(REF))["status"]

    assert condition(status) == ("False", "PoolExhausted")
    assert (status["observedGeneration"], status["freeGPUs"], len(status["deployments"])) == (1, 4, 2)


async def test_a_status_of_another_version_is_written_anew() -> None:
    pool = Pool()
    pool.cluster.objects[REF]["status"] = {"chargedGPUs": "many"}

    assert (await pool.tick(asked(A)))["chargedGPUs"] == 16


async def test_a_pool_of_which_the_status_fails_keeps_no_other_from_its_own() -> None:
    class Unreadable(dict[str, int]):
        def values(self) -> Any:
            raise RuntimeError("unreadable")

    shown = Pool()
    bad = replace(POOL, name="a-bad", uid="uid-bad", charged_elsewhere=Unreadable())
    snapshot = FleetSnapshot(0, 15, (A, B), {"a-bad": bad, "h100": POOL})
    shown.publisher.publish(snapshot, (asked(A), asked(B)), {}, START)
    await shown.writes.settle()

    assert shown.cluster.objects[REF]["status"]["inventoryGPUs"] == 16


async def test_the_peaks_are_shared_again_only_when_something_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = []

    def counted(pool: PoolSnapshot, members: Iterable[ResourceSnapshot]) -> list[Peak]:
        shared.append(pool)
        return peaks(pool, members)

    monkeypatch.setattr(pool_status, "peaks", counted)
    shown = Pool()
    for minute in range(5):
        await shown.tick(asked(A), asked(B), minutes=minute)
    assert len(shared) == 1
    await shown.tick(asked(A), asked(B), pool=replace(POOL, charged_elsewhere={"lab": 3}))

    assert len(shared) == 2
