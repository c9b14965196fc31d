"""Decides which resources with `spec.runtime` are to be rendered at a tick, and remembers what was.

Objects are applied when what they should look like changed, when the Deployment is missing, and once after a start.
A new Deployment takes GPUs like a scale-up does: where its pool cannot hold the first replicas it gets fewer, and where
it cannot hold one it waits.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from firsttoken_operator.act.manifests import Rendering, deployment, pod_monitor, service
from firsttoken_operator.act.render import Renderer, RenderResult
from firsttoken_operator.api import InferenceDeployment
from firsttoken_operator.decide import charged_together
from firsttoken_operator.decide.initial import initial_replicas
from firsttoken_operator.domain import (
    Decision,
    FleetSnapshot,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    ScalingMode,
    Sized,
    TargetMissing,
    Unsized,
)
from firsttoken_operator.observe.projections import GPU_PRODUCT_LABEL
from firsttoken_operator.observe.store import Store
from firsttoken_sizing.catalog import resolve_gpu

logger = logging.getLogger(__name__)


class Rendered:
    """What this process has rendered, by uid of the resource."""

    def __init__(
        self, renderer: Renderer, *, monitor_labels: Mapping[str, str], scrape_interval_seconds: float
    ) -> None:
        self._renderer = renderer
        self._monitor_labels = dict(monitor_labels)
        self._scrape_interval_seconds = scrape_interval_seconds
        self._applied: dict[str, str] = {}
        self._problems: dict[str, RenderResult] = {}

    def explain(self, resource: ResourceSnapshot) -> ResourceSnapshot:
        """The resource, with the reason why its Deployment is not there yet where rendering met one."""
        problem = self._problems.get(resource.uid)
        if problem is None or not isinstance(resource.target, TargetMissing):
            return resource
        return replace(resource, target=TargetMissing(problem.reason, problem.message))

    async def reconcile(
        self,
        snapshot: FleetSnapshot,
        store: Store,
        decisions: Iterable[Decision],
        sized_by_uid: Mapping[str, Sized | Unsized],
    ) -> dict[str, RenderResult]:
        """Render what is due; the results by uid. One after the other: each takes GPUs that the next cannot have.

        `decisions` are those of the same tick: what they grant is not in the snapshot yet and is taken all the same.
        `sized_by_uid` are the sizings as they were made. NB: those of the snapshot are withheld while the running pods
        have another number of GPUs, which rendering is there to change.
        """
        granted = _granted_gpus(snapshot, decisions)
        free = {name: _free_gpus(snapshot, pool, granted.get(name, 0)) for name, pool in snapshot.pools.items()}
        results: dict[str, RenderResult] = {}
        for resource in sorted(snapshot.resources, key=lambda r: (-r.priority, r.created, r.namespace, r.name)):
            stored = store.resources.get(resource.uid)
            if stored is None or stored.parsed is None or stored.parsed.spec.runtime is None:
                continue
            sized = sized_by_uid.get(resource.uid)
            if resource.policy.mode is ScalingMode.PAUSED or resource.conflict or not isinstance(sized, Sized):
                continue
            result = await self._reconcile_one(resource, sized, stored.parsed, snapshot, store, free)
            if result is None:
                continue
            results[resource.uid] = result
            if result.reason is Reason.RENDERED:
                self._problems.pop(resource.uid, None)
            else:
                self._problems[resource.uid] = result
        for known in (self._applied, self._problems):
            for uid in known.keys() - store.resources.keys():
                known.pop(uid)
        return results

    async def _reconcile_one(
        self,
        resource: ResourceSnapshot,
        sized: Sized,
        parsed: InferenceDeployment,
        snapshot: FleetSnapshot,
        store: Store,
        free: dict[str, int | None],
    ) -> RenderResult | None:
        pool = snapshot.pools.get(resource.pool) if resource.pool else None
        is_new = isinstance(resource.target, TargetMissing)
        if not is_new and not _is_pool_known(parsed, store):
            # Without its pool it would be sized and placed in another way, and a running fleet rolled for nothing.
            return None
        rendering = Rendering(
            parsed,
            sized.configuration,
            self._node_selector(parsed, sized.configuration.gpu, store),
            self._monitor_labels,
        )
        wanted = self._fingerprint(rendering)
        if not is_new and self._applied.get(resource.uid) == wanted:
            return None
        scheduled = resource.scheduled_requests_per_second
        replicas = initial_replicas(resource.policy, sized, scheduled, on_prem=pool is not None and pool.on_prem)
        gpus = sized.configuration.gpus_per_replica
        if is_new and resource.pool is not None:
            room = free.get(resource.pool)
            if room is None:
                reason = Reason.POOL_NOT_FOUND if pool is None else Reason.POOL_INVENTORY_UNKNOWN
                return RenderResult(reason, f"pool {resource.pool}: how many GPUs it has is not known")
            replicas = min(replicas, max(0, room) // gpus)
            if replicas == 0:
                return RenderResult(
                    Reason.POOL_EXHAUSTED, f"pool {resource.pool} has no {gpus} free GPUs for a replica"
                )
            free[resource.pool] = room - replicas * gpus
        result = await self._renderer.render(rendering, replicas)
        if result.reason is Reason.RENDERED:
            self._applied[resource.uid] = wanted
            logger.info("rendered %s: %s", parsed.key, result.message)
        return result

    def _fingerprint(self, rendering: Rendering) -> str:
        monitor = pod_monitor(rendering, self._scrape_interval_seconds)
        return json.dumps([deployment(rendering), service(rendering), monitor], sort_keys=True)

    def _node_selector(self, parsed: InferenceDeployment, gpu: str, store: Store) -> dict[str, str]:
        """The resource's own, else the pool's, else the label that GPU feature discovery puts on the GPU's nodes."""
        runtime = parsed.spec.runtime
        if runtime is not None and runtime.node_selector:
            return dict(runtime.node_selector)
        for pool in store.pools.values():
            if pool.name == parsed.spec.capacity.pool and pool.parsed is not None and pool.parsed.spec.node_selector:
                return dict(pool.parsed.spec.node_selector)
        label = resolve_gpu(gpu).node_label
        return {GPU_PRODUCT_LABEL: label} if label else {}


def _is_pool_known(parsed: InferenceDeployment, store: Store) -> bool:
    """Whether the pool that is named, if any, exists and can be read."""
    name = parsed.spec.capacity.pool
    return not name or any(pool.name == name and pool.parsed is not None for pool in store.pools.values())


def _granted_gpus(snapshot: FleetSnapshot, decisions: Iterable[Decision]) -> Counter[str]:
    """GPUs by pool that increases of this tick take, written or not: a write that failed is tried again."""
    resources = {resource.uid: resource for resource in snapshot.resources}
    granted: Counter[str] = Counter()
    for decision in decisions:
        resource = resources[decision.uid]
        increase = decision.to_replicas - decision.from_replicas
        if resource.pool is not None and resource.policy.mode is ScalingMode.ACTIVE and increase > 0:
            granted[resource.pool] += increase * decision.gpus_per_replica
    return granted


def _free_gpus(snapshot: FleetSnapshot, pool: PoolSnapshot, granted: int) -> int | None:
    if pool.budget_gpus is None:
        return None
    charged = charged_together(resource.target for resource in snapshot.resources if resource.pool == pool.name)
    return pool.budget_gpus - pool.charged_elsewhere_gpus - charged - granted
