"""One transaction over all resources of a pool: its budget caps the sum, its brake bounds what is given back.

Charged are the pods that exist (ready, starting, stuck, terminating) or the size that was asked for, whichever is more:
a scale-down frees its GPUs only when its pods are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from firsttoken_operator.decide.propose import Proposal
from firsttoken_operator.domain import Outcome, PoolSnapshot, Reason, ScaleDown, ScalingMode, Target, TargetMissing


def arbitrate(proposals: Sequence[Proposal], pools: dict[str, PoolSnapshot], clock_seconds: float) -> list[Proposal]:
    """The proposals as far as their pools grant them, in the given order."""
    granted = {p.resource.uid: p for p in proposals}
    for name in sorted({p.resource.pool for p in proposals if p.resource.pool is not None}):
        members = [p for p in proposals if p.resource.pool == name]
        for p in _arbitrate_pool(members, pools.get(name), clock_seconds):
            granted[p.resource.uid] = p
    return [granted[p.resource.uid] for p in proposals]


def charged_gpus(target: Target) -> int:
    """GPUs that a target occupies or has asked for."""
    live = target.ready + target.starting + target.stuck
    return (max(target.replicas, live) + target.terminating) * target.gpus_per_replica


def charged_together(targets: Iterable[Target | TargetMissing]) -> int:
    """GPUs of several targets; one that two resources claim is charged once."""
    return sum(charged_gpus(t) for t in {t.uid: t for t in targets if isinstance(t, Target)}.values())


def _arbitrate_pool(members: Sequence[Proposal], pool: PoolSnapshot | None, clock_seconds: float) -> Iterable[Proposal]:
    # Advice reserves nothing: what others may scale to must not keep GPUs from what is scaled here.
    ups = sorted((p for p in members if p.to_replicas > p.from_replicas), key=lambda p: (_is_advice(p), _order(p)))
    results: dict[str, Proposal] = {p.resource.uid: p for p in members}
    free = _free_gpus(members, pool)
    missing = Reason.POOL_NOT_FOUND if pool is None else Reason.POOL_INVENTORY_UNKNOWN
    for p in ups:
        p, used = _grant(p, free, missing)
        results[p.resource.uid] = p
        if free is not None and not _is_advice(p):
            free -= used
    downs = sorted(
        (p for p in members if p.to_replicas < p.from_replicas), key=lambda p: (p.resource.priority, _order(p))
    )
    short = {p.resource.uid for p in results.values() if _lacks_gpus(p)}
    left = _brake_gpus(members, pool, clock_seconds)
    for p in downs:
        if pool is None or pool.budget_gpus is None:
            # Nobody knows whose GPUs these are or how fast they may go: an unknown never lowers.
            results[p.resource.uid] = _refuse(p, missing)
            continue
        paid_for = p.resource.policy.scale_down is ScaleDown.WHEN_POOL_SHORT and p.reason is not Reason.ABOVE_LIMIT
        if paid_for and not short - {p.resource.uid}:
            results[p.resource.uid] = _refuse(p, Reason.POOL_NOT_SHORT)
            continue
        p, given = _brake(p, left)
        results[p.resource.uid] = p
        if left is not None and not _is_advice(p):
            left -= given
    return results.values()


POOL_REASONS = frozenset({Reason.POOL_EXHAUSTED, Reason.POOL_INVENTORY_UNKNOWN})


def _lacks_gpus(p: Proposal) -> bool:
    """Whether the pool withheld GPUs from it: a deployment's own maximum makes no pool short."""
    if _is_advice(p):
        return False
    if isinstance(p.resource.target, TargetMissing):
        return p.resource.target.reason in POOL_REASONS  # to be rendered, and no GPU is free for its first replica
    return p.unmet_replicas > 0 and p.limited_by in POOL_REASONS


def _is_advice(p: Proposal) -> bool:
    return p.resource.policy.mode is ScalingMode.ADVISORY


def _order(p: Proposal) -> tuple[bool, int, str, str, str]:
    """Guaranteed minimums first, then priority, then age, then name: deterministic."""
    resource = p.resource
    below_minimum = p.reason is Reason.BELOW_MINIMUM
    return (not below_minimum, -resource.priority, resource.created, resource.namespace, resource.name)


def _free_gpus(members: Sequence[Proposal], pool: PoolSnapshot | None) -> int | None:
    if pool is None or pool.budget_gpus is None:
        return None
    charged = charged_together(p.resource.target for p in members)
    return pool.budget_gpus - pool.charged_elsewhere_gpus - charged


def _grant(p: Proposal, free_gpus: int | None, missing: Reason) -> tuple[Proposal, int]:
    """The part of an increase that the free GPUs allow, and the GPUs that it uses."""
    target = p.resource.target
    assert isinstance(target, Target), "only a target can grow"
    wanted = p.to_replicas - p.from_replicas
    # Growing back to pods that still exist costs nothing new: they are charged already.
    already = max(0, target.ready + target.starting + target.stuck - p.from_replicas)
    if free_gpus is None:
        granted, limited_by = min(wanted, already), missing
    else:
        granted = min(wanted, already + max(0, free_gpus) // target.gpus_per_replica)
        limited_by = Reason.POOL_EXHAUSTED
    used = max(0, granted - already) * target.gpus_per_replica
    if granted == wanted:
        return p, used
    outcome = Outcome.UP if granted else Outcome.HELD
    unmet = p.unmet_replicas + wanted - granted
    return replace(
        p, outcome=outcome, to_replicas=p.from_replicas + granted, limited_by=limited_by, unmet_replicas=unmet
    ), used


def _brake_gpus(members: Sequence[Proposal], pool: PoolSnapshot | None, clock_seconds: float) -> int | None:
    """GPUs that may still be given back in this brake window; None: nothing limits it."""
    if pool is None or pool.budget_gpus is None:
        return None
    since = clock_seconds - pool.brake_window_seconds
    given = sum(d.gpus for p in members for d in p.memory.decreases if d.at_seconds > since)
    allowed = pool.budget_gpus * pool.scale_down_limit_percent // 100
    largest = max(
        (p.resource.target.gpus_per_replica for p in members if isinstance(p.resource.target, Target)), default=1
    )
    return max(allowed, largest) - given


def _brake(p: Proposal, left_gpus: int | None) -> tuple[Proposal, int]:
    target = p.resource.target
    assert isinstance(target, Target), "only a target can shrink"
    wanted = p.from_replicas - p.to_replicas
    allowed = wanted if left_gpus is None else min(wanted, max(0, left_gpus) // target.gpus_per_replica)
    if allowed == 0:
        return _refuse(p, Reason.SCALE_DOWN_BRAKE), 0
    if allowed < wanted:
        p = replace(p, to_replicas=p.from_replicas - allowed, limited_by=Reason.SCALE_DOWN_BRAKE)
    return p, allowed * target.gpus_per_replica


def _refuse(p: Proposal, reason: Reason) -> Proposal:
    return replace(p, outcome=Outcome.STEADY, to_replicas=p.from_replicas, reason=reason, limited_by=reason)
