"""One transaction over all resources of a pool: its budget caps the sum, a rate limit bounds what is given back.

Those without a pool have no budget and one rate limit together: what makes all of them look idle at once is more likely
a broken source than an idle fleet. One that gives back alone goes by its own steps.

Charged are the pods that exist (ready, starting, stuck, terminating) or the size that was asked for, whichever is more,
also where the watch does not show our write yet: a scale-down frees its GPUs only when its pods are gone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace

from firsttoken_operator.decide.case import Unscalable
from firsttoken_operator.decide.propose import Proposal
from firsttoken_operator.domain import (
    POOL_LIMITS,
    FleetSnapshot,
    Outcome,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    ScaleDown,
    ScalingMode,
    Target,
    TargetMissing,
)
from firsttoken_operator.estimate import EstimatorConfig

Proposed = Proposal | Unscalable

UNBOUNDED_GPUS = sys.maxsize
"""GPUs where nothing bounds them: more than any fleet asks for."""


def arbitrate(
    proposals: Sequence[Proposed], snapshot: FleetSnapshot, clock_seconds: float, config: EstimatorConfig
) -> list[Proposed]:
    """The proposals as far as their pools grant them, in the given order."""
    granted = {p.resource.uid: p for p in proposals}
    named = {p.resource.pool for p in proposals} | {p.resource.guest_of for p in proposals}
    for name in sorted(name for name in named if name is not None):
        members = [p for p in proposals if p.resource.pool == name]
        guests = [p for p in proposals if p.resource.guest_of == name]
        pool = snapshot.pools.get(name)
        granted |= {p.resource.uid: p for p in _arbitrate_pool(members, guests, pool, clock_seconds)}
    alone = [p for p in proposals if p.resource.pool is None]
    since = clock_seconds - snapshot.scale_down_limit_window_seconds
    granted |= {p.resource.uid: p for p in _rate_limited(alone, since, config.decision.scale_down_limit_percent)}
    return [granted[p.resource.uid] for p in proposals]


def charged_gpus(target: Target) -> int:
    """GPUs that a target occupies or has asked for."""
    return (target.held + target.terminating) * target.gpus_per_replica


def charged_together(targets: Iterable[Target | TargetMissing]) -> int:
    """GPUs of several targets; one that two resources claim is charged once."""
    targets = list(targets)
    made = sum(t.made_gpus for t in targets if isinstance(t, TargetMissing))
    return made + sum(charged_gpus(t) for t in {t.uid: t for t in targets if isinstance(t, Target)}.values())


def free_gpus(
    members: Iterable[ResourceSnapshot], guests: Iterable[ResourceSnapshot], pool: PoolSnapshot | None
) -> int | None:
    """GPUs of the pool's budget that nothing holds or was given; None: the budget is not known."""
    if pool is not None and pool.is_elastic:
        return UNBOUNDED_GPUS
    if pool is None or pool.budget_gpus is None:
        return None
    charged = pool.charged_elsewhere_gpus + charged_together(r.target for r in members)
    return pool.budget_gpus - charged - sum(_gpus_on_no_node(r.target) for r in guests)


def priority_order(resource: ResourceSnapshot) -> tuple[int, str, str, str]:
    """Sort key of who is asked first: by priority, then age, then name: deterministic."""
    return -resource.priority, resource.created, resource.namespace, resource.name


def unknown_budget(pool: PoolSnapshot | None) -> Reason:
    """Name the reason that nothing may grow where the budget of a pool is not known."""
    return Reason.POOL_NOT_FOUND if pool is None else Reason.POOL_INVENTORY_UNKNOWN


def _arbitrate_pool(
    members: Sequence[Proposed], guests: Sequence[Proposed], pool: PoolSnapshot | None, clock_seconds: float
) -> Iterable[Proposed]:
    """`guests` name no pool and use its nodes: they take of what is free, and nothing is given back for them."""
    scalable = [p for p in (*members, *guests) if isinstance(p, Proposal)]
    # Advice reserves nothing: what others may scale to must not keep GPUs from what is scaled here.
    ups = sorted((p for p in scalable if p.to_replicas > p.from_replicas), key=lambda p: (_is_advice(p), _order(p)))
    results = {p.resource.uid: p for p in members}
    free = free_gpus((p.resource for p in members), (p.resource for p in guests), pool)
    missing = unknown_budget(pool)
    for p in ups:
        if free is None and p.resource.pool is None:
            continue  # What is not known of a pool is no reason to hold one that never named it.
        p, used = _grant(p, free, missing)
        results[p.resource.uid] = p
        if free is not None and not _is_advice(p):
            free -= used
    downs = _decreases(members)
    short = {p.resource.uid for p in results.values() if p.resource.pool is not None and _lacks_gpus(p)}
    left = _returnable_gpus(members, pool, clock_seconds)
    for p in downs:
        if left is None:
            # Whose GPUs these are, or how fast they may go, is not known: an unknown never lowers.
            results[p.resource.uid] = _refuse(p, missing)
            continue
        on_demand = p.resource.policy.scale_down is ScaleDown.WHEN_POOL_SHORT and p.reason is not Reason.ABOVE_LIMIT
        if on_demand and not short - {p.resource.uid}:
            results[p.resource.uid] = _refuse(p, Reason.POOL_NOT_SHORT)
            continue
        p, given = _limited(p, left)
        results[p.resource.uid] = p
        if not _is_advice(p):
            left -= given
    return results.values()


def _rate_limited(members: Sequence[Proposed], since_seconds: float, percent: int) -> Iterable[Proposed]:
    """The decreases of resources without a pool, each as far as what all others gave back leaves room."""
    # NB: what is only advised on is no reason to hold another, nor are replicas that have no pod.
    active = [p for p in members if not _is_advice(p)]
    given = {p.resource.uid: _given_gpus(p, since_seconds) for p in active}
    held = sum(min(t.replicas, t.pods) * t.gpus_per_replica for t in _targets(active))
    total = sum(given.values())
    allowed = _share((held + total) * percent, active)
    for p in _decreases(members):
        others = total - given.get(p.resource.uid, 0)
        # NB: the first one is never held up, however small the fleet is.
        limited, gpus = _limited(p, allowed - others if others else UNBOUNDED_GPUS)
        if not _is_advice(p):
            given[p.resource.uid] += gpus
            total += gpus
        yield limited


def _lacks_gpus(p: Proposed) -> bool:
    """Tell whether the pool withheld GPUs from it: a deployment's own maximum makes no pool short."""
    if _is_advice(p):
        return False
    if isinstance(p, Unscalable):
        return p.reason in POOL_LIMITS  # to be rendered, and no GPU is free for its first replica
    return p.unmet_replicas > 0 and p.limited_by in POOL_LIMITS


def _is_advice(p: Proposed) -> bool:
    return p.resource.policy.mode is ScalingMode.ADVISORY


def _order(p: Proposal) -> tuple[bool, int, str, str, str]:
    """Guaranteed minimums first."""
    return (p.reason is not Reason.BELOW_MINIMUM, *priority_order(p.resource))


def _grant(p: Proposal, free: int | None, missing: Reason) -> tuple[Proposal, int]:
    """The part of an increase that the free GPUs allow, and the GPUs that it uses."""
    target, wanted = p.case.target, p.to_replicas - p.from_replicas
    # Growing to pods that exist, or were asked for, costs nothing new: they are charged already.
    already = target.held - p.from_replicas
    if free is None:
        granted, limited_by = min(wanted, already), missing
    else:
        granted = min(wanted, already + max(0, free) // target.gpus_per_replica)
        limited_by = Reason.POOL_EXHAUSTED
    used = max(0, granted - already) * target.gpus_per_replica
    if granted == wanted:
        return p, used
    outcome = Outcome.UP if granted else Outcome.HELD
    unmet = p.unmet_replicas + wanted - granted
    return replace(
        p, outcome=outcome, to_replicas=p.from_replicas + granted, limited_by=limited_by, unmet_replicas=unmet
    ), used


def _returnable_gpus(members: Sequence[Proposed], pool: PoolSnapshot | None, clock_seconds: float) -> int | None:
    """GPUs that may still be given back in this window of the rate limit; None: the budget is not known."""
    if pool is None or (pool.budget_gpus is None and not pool.is_elastic):
        return None
    given = sum(_given_gpus(p, clock_seconds - pool.scale_down_limit_window_seconds) for p in members)
    held = charged_together(p.resource.target for p in members) + given
    budget = held if pool.budget_gpus is None else pool.budget_gpus
    return _share(budget * pool.scale_down_limit_percent, members) - given


def _share(hundredths_of_gpus: int, members: Iterable[Proposed]) -> int:
    """GPUs of the rate limit: one replica at least, however small the fleet is."""
    return max(hundredths_of_gpus // 100, max((t.gpus_per_replica for t in _targets(members)), default=1))


def _given_gpus(p: Proposed, since_seconds: float) -> int:
    return sum(decrease.gpus for decrease in p.memory.decreases if decrease.at_seconds > since_seconds)


def _gpus_on_no_node(target: Target | TargetMissing) -> int:
    """GPUs that a guest asked for and that no node of the pool is charged with yet."""
    if isinstance(target, TargetMissing):
        return target.made_gpus
    return (target.held - target.pods + target.unplaced) * target.gpus_per_replica


def _targets(members: Iterable[Proposed]) -> Iterable[Target]:
    return (p.resource.target for p in members if isinstance(p.resource.target, Target))


def _decreases(members: Iterable[Proposed]) -> list[Proposal]:
    """List the proposals that give back, the lowest priority first."""
    downs = (p for p in members if isinstance(p, Proposal) and p.to_replicas < p.from_replicas)
    return sorted(downs, key=lambda p: (p.resource.priority, _order(p)))


def _limited(p: Proposal, left_gpus: int) -> tuple[Proposal, int]:
    """The part of a decrease that the rate limit allows, and the GPUs that it frees."""
    target, wanted = p.case.target, p.from_replicas - p.to_replicas
    allowed = min(wanted, max(0, left_gpus) // target.gpus_per_replica)
    if allowed == 0:
        return _refuse(p, Reason.SCALE_DOWN_BRAKE), 0
    if allowed < wanted:
        p = replace(p, to_replicas=p.from_replicas - allowed, limited_by=Reason.SCALE_DOWN_BRAKE)
    return p, allowed * target.gpus_per_replica


def _refuse(p: Proposal, reason: Reason) -> Proposal:
    return replace(p, outcome=Outcome.STEADY, to_replicas=p.from_replicas, reason=reason, limited_by=reason)
