"""Which new deployments their pools admit, and with how many replicas: a new one takes GPUs as a scale-up does.

Where its pool cannot hold the first replicas it gets fewer, and where it cannot hold one it waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firsttoken_operator.decide.arbitrate import free_gpus, priority_order, unknown_budget
from firsttoken_operator.decide.initial import initial_replicas
from firsttoken_operator.domain import (
    Decision,
    FleetSnapshot,
    Reason,
    ResourceSnapshot,
    ScalingMode,
    Sized,
    TargetMissing,
    Unsized,
)


@dataclass(frozen=True, slots=True)
class Admission:
    """A deployment that is to be rendered. `replicas`: with how many it is created, where it is not there yet."""

    resource: ResourceSnapshot
    sized: Sized
    is_new: bool
    replicas: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """A new deployment that its pool does not admit yet, and why."""

    resource: ResourceSnapshot
    reason: Reason
    message: str


def admit(
    snapshot: FleetSnapshot, decisions: Iterable[Decision], sized_by_uid: Mapping[str, Sized | Unsized]
) -> list[Admission | Waiting]:
    """Everything that may be rendered at this tick, in the order in which it takes GPUs.

    `decisions` are those of the same tick: what they grant is not in the snapshot yet and is taken all the same.
    `sized_by_uid` are the sizings as they were made. NB: those of the snapshot are withheld while the running pods have
    another number of GPUs, which rendering is there to change.
    """
    granted = _granted_gpus(snapshot, decisions)
    free: dict[str, int] = {}
    for name, pool in snapshot.pools.items():
        gpus = free_gpus((r for r in snapshot.resources if r.pool == name), pool)
        if gpus is not None:
            free[name] = gpus - granted[name]
    admitted: list[Admission | Waiting] = []
    for resource in sorted(snapshot.resources, key=priority_order):
        sized = sized_by_uid.get(resource.uid)
        may_be_made = resource.policy.mode is not ScalingMode.PAUSED and not resource.conflict
        if resource.claims.is_rendered and may_be_made and isinstance(sized, Sized):
            admitted.append(_admit_one(resource, sized, snapshot, free))
    return admitted


def _admit_one(
    resource: ResourceSnapshot, sized: Sized, snapshot: FleetSnapshot, free: dict[str, int]
) -> Admission | Waiting:
    """`free` GPUs by pool, of those whose budget is known: less what this one takes afterwards."""
    name, is_new = resource.pool, isinstance(resource.target, TargetMissing)
    pool, gpus = snapshot.pools.get(name or ""), sized.configuration.gpus_per_replica
    scheduled = resource.scheduled_requests_per_second
    replicas = initial_replicas(resource.policy, sized, scheduled, on_prem=pool is not None and pool.on_prem)
    if is_new and name is not None:
        if name not in free:
            return Waiting(resource, unknown_budget(pool), f"pool {name}: how many GPUs it has is not known")
        replicas = min(replicas, max(0, free[name]) // gpus)
        if replicas == 0:
            text = f"pool {name} has no {gpus} free GPUs for a replica"
            return Waiting(resource, Reason.POOL_EXHAUSTED, text)
        free[name] -= replicas * gpus
    return Admission(resource, sized, is_new, replicas)


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
