"""Proposals: the replicas that one resource asks for, before its pool is asked. Pure, one resource at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from firsttoken_operator.decide.bounds import Bounds, resource_bounds
from firsttoken_operator.decide.case import Case, Unscalable
from firsttoken_operator.decide.down import Reduction, veto
from firsttoken_operator.decide.hindered import hindrance
from firsttoken_operator.domain import Outcome, Reason, ResourceSnapshot, ScalingMode, Sized, Target, Tick, Value
from firsttoken_operator.estimate import (
    Demand,
    EstimatorConfig,
    ResourceMemory,
    can_wake_up,
    estimate,
    fresh,
    most_at_once,
    most_replicas,
    window_maximum,
    with_deadband,
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """Replicas that the data asks for, inside the resource's own bounds and steps. The pool may still grant less."""

    case: Case
    outcome: Outcome
    to_replicas: int
    reason: Reason
    recommended: int | None = None
    limited_by: Reason | None = None
    unmet_replicas: int = 0
    shortage: str = ""
    standby: int = 0
    """Replicas that are to sleep, beside `to_replicas`."""

    @property
    def resource(self) -> ResourceSnapshot:
        """Resource that is to be scaled."""
        return self.case.resource

    @property
    def memory(self) -> ResourceMemory:
        """Memory for the next tick."""
        return self.case.memory

    @property
    def from_replicas(self) -> int:
        """The present size."""
        return self.case.target.replicas

    @property
    def asked_replicas(self) -> int:
        """Replicas that demand, minimum and windows ask for, however many steps it takes to have them."""
        return max(self.recommended or 0, self.case.bounds.lower)


def propose(
    resource: ResourceSnapshot, memory: ResourceMemory | None, tick: Tick, config: EstimatorConfig
) -> Proposal | Unscalable:
    """Decide one resource by itself."""
    target, sized = resource.target, resource.sized
    if resource.metrics.awaited:
        # NB: not decided, nor remembered: what it holds, and gave back, counts in its pool as at the last tick.
        return Unscalable(resource, memory or ResourceMemory("", "", 0), Reason.SOURCE_UNREACHABLE)
    if not isinstance(target, Target):
        # What was learned is kept: the store may have lost sight of the target for a tick only.
        kept = replace(memory, healthy_since_seconds=None, loads=()) if memory else ResourceMemory("", "", 0)
        return Unscalable(resource, kept, target.reason)
    if not isinstance(sized, Sized):
        reason = sized.reason
    elif resource.policy.mode is ScalingMode.PAUSED:
        reason = Reason.PAUSED
    elif resource.conflict:
        reason = Reason.CONFLICT
    else:
        seen = estimate(resource, target, sized, memory, tick, config)
        limits = resource_bounds(resource, sized)
        return _decide(Case(resource, target, sized, seen.memory, tick, config, seen.demand, seen.forecast, limits))
    # The window starts anew afterwards: nothing that was seen before a pause may lower a replica after it.
    return Unscalable(resource, fresh(target, "", memory), reason)


def _decide(case: Case) -> Proposal:
    steady = Proposal(case, Outcome.STEADY, case.target.replicas, Reason.STEADY)
    if case.target.replicas == 0:
        return _at_zero(steady)
    if case.demand is None:
        return _without_data(steady)
    proposal = _with_data(steady, case.demand)
    advised = replace(case.memory, advised_replicas=proposal.to_replicas)
    return replace(proposal, case=replace(case, memory=advised))


def _at_zero(base: Proposal) -> Proposal:
    """Wake up for requests that a gateway counts, or for a declared window."""
    case, policy, metrics = base.case, base.resource.policy, base.resource.metrics
    if policy.min_replicas > 0 and not case.memory.sleeps:
        # The deployment was taken out of service; who did so has to bring it back.
        return replace(base, outcome=Outcome.HELD, reason=Reason.TARGET_AT_ZERO)
    memory = case.memory
    rate = metrics.gateway_arrivals.value if isinstance(metrics.gateway_arrivals, Value) else 0.0
    needed = case.sized.table.replicas_for(rate * memory.demand.request_cost, case.capacity_factor)
    known = can_wake_up(metrics)
    demand = Demand(rate, 0.0, 0.0, memory.demand.request_cost) if known else None
    base = replace(base, case=replace(case, demand=demand), recommended=needed if known else None)
    if case.bounds.lower_by is Reason.NO_WAKE_UP_SIGNAL and not _grace_is_over(case):
        # One query that failed is no reason to start a replica; a gateway that has been silent for long is.
        return replace(base, outcome=Outcome.HELD, reason=Reason.NO_WAKE_UP_SIGNAL)
    # NB: pods that are stuck while they go are no reason to wake up.
    woken = _up(base, needed) if needed or case.bounds.lower else None
    return woken or replace(base, reason=Reason.SCALED_TO_ZERO)


def _with_data(base: Proposal, demand: Demand) -> Proposal:
    case, metrics = base.case, base.resource.metrics
    target_load = case.memory.loads[-1].requests_per_second  # this tick's
    needed = case.sized.table.replicas_for(target_load, case.capacity_factor)
    base = replace(base, recommended=needed, unmet_replicas=max(0, needed - case.bounds.upper))
    if _is_above_maximum(case):
        return _lowered(base, case.bounds.upper, Reason.MAX_REPLICAS, demand)
    if (up := _up(base, needed)) is not None:
        return up
    if not metrics.may_raise:
        return _without_data(base)
    if not metrics.may_lower:
        return _held(base)
    return _down(base, demand)


def _without_data(base: Proposal) -> Proposal:
    """Hold; after the grace time raise to what was declared; never lower."""
    case, held = base.case, _held(base)
    limits = case.bounds
    if _is_above_maximum(case):
        return _lowered(base, limits.upper, Reason.MAX_REPLICAS, case.demand or Demand(0.0, 0.0, 0.0))
    if base.from_replicas < limits.lower and not case.target.unmade:
        return replace(base, outcome=Outcome.UP, to_replicas=limits.lower, reason=_floor_reason(limits))
    if (blocked := hindrance(case.target)) is not None:
        # Pods that cannot run are why there are no metrics; more of them would tell nothing.
        return replace(held, reason=blocked[0], limited_by=blocked[0])
    declared = min(case.sized.replicas_for_declared_peak, limits.upper)
    if declared <= held.to_replicas or not _grace_is_over(case):
        return held
    return replace(base, outcome=Outcome.UP, to_replicas=declared, recommended=declared, reason=Reason.DECLARED_PEAK)


def _grace_is_over(case: Case) -> bool:
    """Tell whether metrics have been lost for longer than the user waits for them."""
    lost = case.memory.lost_since_seconds
    return lost is not None and case.tick.clock_seconds - lost >= case.resource.policy.metrics_loss_grace_seconds


def _held(base: Proposal) -> Proposal:
    """The present size. Advice that was given and not followed yet is repeated: an HPA must not read a drop."""
    case = base.case
    advised = case.memory.advised_replicas if case.resource.policy.mode is ScalingMode.ADVISORY else None
    to = base.from_replicas if advised is None else max(base.from_replicas, min(advised, case.bounds.upper))
    return replace(base, outcome=Outcome.HELD, to_replicas=to, reason=case.resource.metrics.health)


def _up(base: Proposal, needed: int) -> Proposal | None:
    """Fast up. Pods that are starting count as capacity; stuck ones do not."""
    target, limits, current = base.case.target, base.case.bounds, base.from_replicas
    # NB: stuck pods are inside `current`, so what is missing is counted on top of them.
    wanted = max(needed + _replaced(base.case, needed), limits.lower)
    if wanted <= current or current > limits.upper:
        return None
    allowed = min(wanted, limits.upper)
    limited_by = limits.limited_by if wanted > limits.upper else None
    reason = _up_reason(base.case, needed)
    # NB: what a gate or a quota holds back waits for others from the beginning, however long a start may take.
    waits = target.hindrances.gated or target.hindrances.half_made
    blocked = hindrance(target) if target.stuck or target.unmade or waits else None
    # NB: for what is wanted more while nodes come, more nodes have to be ordered.
    if allowed > current and blocked is not None and blocked[0] is not Reason.NODES_PROVISIONING:
        why = blocked[0]
        unmet = max(wanted, needed + target.stuck) - current
        return replace(base, outcome=Outcome.HELD, reason=why, limited_by=why, unmet_replicas=unmet)
    if allowed > current and (most := _most(base.case)) < allowed:
        allowed, limited_by = most, Reason.SCALE_UP_STEP
    if allowed <= current:
        return replace(base, reason=reason, limited_by=limited_by)
    return replace(base, outcome=Outcome.UP, to_replicas=allowed, reason=reason, limited_by=limited_by)


def _replaced(case: Case, needed: int) -> int:
    """Pods that are stuck and ordered again."""
    return min(case.target.stuck, math.ceil(needed * case.config.decision.most_replaced_percent / 100))


def _most(case: Case) -> int:
    """The largest size that one tick, and what bears witness to the load, allow."""
    step = most_at_once(case)
    if case.demand is None or case.bounds.lower >= step:
        return step  # What was declared needs no witness.
    return max(most_replicas(case, case.demand), case.bounds.lower)


def _up_reason(case: Case, needed: int) -> Reason:
    demand, current = case.demand, case.target.replicas
    if demand is None or needed <= current < case.bounds.lower:
        return _floor_reason(case.bounds)
    if demand.backlog_per_second > demand.arrivals_per_second:
        return Reason.BACKLOG
    if current and case.sized.table.replicas_for(demand.total_per_second) <= current:
        # As sized there would be enough; what is expected, or what was learned, says that there is not.
        return Reason.TTFT_ABOVE_SLA if case.capacity_factor < 1 else Reason.DEMAND_EXPECTED
    return Reason.DEMAND_ABOVE_CAPACITY


def _floor_reason(limits: Bounds) -> Reason:
    return Reason.BELOW_MINIMUM if limits.lower_by is Reason.MIN_REPLICAS else limits.lower_by


def _down(base: Proposal, demand: Demand) -> Proposal:
    """Strict down: the largest demand of a whole window, a deadband on top, every rule, one step."""
    case, current, limits = base.case, base.from_replicas, base.case.bounds
    largest = window_maximum(case.memory.loads)
    worst = with_deadband(case, largest, case.forecast)
    floor = max(limits.lower, case.sized.table.replicas_for(worst, case.capacity_factor))
    # NB: a limit that fell skips the safety rules, so it may go down to that limit and no further.
    above = limits.limited_by if current > limits.upper else None
    wanted = floor if above is None else limits.upper
    return base if wanted >= current else _lowered(base, wanted, above, demand)


def _is_above_maximum(case: Case) -> bool:
    """Tell whether the user lowered `maxReplicas` below the present size: that needs no metrics."""
    return case.target.replicas > case.bounds.upper and case.bounds.limited_by is Reason.MAX_REPLICAS


def _lowered(base: Proposal, wanted: int, above: Reason | None, demand: Demand) -> Proposal:
    """One step down towards what is wanted, unless a rule forbids it. `above`: the limit that asks for it, if any."""
    case, current, limits = base.case, base.from_replicas, base.case.bounds
    to = max(wanted, current - max(1, current * case.resource.policy.scale_down_step_percent // 100))
    vetoed = veto(Reduction(case, demand, to, above))
    if vetoed is not None:
        return replace(base, reason=vetoed, limited_by=vetoed)
    reason = Reason.DEMAND_BELOW_CAPACITY if above is None else Reason.ABOVE_LIMIT
    limited_by = Reason.SCALE_DOWN_STEP if to > wanted else limits.lower_by if to == limits.lower else None
    return replace(base, outcome=Outcome.DOWN, to_replicas=to, reason=reason, limited_by=limited_by)
