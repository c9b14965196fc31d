"""One frozen picture of the fleet for one tick, from the store, the live metrics and the sizings. Reads no clock."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter

from firsttoken_operator.api.convert import rollout_terms, scaling_policy
from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.schedule import DAY_SECONDS, coming_openings, schedule_of, scheduled_peak
from firsttoken_operator.domain import (
    FleetSnapshot,
    Metrics,
    Missing,
    Reason,
    ResourceSnapshot,
    ScaleDown,
    ScalingMode,
    ScalingPolicy,
    Sized,
    Target,
    TargetMissing,
    Timing,
    Unsized,
    lead_seconds,
    ready_seconds,
)
from firsttoken_operator.observe.coming import Coming, coming_nodes
from firsttoken_operator.observe.measure import nothing
from firsttoken_operator.observe.members import gpus_by_node, pods_by_pool, tolerations_by_pool, warm_pods
from firsttoken_operator.observe.places import Places
from firsttoken_operator.observe.pools import (
    Surroundings,
    pool_snapshot,
    pools_of_nodes,
)
from firsttoken_operator.observe.resources import Stored
from firsttoken_operator.observe.store import Store
from firsttoken_operator.observe.targets import claims_on, image_is_kept, target_of
from firsttoken_operator.observe.tenancy import Tenancy

UNREADABLE_POLICY = ScalingPolicy(
    mode=ScalingMode.PAUSED,
    min_replicas=1,
    max_replicas=None,
    burst_headroom_percent=0,
    scale_down=ScaleDown.NEVER,
    stabilization_seconds=300.0,
    scale_down_step_percent=1,
    backlog_drain_seconds=60.0,
    metrics_loss_grace_seconds=900.0,
)
"""Policy of a resource whose spec does not parse: what it wants is not known, so nothing is done."""

NOT_MEASURED = Missing(Reason.NO_READY_PODS, "there are no pods to measure")
NOT_SIZED = Unsized(Reason.UNKNOWN, "not sized yet")


def build_snapshot(
    store: Store,
    metrics_by_uid: Mapping[str, Metrics],
    sized_by_uid: Mapping[str, Sized | Unsized],
    timing: Timing,
    *,
    now_seconds: float,
    wall_seconds: float,
) -> FleetSnapshot:
    """The fleet at one tick; both mappings are by the uid of the InferenceDeployment.

    `now_seconds` is that of the monotonic clock, `wall_seconds` since the epoch.

    Facts only: whose the replicas of a target are, which of its pods are stuck, and whether a sizing fits them is
    judged by `decide`.
    Resources that are being deleted are left out: their targets stay as they are.
    """
    store.follow_devices()
    readable = [(pool.name, pool.parsed) for pool in store.pools.values() if pool.parsed is not None]
    pools = dict(sorted(readable, key=itemgetter(0)))
    nodes, tenancy = tuple(store.nodes.values()), store.tenancy
    pools_of_node = pools_of_nodes(nodes, pools)
    # NB: GPUs that are kept warm are free for every pod: the scheduler ends what holds them.
    warm = warm_pods(store, tenancy)
    uids = {pod.uid for pod in warm}
    gpu_pods = tuple(pod for pod in store.gpu_pods() if pod.uid not in uids)
    coming = coming_nodes(pools, nodes, pools_of_node, gpu_pods, store.node_waits)
    places = Places(nodes, pools, pools_of_node)
    builder = _Builder(store, metrics_by_uid, sized_by_uid, timing, wall_seconds, pools, places, tenancy, coming)
    resources = tuple(
        builder.resource(stored)
        for stored in sorted(store.resources.values(), key=lambda stored: (stored.namespace, stored.name, stored.uid))
        if not stored.deleting
    )
    window = timing.scale_down_limit_window_seconds
    around = Surroundings(
        nodes, gpu_pods, gpus_by_node(warm), tenancy, window, wall_seconds, pools_of_node,
        pods_by_pool(store, resources),
        tolerations_by_pool(store, resources, nodes),
        {name: each.provisioning for name, each in coming.items() if each.provisioning is not None},
    )  # fmt: skip
    seen = {pool.name: pool_snapshot(pool, around) for pool in store.pools.values()}
    return FleetSnapshot(
        now_seconds, timing.tick_seconds, resources, seen, epoch_seconds=wall_seconds,
        scale_down_limit_window_seconds=window,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Builder:
    store: Store
    metrics: Mapping[str, Metrics]
    sized: Mapping[str, Sized | Unsized]
    timing: Timing
    wall_seconds: float
    pools: Mapping[str, GPUPool]
    """Those that can be read, in the order of their names."""
    places: Places
    tenancy: Tenancy
    coming: Mapping[str, Coming]

    def resource(self, stored: Stored[InferenceDeployment]) -> ResourceSnapshot:
        """One resource, readable or not."""
        metrics, scale = self.metrics.get(stored.uid) or nothing(NOT_MEASURED, 0.0), self.timing.scale
        if stored.parsed is None:
            return ResourceSnapshot(
                uid=stored.uid, namespace=stored.namespace, name=stored.name, generation=stored.generation,
                policy=UNREADABLE_POLICY, sized=Unsized(Reason.INVALID_SPEC, stored.problem),
                target=TargetMissing(Reason.INVALID_SPEC, stored.problem), metrics=metrics, created=stored.created,
            )  # fmt: skip
        resource = self.tenancy.placed(stored.parsed)
        pool_name = resource.spec.capacity.pool
        schedule = schedule_of(resource)
        sized = self.sized.get(stored.uid, NOT_SIZED)
        sized_gpus = sized.configuration.gpus_per_replica if isinstance(sized, Sized) else None
        target = target_of(self.store, resource, wall_seconds=self.wall_seconds, sized_gpus=sized_gpus)
        starts = self.store.starts(target.uid) if isinstance(target, Target) else None
        next_seconds = starts.next_p90_seconds(image_is_there=image_is_kept(self.store, resource)) if starts else None
        ready = ready_seconds(next_seconds, scale)
        coming = self.coming.get(pool_name or "")
        if coming is not None and isinstance(target, Target):
            usual = ready_seconds(starts.overall.p90_seconds if starts else None, scale)
            ready = max(ready, coming.ready_seconds(target.gpus_per_replica, usual))
        lead = lead_seconds(ready, self.timing.tick_seconds)
        return ResourceSnapshot(
            uid=stored.uid,
            namespace=stored.namespace,
            name=stored.name,
            generation=stored.generation,
            policy=scaling_policy(resource, self.pools.get(pool_name or ""), time_scale=scale),
            sized=sized,
            target=target,
            metrics=metrics,
            pool=pool_name,
            in_default_pool=pool_name is not None and stored.parsed.spec.capacity.pool is None,
            hosts=self._hosts(stored, resource, target),
            may_stray_to=self._may_stray_to(stored, resource, target),
            priority=resource.spec.capacity.priority,
            created=stored.created,
            claims=claims_on(self.store, resource),
            time_to_ready_seconds=ready,
            # NB: as far ahead as a new pod takes to be ready, so that those of a window are ready when it opens.
            scheduled_requests_per_second=scheduled_peak(schedule, self.wall_seconds, lead),
            has_schedule=bool(resource.spec.traffic.schedule),
            openings=coming_openings(schedule, math.floor(self.wall_seconds / DAY_SECONDS)),
            rollout=rollout_terms(resource),
        )

    def _hosts(
        self, stored: Stored[InferenceDeployment], resource: InferenceDeployment, target: Target | TargetMissing
    ) -> frozenset[str]:
        """Pools on whose nodes its pods run; of one that names none and has no pod there, the one where they would."""
        sized, view, named = self.sized.get(stored.uid), None, resource.spec.capacity.pool
        if not self.pools:
            return frozenset()
        if isinstance(target, Target):
            nodes = {pod.node for pod in self.store.members_of(target.uid) if pod.node}
            known = self.places.pools_of_node
            found = [known[node] for node in nodes if node in known]
            if nodes or named is not None:
                # NB: on a node of several pools it is in the one that it names.
                return frozenset(named if named in pools else pools[0] for pools in found)
            view = self.store.workload(stored.namespace, target.name, target.kind.kind)
        if named is not None:
            return frozenset()
        if not isinstance(sized, Sized):
            return frozenset()  # It grows by nothing.
        runtime = resource.spec.runtime
        selector = runtime.node_selector if runtime else view.node_selector if view else {}
        name = self.places.pool_to_run_on(selector, sized.configuration.gpu)
        return frozenset() if name is None else frozenset({name})

    def _may_stray_to(
        self, stored: Stored[InferenceDeployment], resource: InferenceDeployment, target: Target | TargetMissing
    ) -> frozenset[str]:
        """Pools on whose nodes pods may come to run that name another one and have no node yet.

        NB: what the operator renders goes where its pool says, unless it is told by a selector where it goes.
        """
        named, runtime = resource.spec.capacity.pool, resource.spec.runtime
        if named is None or len(self.pools) < 2 or not isinstance(target, Target):
            return frozenset()
        if runtime is not None and not runtime.node_selector:
            return frozenset()
        view = self.store.workload(stored.namespace, target.name, target.kind.kind)
        if view is None or any(pod.node for pod in self.store.members_of(target.uid)):
            return frozenset()
        return frozenset[str]().union(*(self.places.pools_to_stray_to(named, *each) for each in view.placements))
