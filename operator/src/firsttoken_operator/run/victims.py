"""Tells Kubernetes which pods a smaller fleet ends: their deletion costs, right before the replicas are written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from firsttoken_operator.act.backlog import Key, Priority
from firsttoken_operator.act.errors import ClusterError
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.decide import cost_changes
from firsttoken_operator.domain import CostChange, Decision, ResourceSnapshot, ScalingMode, Target
from firsttoken_operator.observe.projections import DELETION_COST, OWN_DELETION_COST
from firsttoken_operator.observe.store import Store


class Victims:
    """Writes and takes away deletion costs. Without them a scale-down goes on, and Kubernetes chooses."""

    def __init__(self, cluster: KubernetesCluster, writes: WriteQueue) -> None:
        self._cluster = cluster
        self._writes = writes

    async def prepare(self, decision: Decision, resource: ResourceSnapshot, store: Store) -> None:
        """Give the pods of the target the costs that belong to a decision which is about to be written.

        Raises nothing for a server that does not take them: the queue counts and logs it.
        """
        target = resource.target
        may_write = not self._cluster.withheld and resource.policy.mode is ScalingMode.ACTIVE
        if not may_write or not isinstance(target, Target) or resource.conflict:
            return
        pool = resource.pool or resource.guest_of
        pools = (each.parsed for each in store.pools.values() if each.name == pool)
        empties = any(each is not None and each.spec.is_provisioned for each in pools)
        pods = store.replica_pods(target.uid)
        changes = cost_changes(decision, pods, resource.metrics.under_way, empties_nodes=empties)
        writes = (self._write(resource, change) for change in changes)
        for outcome in await asyncio.gather(*writes, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, ClusterError):
                raise outcome

    async def _write(self, resource: ResourceSnapshot, change: CostChange) -> None:
        pod, cost = change.pod, None if change.cost is None else str(change.cost)
        patch = {"metadata": {"uid": pod.uid, "annotations": {DELETION_COST: cost, OWN_DELETION_COST: cost}}}
        ref = ObjectRef("v1", "Pod", resource.namespace, pod.name)
        key = Key(resource.uid, "deletion cost", pod.name)
        await self._writes.run(key, Priority.SCALE, partial(self._cluster.patch, ref, patch), 1)


@asynccontextmanager
async def marked(
    victims: Victims | None, decision: Decision, resource: ResourceSnapshot, store: Store
) -> AsyncIterator[None]:
    """Prepare the pods before a smaller fleet is written, and after anything else.

    NB: more replicas do not wait until marks that an earlier decision left are taken away.
    """
    is_smaller = decision.to_replicas < decision.from_replicas
    if victims is not None and is_smaller:
        await victims.prepare(decision, resource, store)
    yield
    if victims is not None and not is_smaller:
        await victims.prepare(decision, resource, store)
