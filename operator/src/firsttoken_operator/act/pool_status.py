"""The status of a GPUPool: who holds its GPUs and who asked for more. Written on change only."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from firsttoken_operator.act.errors import ClusterError, NotFound
from firsttoken_operator.act.kubernetes import GROUP_VERSION, ClusterWriter, ObjectRef
from firsttoken_operator.api.status import GPUPoolStatus, PoolShare
from firsttoken_operator.decide import charged_gpus
from firsttoken_operator.domain import Decision, FleetSnapshot, PoolSnapshot, Target

logger = logging.getLogger(__name__)

MAX_SHARES = 1000


class PoolPublisher:
    """Statuses of all pools, with what was written last, by uid."""

    def __init__(self, cluster: ClusterWriter) -> None:
        self._cluster = cluster
        self._written: dict[str, GPUPoolStatus] = {}

    async def publish(
        self, snapshot: FleetSnapshot, decisions: Iterable[Decision], pool_uids: Mapping[str, str]
    ) -> None:
        """Write the statuses that changed since this process wrote them. Never raises `ClusterError`."""
        unmet = {decision.uid: decision.unmet_replicas * decision.gpus_per_replica for decision in decisions}
        for name, pool in snapshot.pools.items():
            status = pool_status(pool, snapshot, unmet)
            if self._written.get(pool_uids[name]) == status:
                continue
            ref = ObjectRef(GROUP_VERSION, "GPUPool", "", name)
            try:
                document = status.model_dump(mode="json", by_alias=True, exclude_none=True)
                await self._cluster.replace_status(ref, document, uid=pool_uids[name])
                self._written[pool_uids[name]] = status
            except NotFound:
                continue
            except ClusterError as error:
                logger.warning("status of pool %s not written: %s", name, error)
        for gone in self._written.keys() - set(pool_uids.values()):
            del self._written[gone]


def pool_status(pool: PoolSnapshot, snapshot: FleetSnapshot, unmet_gpus: dict[str, int]) -> GPUPoolStatus:
    """The status of one pool; `unmet_gpus` by uid of the resource."""
    members = [resource for resource in snapshot.resources if resource.pool == pool.name]
    charges = {r.uid: charged_gpus(r.target) for r in members if isinstance(r.target, Target)}
    charged = sum(charges.values()) + pool.charged_elsewhere_gpus
    shares = sorted(members, key=lambda r: (r.namespace, r.name))[:MAX_SHARES]
    return GPUPoolStatus(
        inventory_gpus=pool.inventory_gpus,
        charged_gpus=charged,
        free_gpus=None if pool.budget_gpus is None else max(0, pool.budget_gpus - charged),
        unmet_gpus=sum(unmet_gpus.get(r.uid, 0) for r in members),
        deployments=tuple(
            PoolShare(
                namespace=r.namespace, name=r.name, charged_gpus=charges.get(r.uid), unmet_gpus=unmet_gpus.get(r.uid)
            )
            for r in shares
        ),
    )  # fmt: skip
