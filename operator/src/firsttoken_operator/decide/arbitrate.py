"""One transaction over all resources of a pool: its budget caps the sum, a rate limit bounds what is given back.

Those without a pool have no budget and one rate limit together: what makes all of them look idle at once is more likely
a broken source than an idle fleet. One that gives back alone goes by its own steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from firsttoken_operator.decide.case import Unscalable
from firsttoken_operator.decide.charges import charged_gpus, charged_together
from firsttoken_operator.decide.ledger import SHORT, UNBOUNDED_GPUS, Ledger
from firsttoken_operator.decide.propose import Proposal
from firsttoken_operator.decide.rebalancing import concessions
from firsttoken_operator.decide.sharing import Claim, Grant, share
from firsttoken_operator.decide.standby import with_standby
from firsttoken_operator.domain import (
    FleetSnapshot,
    Outcome,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    ScaleDown,
    ScalingMode,
    Target,
)
from firsttoken_operator.estimate import EstimatorConfig

Proposed = Proposal | Unscalable


def arbitrate(
    proposals: Sequence[Proposed], snapshot: FleetSnapshot, clock_seconds: float, config: EstimatorConfig
) -> list[Proposed]:
    """The proposals as far as their pools grant them, in the given order."""
    granted = {p.resource.uid: p for p in proposals}
    members, guests = defaultdict[str, list[Proposed]](list), defaultdict[str, list[Proposed]](list)
    for p in proposals:
        if p.resource.pool is not None:
            members[p.resource.pool].append(p)
        if p.resource.guest_of is not None:
            guests[p.resource.guest_of].append(p)
    for name in sorted(members.keys() | guests.keys()):
        pool = snapshot.pools.get(name)
        granted |= {
            p.resource.uid: p for p in _arbitrate_pool(members[name], guests[name], pool, clock_seconds, config)
        }
    alone = [p for p in proposals if p.resource.pool is None]
    since = clock_seconds - snapshot.scale_down_limit_window_seconds
    granted |= {p.resource.uid: p for p in _rate_limited(alone, since, config.decision.scale_down_limit_percent)}
    free = [granted[p.resource.uid] for p in alone if p.resource.guest_of is None]
    granted |= {p.resource.uid: p for p in with_standby(free)}
    granted |= {p.resource.uid: p for p in _bounded_by_hosts(list(granted.values()), snapshot, config)}
    return [granted[p.resource.uid] for p in proposals]


def priority_order(resource: ResourceSnapshot) -> tuple[int, str, str, str]:
    """Sort key of who is asked first: by priority, then age, then name: deterministic."""
    return -resource.priority, resource.created, resource.namespace, resource.name


def _arbitrate_pool(
    members: Sequence[Proposed],
    guests: Sequence[Proposed],
    pool: PoolSnapshot | None,
    clock_seconds: float,
    config: EstimatorConfig,
) -> Iterable[Proposed]:
    """`guests` name no pool and use its nodes: they take of what is free, and nothing is given back for them.

    NB: increases first, to know who is short. Decreases free nothing for them here: the GPUs are free when the pods are
    gone, or an increase that is written would stand on a decrease that was not.
    """
    ledger = Ledger(pool, (p.resource for p in members), (p.resource for p in guests), config)
    results: dict[str, Proposed] = {p.resource.uid: p for p in members}
    results |= _increased((*members, *guests), ledger)
    short = {p.resource.uid for p in results.values() if p.resource.pool is not None and _lacks_gpus(p)}
    left, returned = _returnable_gpus(members, pool, clock_seconds), 0
    for p in _decreases(members):
        if left is None:
            # Whose GPUs these are, or how fast they may go, is not known: an unknown never lowers.
            results[p.resource.uid] = _refuse(p, ledger.closed or Reason.POOL_INVENTORY_UNKNOWN)
            continue
        on_demand = p.resource.policy.scale_down is ScaleDown.WHEN_POOL_SHORT and p.reason is not Reason.ABOVE_LIMIT
        if on_demand and short <= {p.resource.uid}:
            results[p.resource.uid] = _refuse(p, Reason.POOL_NOT_SHORT)
            continue
        p, given = _limited(p, left)
        results[p.resource.uid] = p
        if not _is_advice(p):
            left -= given
            returned += given
    if left is not None:
        for p in concessions(members, dict(results), ledger, returned):
            p, given = _limited(p, left)
            if given:
                results[p.resource.uid] = p
                left -= given
            if left <= 0:
                break
    lacking = (p.resource.priority for p in results.values() if p.resource.pool is not None and _lacks_gpus(p))
    return with_standby(results.values(), ledger, max(lacking, default=None))


def _increased(proposed: Iterable[Proposed], ledger: Ledger) -> dict[str, Proposed]:
    """The increases as far as the ledger grants them, by uid."""
    ups = [p for p in proposed if isinstance(p, Proposal) and p.to_replicas > p.from_replicas]
    if ledger.closed is not None:
        # What is not known of a pool is no reason to hold one that never named it.
        ups = [p for p in ups if p.resource.pool is not None]
    active = [p for p in ups if not _is_advice(p)]
    granted = dict(share([claim for p in active for claim in _claims(p)], ledger))
    for p in ups:
        # Advice reserves nothing: what others may scale to must not keep GPUs from what is scaled here.
        if _is_advice(p):
            granted |= share(_claims(p), ledger.copy())
    return {p.resource.uid: _grant(p, granted.get(p.resource.uid, Grant())) for p in ups}


def _bounded_by_hosts(
    granted: Sequence[Proposed], snapshot: FleetSnapshot, config: EstimatorConfig
) -> Iterable[Proposed]:
    """The increases of those whose pods run on nodes of another pool than they name, as far as that one gives them too.

    NB: no quota is left by naming another pool. They get what this tick leaves there, and no other gives way for them.
    Those whose pods have no node yet and may come to such nodes keep to the quota there but for their first replica,
    which shows where they run.
    """
    ups = [p for p in granted if isinstance(p, Proposal) and p.to_replicas > p.from_replicas]
    ledgers: dict[str, Ledger] = {}
    outside = (p for p in ups if p.resource.strays or p.resource.may_stray_to)
    for p in sorted(outside, key=lambda p: priority_order(p.resource)):
        for name in sorted(p.resource.strays | p.resource.may_stray_to):
            if name not in ledgers:
                others = [each for each in ups if name in (each.resource.pool, each.resource.guest_of)]
                ledgers[name] = _left_of(name, snapshot, [each for each in others if not _is_advice(each)], config)
            ledger = ledgers[name].copy() if _is_advice(p) else ledgers[name]
            if ledger.closed is None and p.case.target.gpus_per_replica and (claims := _claims(p)):
                grant, run = share(claims, ledger)[p.resource.uid], "run"
                if name not in p.resource.strays:
                    if grant.refused not in (Reason.NOT_A_TENANT, Reason.QUOTA_EXCEEDED):
                        continue  # Where there is no room for them they run elsewhere.
                    grant, run = replace(grant, replicas=max(grant.replicas, 1 - p.case.target.asked)), "may run"
                words = f"its pods {run} on nodes of pool {name}; {grant.words}".rstrip("; ")
                p = _grant(p, replace(grant, words=words))
        yield p


def _left_of(name: str, snapshot: FleetSnapshot, ups: Iterable[Proposal], config: EstimatorConfig) -> Ledger:
    """Ledger of a pool after increases that it has granted."""
    here = snapshot.resources
    guests = (r for r in here if name == r.guest_of or name in r.strays | r.may_stray_to)
    ledger = Ledger(snapshot.pools.get(name), (r for r in here if r.pool == name), guests, config)
    for p in ups:
        more = p.to_replicas - p.case.target.held - p.case.target.standby
        if more > 0:
            ledger.take(p.resource.namespace, p.case.target.gpus_per_replica, more)
    return ledger


def _claims(p: Proposal) -> list[Claim]:
    """Ask for what an increase takes beside what is charged: up to the minimum, and the rest.

    NB: pods that are not asked for any more are no room to grow into: they may be ending and hold their GPUs.
    """
    target, resource = p.case.target, p.resource
    # Those that sleep hold theirs already.
    more = 0 if target.leaving else p.to_replicas - target.asked - target.standby
    least = max(0, min(more, resource.policy.min_replicas - target.asked))
    whole = Claim(
        resource.uid, resource.namespace, target.gpus_per_replica, more - least, resource.priority,
        charged_gpus(target), (resource.created, resource.namespace, resource.name),
    )  # fmt: skip
    minimum = replace(whole, replicas=least, is_minimum=True)
    return [claim for claim in (minimum, whole) if claim.replicas > 0]


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
        return p.reason in SHORT  # to be rendered, and no GPU is free for its first replica
    return p.unmet_replicas > 0 and p.limited_by in SHORT


def _is_advice(p: Proposed) -> bool:
    return p.resource.policy.mode is ScalingMode.ADVISORY


def _grant(p: Proposal, grant: Grant) -> Proposal:
    """The part of an increase that was granted. What was asked for is charged already."""
    target, wanted = p.case.target, p.to_replicas - p.from_replicas
    granted = min(wanted, target.asked - p.from_replicas + target.standby + grant.replicas)
    if granted == wanted:
        return p
    # NB: what one step leaves for the next is in vain as well where the pool does not even hold the step.
    unmet = max(p.unmet_replicas + wanted - granted, p.asked_replicas - p.from_replicas - granted)
    return replace(
        p, outcome=Outcome.UP if granted else Outcome.HELD, to_replicas=p.from_replicas + granted,
        limited_by=Reason.PODS_DRAINING if target.leaving else grant.refused,
        unmet_replicas=unmet, shortage=grant.words,
    )  # fmt: skip


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


def _targets(members: Iterable[Proposed]) -> Iterable[Target]:
    return (p.resource.target for p in members if isinstance(p.resource.target, Target))


def _decreases(members: Iterable[Proposed]) -> list[Proposal]:
    """List the proposals that give back, the lowest priority first."""
    downs = (p for p in members if isinstance(p, Proposal) and p.to_replicas < p.from_replicas)
    return sorted(downs, key=lambda p: (p.resource.priority, priority_order(p.resource)))


def _limited(p: Proposal, left_gpus: int) -> tuple[Proposal, int]:
    """The part of a decrease that the rate limit allows, and the GPUs that it frees."""
    target, wanted = p.case.target, p.from_replicas - p.to_replicas
    allowed = min(wanted, max(0, left_gpus) // target.gpus_per_replica) if target.gpus_per_replica else wanted
    if allowed == 0:
        return _refuse(p, Reason.SCALE_DOWN_BRAKE), 0
    if allowed < wanted:
        p = replace(p, to_replicas=p.from_replicas - allowed, limited_by=Reason.SCALE_DOWN_BRAKE)
    return p, allowed * target.gpus_per_replica


def _refuse(p: Proposal, reason: Reason) -> Proposal:
    return replace(p, outcome=Outcome.STEADY, to_replicas=p.from_replicas, reason=reason, limited_by=reason)
