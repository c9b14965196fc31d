"""What one resource asks for, before its pool is asked: pure, one resource at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from firsttoken_operator.decide.bounds import Bounds, bounds
from firsttoken_operator.decide.demand import DEADBAND_PERCENT, HEALTHY, Demand, demand, window_maximum
from firsttoken_operator.decide.down import DownCase, objection
from firsttoken_operator.decide.memory import ResourceMemory
from firsttoken_operator.decide.remember import fresh, remember
from firsttoken_operator.domain import Outcome, Reason, ResourceSnapshot, ScalingMode, Sized, Target

SCALE_UP_PERCENT = 100
SCALE_UP_REPLICAS = 4
"""One tick at most doubles a fleet, or adds this many: a single absurd sample cannot take a whole pool."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the data asks for, inside the resource's own bounds and steps. The pool may still grant less."""

    resource: ResourceSnapshot
    memory: ResourceMemory
    outcome: Outcome
    from_replicas: int
    to_replicas: int
    recommended: int | None
    reason: Reason
    limited_by: Reason | None = None
    bounds: Bounds | None = None
    load: Demand | None = None
    unmet_replicas: int = 0


def propose(
    resource: ResourceSnapshot, memory: ResourceMemory | None, clock_seconds: float, tick_seconds: float
) -> Proposal:
    """Decide one resource by itself."""
    target, sized = resource.target, resource.sized
    if not isinstance(target, Target):
        return _unscalable(resource, ResourceMemory("", "", 0), 0, target.reason)
    unscalable = (
        sized.reason if not isinstance(sized, Sized)
        else Reason.PAUSED if resource.policy.mode is ScalingMode.PAUSED
        else Reason.CONFLICT if resource.conflict
        else None
    )  # fmt: skip
    if unscalable is not None or not isinstance(sized, Sized):
        # The window starts anew afterwards: nothing that was seen before a pause may lower a replica after it.
        return _unscalable(resource, fresh(target, "", memory), target.replicas, unscalable or Reason.UNKNOWN)
    seen = remember(resource, target, sized, memory, clock_seconds)
    return _decide(resource, target, sized, seen, clock_seconds, tick_seconds)


def _decide(
    resource: ResourceSnapshot,
    target: Target,
    sized: Sized,
    memory: ResourceMemory,
    clock_seconds: float,
    tick_seconds: float,
) -> Proposal:
    policy, current = resource.policy, target.replicas
    limits = bounds(policy, sized)
    load = demand(resource.metrics, policy)
    base = Proposal(
        resource=resource, memory=memory, outcome=Outcome.STEADY, from_replicas=current, to_replicas=current,
        recommended=None, reason=Reason.STEADY, bounds=limits, load=load,
    )  # fmt: skip
    if current == 0:
        # Somebody took the deployment out of service; bringing it back is theirs to do.
        return replace(base, outcome=Outcome.HELD, reason=Reason.TARGET_AT_ZERO)
    if load is None:
        return _without_data(base, target, limits, sized, clock_seconds)
    proposal = _with_data(base, target, sized, limits, load, clock_seconds, tick_seconds)
    return replace(proposal, memory=replace(memory, advised_replicas=proposal.to_replicas))


def _with_data(
    base: Proposal,
    target: Target,
    sized: Sized,
    limits: Bounds,
    load: Demand,
    clock_seconds: float,
    tick_seconds: float,
) -> Proposal:
    needed = sized.table.replicas_for(load.total_per_second, base.memory.capacity_factor)
    base = replace(base, recommended=needed, unmet_replicas=max(0, needed - limits.upper))
    if (up := _up(base, target, sized, limits, needed)) is not None:
        return up
    health = base.resource.metrics.health
    if health not in HEALTHY:
        return _held(base, limits, health)
    return _down(base, target, sized, limits, load, clock_seconds, tick_seconds)


def _without_data(base: Proposal, target: Target, limits: Bounds, sized: Sized, clock_seconds: float) -> Proposal:
    """Hold; after the grace time raise to what was declared; never lower."""
    health = base.resource.metrics.health
    held = _held(base, limits, health)
    if base.from_replicas < limits.lower:
        return replace(base, outcome=Outcome.UP, to_replicas=limits.lower, reason=Reason.BELOW_MINIMUM)
    lost = base.memory.lost_since_seconds
    if (blocked := _blocked(target)) is not None:
        # Pods that cannot run are why there are no metrics; more of them would tell nothing.
        return replace(held, reason=blocked, limited_by=blocked)
    if lost is None or clock_seconds - lost < base.resource.policy.metrics_loss_grace_seconds:
        return held
    declared = min(sized.replicas_for_declared_peak, limits.upper)
    if declared <= held.to_replicas:
        return held
    return replace(base, outcome=Outcome.UP, to_replicas=declared, recommended=declared, reason=Reason.DECLARED_PEAK)


def _held(base: Proposal, limits: Bounds, health: Reason) -> Proposal:
    """The present size. Advice that was given and not followed yet is repeated: an HPA must not read a drop."""
    advised = base.memory.advised_replicas if base.resource.policy.mode is ScalingMode.ADVISORY else None
    to = base.from_replicas if advised is None else max(base.from_replicas, min(advised, limits.upper))
    return replace(base, outcome=Outcome.HELD, to_replicas=to, reason=health)


def _up(base: Proposal, target: Target, sized: Sized, limits: Bounds, needed: int) -> Proposal | None:
    """Fast up. Pods that are starting count as capacity; stuck ones do not."""
    current = base.from_replicas
    # NB: stuck pods are inside `current`, so what is missing is counted on top of them.
    wanted = max(needed + target.stuck, limits.lower)
    if wanted <= current or current > limits.upper:
        return None
    allowed = min(wanted, limits.upper)
    limited_by = limits.limited_by if wanted > limits.upper else None
    reason = _up_reason(base, sized, limits)
    if allowed <= current:
        return replace(base, reason=reason, limited_by=limited_by)
    blocked = _blocked(target)
    if blocked is not None and target.stuck:
        return replace(base, outcome=Outcome.HELD, reason=blocked, limited_by=blocked, unmet_replicas=wanted - current)
    step = max(SCALE_UP_REPLICAS, math.ceil(current * SCALE_UP_PERCENT / 100))
    if allowed > current + step:
        allowed, limited_by = current + step, Reason.SCALE_UP_STEP
    return replace(base, outcome=Outcome.UP, to_replicas=allowed, reason=reason, limited_by=limited_by)


def _blocked(target: Target) -> Reason | None:
    """Why further pods would not run either, or None."""
    if target.unschedulable:
        return Reason.PODS_UNSCHEDULABLE
    return Reason.PODS_FAILING if target.failing else None


def _up_reason(base: Proposal, sized: Sized, limits: Bounds) -> Reason:
    if base.from_replicas < limits.lower:
        return Reason.BELOW_MINIMUM
    assert base.load is not None, "an up proposal stands on a demand"
    if base.memory.capacity_factor < 1 and sized.table.replicas_for(base.load.total_per_second) <= base.from_replicas:
        return Reason.TTFT_ABOVE_SLA  # As sized there would be enough; the learned capacity says there is not.
    if base.load.backlog_per_second > base.load.arrivals_per_second:
        return Reason.BACKLOG
    return Reason.DEMAND_ABOVE_CAPACITY


def _down(
    base: Proposal,
    target: Target,
    sized: Sized,
    limits: Bounds,
    load: Demand,
    clock_seconds: float,
    tick_seconds: float,
) -> Proposal:
    """Strict down: the largest demand of a whole window, a deadband on top, every rule, one step."""
    current, memory, policy = base.from_replicas, base.memory, base.resource.policy
    worst = max(load.total_per_second, window_maximum(memory.demands)) * (100 + DEADBAND_PERCENT) / 100
    floor = max(limits.lower, sized.table.replicas_for(worst, memory.capacity_factor))
    above_limit = current > limits.upper
    # NB: a lowered limit skips the safety rules, so it may go down to that limit and no further.
    wanted = limits.upper if above_limit else floor
    if wanted >= current:
        return base
    step = max(1, current * policy.scale_down_step_percent // 100)
    to = max(wanted, current - step)
    case = DownCase(
        policy=policy, sized=sized, target=target, metrics=base.resource.metrics, memory=memory, load=load,
        to_replicas=to, clock_seconds=clock_seconds, tick_seconds=tick_seconds, above_limit=above_limit,
    )  # fmt: skip
    reason = Reason.ABOVE_LIMIT if above_limit else Reason.DEMAND_BELOW_CAPACITY
    forbidden = objection(case)
    if forbidden is not None:
        return replace(base, reason=forbidden, limited_by=forbidden)
    limited_by = Reason.SCALE_DOWN_STEP if to > wanted else Reason.MIN_REPLICAS if to == limits.lower else None
    return replace(base, outcome=Outcome.DOWN, to_replicas=to, reason=reason, limited_by=limited_by)


def _unscalable(resource: ResourceSnapshot, memory: ResourceMemory, replicas: int, reason: Reason) -> Proposal:
    return Proposal(
        resource=resource, memory=memory, outcome=Outcome.HELD, from_replicas=replicas, to_replicas=replicas,
        recommended=None, reason=reason,
    )  # fmt: skip
