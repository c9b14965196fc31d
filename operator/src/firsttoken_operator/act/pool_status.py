"""The status of a GPUPool: who holds its GPUs and who asked for more. Written on change only."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from firsttoken_operator.act.backlog import Key, Priority
from firsttoken_operator.act.conditions import condition, timestamp
from firsttoken_operator.act.errors import NotFound, Withheld
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.status import document
from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.api.status import (
    ExcludedNodes,
    GPUPoolStatus,
    PoolShare,
    PoolShortage,
    ProvisioningStatus,
    TenantShare,
)
from firsttoken_operator.decide import Ledger, Peak, charged_gpus, judge_pool, peaks, shortages
from firsttoken_operator.domain import Decision, FleetSnapshot, PoolSnapshot, ResourceSnapshot, Target

logger = logging.getLogger(__name__)

MAX_SHARES = 1000
MAX_SHORTAGES = 64
CALENDAR_SECONDS = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """GPUs of one pool: status and metrics say the same. `free` is None where the budget is not known."""

    charged: int
    free: int | None
    unmet: int
    members: tuple[ResourceSnapshot, ...]
    unmet_by_uid: Mapping[str, int]
    tenants: tuple[TenantShare, ...] = ()


@dataclass(frozen=True, slots=True)
class Outlook:
    """Shortages of the next seven days, and what each deployment would have at the declared peaks of all."""

    shortages: tuple[PoolShortage, ...]
    peaks: Sequence[Peak]


class PoolPublisher:
    """Statuses of all pools, with the newest that is or was to be written, by uid."""

    def __init__(self, cluster: KubernetesCluster, writes: WriteQueue) -> None:
        self._cluster = cluster
        self._writes = writes
        self._wanted: dict[str, GPUPoolStatus] = {}
        self._outlooks: dict[str, tuple[Hashable, Outlook]] = {}
        """Outlook of each pool by its uid, with what it depends on."""

    def publish(
        self,
        snapshot: FleetSnapshot,
        decisions: Iterable[Decision],
        shown: Mapping[str, GPUPoolStatus],
        now: datetime,
    ) -> None:
        """Let what changed be written; `shown` are the statuses by name that the watch shows."""
        decisions = tuple(decisions)
        for pool in snapshot.pools.values():
            try:
                self._publish_one(pool, snapshot, decisions, shown, now)
            except Exception:
                # NB: what is in one pool must not keep the statuses of the others from being written.
                logger.exception("no status for GPUPool %s", pool.name)
        known = {pool.uid for pool in snapshot.pools.values()}
        for gone in self._wanted.keys() - known:
            del self._wanted[gone]
        for gone in self._outlooks.keys() - known:
            del self._outlooks[gone]

    def _publish_one(
        self,
        pool: PoolSnapshot,
        snapshot: FleetSnapshot,
        decisions: tuple[Decision, ...],
        shown: Mapping[str, GPUPoolStatus],
        now: datetime,
    ) -> None:
        previous = self._wanted.get(pool.uid) or shown.get(pool.name) or GPUPoolStatus()
        figures = pool_figures(pool, snapshot, decisions)
        status = pool_status(previous, pool, figures, decisions, now, self._outlook(pool, figures.members, now))
        if previous != status:
            self._wanted[pool.uid] = status
            self._writes.put(Key(pool.uid, "pool status"), Priority.STATUS, partial(self._write, pool.name, pool.uid))

    def _outlook(self, pool: PoolSnapshot, members: tuple[ResourceSnapshot, ...], now: datetime) -> Outlook:
        """The shortages and peaks of a pool, looked for when something changes and at each full hour."""
        hour = now.replace(minute=0, second=0, microsecond=0)
        basis = (
            hour, pool.generation, pool.budget_gpus, frozenset(pool.charged_elsewhere.items()),
            frozenset(pool.tenant_names.items()), None if pool.servers is None else tuple(s.gpus for s in pool.servers),
            tuple((r.uid, r.generation, r.sized_generation, id(r.sized)) for r in members),
        )  # fmt: skip
        known = self._outlooks.get(pool.uid)
        if known is None or known[0] != basis:
            found = tuple(
                PoolShortage(
                    start=_time(each.begins_seconds), end=_time(each.ends_seconds),
                    need_gpus=each.need_gpus, short_gpus=each.short_gpus,
                )
                for each in shortages(pool, members, hour.timestamp(), CALENDAR_SECONDS)[:MAX_SHORTAGES]
            )  # fmt: skip
            known = self._outlooks[pool.uid] = basis, Outlook(found, tuple(peaks(pool, members)))
        return known[1]

    async def _write(self, name: str, uid: str) -> None:
        newest = self._wanted.get(uid)
        if newest is None:
            return
        try:
            await self._cluster.replace_status(ObjectRef(API_VERSION, "GPUPool", "", name), document(newest), uid=uid)
        except (Withheld, NotFound):
            self._wanted.pop(uid, None)
            raise


def pool_figures(pool: PoolSnapshot, snapshot: FleetSnapshot, decisions: Iterable[Decision]) -> PoolFigures:
    """Count the GPUs of a pool by holder, and those that were asked for on top."""
    members = tuple(resource for resource in snapshot.resources if resource.pool == pool.name)
    ledger = Ledger(pool, members, (r for r in snapshot.resources if r.guest_of == pool.name))
    uids = {resource.uid for resource in members}
    unmet_by_uid = {d.uid: d.unmet_replicas * d.gpus_per_replica for d in decisions if d.uid in uids}
    return PoolFigures(
        charged=ledger.charged_gpus,
        free=None if pool.budget_gpus is None else max(0, ledger.free_gpus),
        unmet=sum(unmet_by_uid.values()),
        members=members,
        unmet_by_uid=unmet_by_uid,
        tenants=_tenants(pool, ledger, members, unmet_by_uid),
    )


def _tenants(
    pool: PoolSnapshot, ledger: Ledger, members: Iterable[ResourceSnapshot], unmet_by_uid: Mapping[str, int]
) -> tuple[TenantShare, ...]:
    unmet: Counter[str] = Counter()
    for resource in members:
        unmet[ledger.tenant_name(resource.namespace)] += unmet_by_uid.get(resource.uid, 0)
    return tuple(
        TenantShare(
            name=tenant.name,
            charged_gpus=ledger.tenant_gpus(tenant.name),
            quota_gpus=tenant.quota_gpus,
            unmet_gpus=unmet[tenant.name],
        )
        for tenant in sorted(pool.tenants, key=lambda tenant: tenant.name)
    )


def pool_status(
    previous: GPUPoolStatus,
    pool: PoolSnapshot,
    figures: PoolFigures,
    decisions: Iterable[Decision],
    now: datetime,
    outlook: Outlook,
) -> GPUPoolStatus:
    """The whole new status, with what is expected of the pool. Equal to `previous` where nothing is worth a write."""
    judged = judge_pool(pool, (d for d in decisions if d.uid in figures.unmet_by_uid), outlook.peaks)
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
        tenants=figures.tenants,
        excluded_nodes=tuple(ExcludedNodes(cause=e.cause.value, nodes=e.nodes, gpus=e.gpus) for e in pool.excluded),
        warm_gpus=pool.warm_gpus,
        provisioning=_provisioning(pool),
        shortages=outlook.shortages,
        conditions=tuple(condition(before.get(each.kind), each, pool.generation, now) for each in judged),
    )


def _provisioning(pool: PoolSnapshot) -> ProvisioningStatus | None:
    learned = pool.provisioning
    if learned is None:
        return None
    return ProvisioningStatus(
        p50_seconds=round(learned.p50_seconds), p90_seconds=round(learned.p90_seconds), pods=learned.pods
    )


def _time(epoch_seconds: float) -> str:
    return timestamp(datetime.fromtimestamp(epoch_seconds, UTC))
