"""What one resource asks for, before its pool is asked: pure, one resource at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from firsttoken_operator.decide.bounds import Bounds, resource_bounds
from firsttoken_operator.decide.down import DownCase, objection
from firsttoken_operator.domain import Outcome, Reason, ResourceSnapshot, ScalingMode, Sized, Target, Tick, Value
from firsttoken_operator.estimate import (
    HEALTHY,
    USABLE,
    Demand,
    Forecast,
    Remembered,
    ResourceMemory,
    can_wake_up,
    fresh,
    hold_seconds,
    remember,
    window_maximum,
    with_deadband,
)

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
    expected: Forecast | None = None
    unmet_replicas: int = 0


def propose(resource: ResourceSnapshot, memory: ResourceMemory | None, tick: Tick) -> Proposal:
    """Decide one resource by itself."""
    target, sized = resource.target, resource.sized
    if not isinstance(target, Target):
        # What was learned is kept: the store may have lost sight of the target for a tick only.
        kept = replace(memory, healthy_since_seconds=None, demands=()) if memory else ResourceMemory("", "", 0)
        return _unscalable(resource, kept, 0, target.reason)
    unscalable = (
        sized.reason if not isinstance(sized, Sized)
        else Reason.PAUSED if resource.policy.mode is ScalingMode.PAUSED
        else Reason.CONFLICT if resource.conflict
        else None
    )  # fmt: skip
    if unscalable is not None or not isinstance(sized, Sized):
        # The window starts anew afterwards: nothing that was seen before a pause may lower a replica after it.
        return _unscalable(resource, fresh(target, "", memory), target.replicas, unscalable or Reason.UNKNOWN)
    seen = remember(resource, target, sized, memory, tick)
    return _decide(resource, target, sized, seen, tick)


def _decide(resource: ResourceSnapshot, target: Target, sized: Sized, seen: Remembered, tick: Tick) -> Proposal:
    memory, load, current = seen.memory, seen.load, target.replicas
    limits = resource_bounds(resource, sized)
    base = Proposal(
        resource=resource, memory=memory, outcome=Outcome.STEADY, from_replicas=current, to_replicas=current,
        recommended=None, reason=Reason.STEADY, bounds=limits, load=load, expected=seen.expected,
    )  # fmt: skip
    if current == 0:
        return _at_zero(base, target, sized, limits, tick)
    if load is None:
        return _without_data(base, target, limits, sized, tick)
    proposal = _with_data(base, target, sized, limits, load, tick)
    return replace(proposal, memory=replace(memory, advised_replicas=proposal.to_replicas))


def _at_zero(base: Proposal, target: Target, sized: Sized, limits: Bounds, tick: Tick) -> Proposal:
    """Wake up for requests that a gateway counts, or for a declared window."""
    if base.resource.policy.min_replicas > 0:
        # Somebody took the deployment out of service; bringing it back is theirs to do.
        return replace(base, outcome=Outcome.HELD, reason=Reason.TARGET_AT_ZERO)
    memory, policy = base.memory, base.resource.policy
    started = base.resource.metrics.gateway_arrivals
    rate = started.value if isinstance(started, Value) else 0.0
    needed = sized.table.replicas_for(rate * memory.work_ratio, memory.capacity_factor)
    known = can_wake_up(base.resource.metrics)
    base = replace(
        base,
        recommended=needed if known else None,
        load=Demand(rate, 0.0, 0.0, memory.work_ratio) if known else None,
    )
    lost = memory.lost_since_seconds
    waits = lost is None or tick.clock_seconds - lost < policy.metrics_loss_grace_seconds
    if limits.lower_by is Reason.NO_WAKE_UP_SIGNAL and waits:
        # One query that failed is no reason to start a replica; nobody could be heard for long is.
        return replace(base, outcome=Outcome.HELD, reason=Reason.NO_WAKE_UP_SIGNAL)
    # NB: pods that are stuck while they go are no reason to wake up.
    woken = _up(base, target, limits, needed) if needed or limits.lower else None
    return woken or replace(base, reason=Reason.SCALED_TO_ZERO)


def _with_data(
    base: Proposal,
    target: Target,
    sized: Sized,
    limits: Bounds,
    load: Demand,
    tick: Tick,
) -> Proposal:
    wanted = base.memory.demands[-1].requests_per_second  # this tick's
    needed = sized.table.replicas_for(wanted, base.memory.capacity_factor)
    base = replace(base, recommended=needed, unmet_replicas=max(0, needed - limits.upper))
    if (up := _up(base, target, limits, needed)) is not None:
        return up
    health = base.resource.metrics.health
    if health not in USABLE:
        return _without_data(base, target, limits, sized, tick)
    if health not in HEALTHY:
        return _held(base, limits, health)
    return _down(base, target, sized, limits, load, tick)


def _without_data(base: Proposal, target: Target, limits: Bounds, sized: Sized, tick: Tick) -> Proposal:
    """Hold; after the grace time raise to what was declared; never lower."""
    health = base.resource.metrics.health
    held = _held(base, limits, health)
    if base.from_replicas < limits.lower:
        return replace(base, outcome=Outcome.UP, to_replicas=limits.lower, reason=_floor_reason(limits))
    lost = base.memory.lost_since_seconds
    if (blocked := _blocked(target)) is not None:
        # Pods that cannot run are why there are no metrics; more of them would tell nothing.
        return replace(held, reason=blocked, limited_by=blocked)
    if lost is None or tick.clock_seconds - lost < base.resource.policy.metrics_loss_grace_seconds:
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


def _up(base: Proposal, target: Target, limits: Bounds, needed: int) -> Proposal | None:
    """Fast up. Pods that are starting count as capacity; stuck ones do not."""
    current = base.from_replicas
    # NB: stuck pods are inside `current`, so what is missing is counted on top of them.
    wanted = max(needed + target.stuck, limits.lower)
    if wanted <= current or current > limits.upper:
        return None
    allowed = min(wanted, limits.upper)
    limited_by = limits.limited_by if wanted > limits.upper else None
    reason = _up_reason(base, limits, needed)
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


def _up_reason(base: Proposal, limits: Bounds, needed: int) -> Reason:
    if needed <= base.from_replicas < limits.lower:
        return _floor_reason(limits)
    load, sized = base.load, base.resource.sized
    assert load is not None, "an up proposal stands on a demand"
    assert isinstance(sized, Sized), "and on a sizing"
    if load.backlog_per_second > load.arrivals_per_second:
        return Reason.BACKLOG
    if base.from_replicas and sized.table.replicas_for(load.total_per_second) <= base.from_replicas:
        # As sized there would be enough; what is expected, or what was learned, says that there is not.
        return Reason.TTFT_ABOVE_SLA if base.memory.capacity_factor < 1 else Reason.DEMAND_EXPECTED
    return Reason.DEMAND_ABOVE_CAPACITY


def _floor_reason(limits: Bounds) -> Reason:
    return Reason.BELOW_MINIMUM if limits.lower_by is Reason.MIN_REPLICAS else limits.lower_by


def _down(
    base: Proposal,
    target: Target,
    sized: Sized,
    limits: Bounds,
    load: Demand,
    tick: Tick,
) -> Proposal:
    """Strict down: the largest demand of a whole window, a deadband on top, every rule, one step."""
    current, memory, policy = base.from_replicas, base.memory, base.resource.policy
    worst = with_deadband(window_maximum(memory.demands), base.expected, base.resource)
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
        to_replicas=to, tick=tick, above_limit=above_limit, hold_seconds=hold_seconds(base.resource),
    )  # fmt: skip
    reason = Reason.ABOVE_LIMIT if above_limit else Reason.DEMAND_BELOW_CAPACITY
    forbidden = objection(case)
    if forbidden is not None:
        return replace(base, reason=forbidden, limited_by=forbidden)
    limited_by = Reason.SCALE_DOWN_STEP if to > wanted else limits.lower_by if to == limits.lower else None
    return replace(base, outcome=Outcome.DOWN, to_replicas=to, reason=reason, limited_by=limited_by)


def _unscalable(resource: ResourceSnapshot, memory: ResourceMemory, replicas: int, reason: Reason) -> Proposal:
    return Proposal(
        resource=resource, memory=memory, outcome=Outcome.HELD, from_replicas=replicas, to_replicas=replicas,
        recommended=None, reason=reason,
    )  # fmt: skip
