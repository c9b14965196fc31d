"""Admission of deployments to rendering, and their first replicas: a new one takes GPUs as a scale-up does.

Where its pool cannot hold the first replicas it gets fewer, and where it cannot hold one it waits. So does a running
one whose pool cannot be read. One that names no pool takes of the GPUs of the one on whose nodes it runs, or would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from firsttoken_operator.decide.arbitrate import free_gpus, priority_order, unknown_budget
from firsttoken_operator.decide.bounds import initial_replicas
from firsttoken_operator.domain import (
    Decision,
    FleetSnapshot,
    Reason,
    ResourceSnapshot,
    ScalingMode,
    Sized,
    Target,
    TargetMissing,
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
    """A deployment that its pool does not admit yet, and why. One that is not new runs on as it is."""

    resource: ResourceSnapshot
    is_new: bool
    reason: Reason
    message: str

    @property
    def is_news(self) -> bool:
        """True where there is something to tell: that a running one waits for its pool to be readable is no news."""
        return self.is_new or self.reason is Reason.POOL_EXHAUSTED


def admit(snapshot: FleetSnapshot, decisions: Iterable[Decision]) -> list[Admission | Waiting]:
    """Everything that may be rendered at this tick, in the order in which it takes GPUs.

    `decisions` are those of the same tick: what they grant is not in the snapshot yet and is taken all the same.
    NB: a sizing that is withheld because the running pods have another number of GPUs counts: rendering changes them.
    """
    granted = _granted_gpus(snapshot, decisions)
    free: dict[str, int] = {}
    for name, pool in snapshot.pools.items():
        guests = (r for r in snapshot.resources if r.guest_of == name)
        gpus = free_gpus((r for r in snapshot.resources if r.pool == name), guests, pool)
        if gpus is not None:
            free[name] = gpus - granted[name]
    admitted: list[Admission | Waiting] = []
    for resource in sorted(snapshot.resources, key=priority_order):
        sized = resource.sized if isinstance(resource.sized, Sized) else resource.sized.withheld
        may_be_made = resource.policy.mode is not ScalingMode.PAUSED and not resource.conflict
        if resource.claims.is_rendered and may_be_made and sized is not None:
            admitted.append(_admit_one(resource, sized, snapshot, free))
    return admitted


def _admit_one(
    resource: ResourceSnapshot, sized: Sized, snapshot: FleetSnapshot, free: dict[str, int]
) -> Admission | Waiting:
    """`free` GPUs by pool, of those whose budget is known: less what this one takes afterwards."""
    is_guest, is_new = resource.pool is None, isinstance(resource.target, TargetMissing)
    name, gpus = resource.pool or resource.guest_of, sized.configuration.gpus_per_replica
    pool, scheduled = snapshot.pools.get(name or ""), resource.scheduled_requests_per_second
    on_prem = not is_guest and pool is not None and pool.on_prem
    replicas = initial_replicas(resource.policy, sized, scheduled, on_prem=on_prem)
    if not is_guest and not is_new and (pool is None or pool.problem):
        # Without its pool it would be sized and placed in another way, and a running fleet rolled for nothing.
        why = Reason.POOL_NOT_FOUND if pool is None else Reason.INVALID_SPEC
        return Waiting(resource, False, why, f"pool {name} cannot be read; what runs stays as it is")
    more = 0 if name is None else _more_gpus(resource.target, replicas, gpus)
    if name is None or more <= 0 or (is_guest and name not in free):
        return Admission(resource, sized, is_new, replicas)
    if name not in free:
        return Waiting(resource, is_new, unknown_budget(pool), f"pool {name}: how many GPUs it has is not known")
    if isinstance(resource.target, TargetMissing):
        replicas = min(replicas, max(0, free[name] + resource.target.made_gpus) // gpus)
        more = replicas * gpus - resource.target.made_gpus
        if replicas == 0:
            text = f"pool {name} has no {gpus} free GPUs for a replica"
            return Waiting(resource, is_new, Reason.POOL_EXHAUSTED, text)
    elif more > free[name]:
        text = f"pool {name} has no {more} free GPUs more for {gpus} GPUs a replica; what runs stays as it is"
        return Waiting(resource, is_new, Reason.POOL_EXHAUSTED, text)
    free[name] -= more
    return Admission(resource, sized, is_new, replicas)


def _more_gpus(target: Target | TargetMissing, replicas: int, gpus_per_replica: int) -> int:
    """GPUs that rendering takes on top of what is charged: of the first replicas, or of larger ones."""
    if isinstance(target, TargetMissing):
        return replicas * gpus_per_replica - target.made_gpus
    return target.held * (gpus_per_replica - target.gpus_per_replica)


def _granted_gpus(snapshot: FleetSnapshot, decisions: Iterable[Decision]) -> Counter[str]:
    """GPUs by pool that increases of this tick take, written or not: a write that failed is tried again."""
    resources = {resource.uid: resource for resource in snapshot.resources}
    granted: Counter[str] = Counter()
    for decision in decisions:
        resource = resources[decision.uid]
        name = resource.pool or resource.guest_of
        if name is None or resource.policy.mode is not ScalingMode.ACTIVE:
            continue
        if isinstance(resource.target, Target) and decision.to_replicas > resource.target.held:
            granted[name] += (decision.to_replicas - resource.target.held) * decision.gpus_per_replica
    return granted
