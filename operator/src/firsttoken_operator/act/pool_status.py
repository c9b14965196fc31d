"""The status of a GPUPool: who holds its GPUs and who asked for more. Written on change only."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from firsttoken_operator.act.conditions import condition
from firsttoken_operator.act.errors import ClusterError, NotFound
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.status import document, read_status
from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.api.status import GPUPoolStatus, PoolShare
from firsttoken_operator.decide import charged_gpus, charged_together, judge_pool
from firsttoken_operator.domain import Decision, FleetSnapshot, PoolSnapshot, ResourceSnapshot, Target

logger = logging.getLogger(__name__)

MAX_SHARES = 1000


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """GPUs of one pool: status and metrics say the same. `free` is None where the budget is not known."""

    charged: int
    free: int | None
    unmet: int
    members: tuple[ResourceSnapshot, ...]
    unmet_by_uid: Mapping[str, int]


class PoolPublisher:
    """Statuses of all pools, with what was written last, by uid."""

    def __init__(self, cluster: KubernetesCluster) -> None:
        self._cluster = cluster
        self._written: dict[str, GPUPoolStatus] = {}

    async def publish(
        self,
        snapshot: FleetSnapshot,
        decisions: Iterable[Decision],
        shown: Mapping[str, Mapping[str, Any]],
        now: datetime,
    ) -> None:
        """Write what changed; `shown` are the statuses by name that the watch shows. Never raises `ClusterError`."""
        decisions = tuple(decisions)
        for name, pool in snapshot.pools.items():
            previous = self._written.get(pool.uid) or read_status(GPUPoolStatus, shown.get(name, {}))
            status = pool_status(previous, pool, pool_figures(pool, snapshot, decisions), decisions, now)
            if previous == status:
                continue
            ref = ObjectRef(API_VERSION, "GPUPool", "", name)
            try:
                await self._cluster.replace_status(ref, document(status), uid=pool.uid)
                self._written[pool.uid] = status
            except NotFound:
                continue
            except ClusterError as error:
                logger.warning("status of pool %s not written: %s", name, error)
        for gone in self._written.keys() - {pool.uid for pool in snapshot.pools.values()}:
            del self._written[gone]


def pool_figures(pool: PoolSnapshot, snapshot: FleetSnapshot, decisions: Iterable[Decision]) -> PoolFigures:
    """Who holds how many GPUs of a pool, and who asked for more."""
    members = tuple(resource for resource in snapshot.resources if resource.pool == pool.name)
    uids = {resource.uid for resource in members}
    charged = charged_together(r.target for r in members) + pool.charged_elsewhere_gpus
    unmet_by_uid = {d.uid: d.unmet_replicas * d.gpus_per_replica for d in decisions if d.uid in uids}
    return PoolFigures(
        charged=charged,
        free=None if pool.budget_gpus is None else max(0, pool.budget_gpus - charged),
        unmet=sum(unmet_by_uid.values()),
        members=members,
        unmet_by_uid=unmet_by_uid,
    )


def pool_status(
    previous: GPUPoolStatus,
    pool: PoolSnapshot,
    figures: PoolFigures,
    decisions: Iterable[Decision],
    now: datetime,
) -> GPUPoolStatus:
    """The whole new status. Equal to `previous` where nothing is worth a write."""
    available = judge_pool(pool, (d for d in decisions if d.uid in figures.unmet_by_uid))
    before = {c.type: c for c in previous.conditions}
    return GPUPoolStatus(
        observed_generation=pool.generation,
        inventory_gpus=pool.inventory_gpus,
        charged_gpus=figures.charged,
        free_gpus=figures.free,
        unmet_gpus=figures.unmet,
        deployments=tuple(
            PoolShare(
                namespace=r.namespace,
                name=r.name,
                charged_gpus=charged_gpus(r.target) if isinstance(r.target, Target) else None,
                unmet_gpus=figures.unmet_by_uid.get(r.uid),
            )
            for r in sorted(figures.members, key=lambda r: (r.namespace, r.name))[:MAX_SHARES]
        ),
        conditions=(condition(before.get(available.kind), available, pool.generation, now),),
    )
