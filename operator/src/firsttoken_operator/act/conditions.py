"""The conditions of an InferenceDeployment, from what a tick saw and decided. Pure.

A condition changes its transition time only with its status, and its message only when the words change: a number that
moves inside a sentence (an age, a count of pods) is no reason to write to the API server every tick.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from firsttoken_operator.act import zero
from firsttoken_operator.api.conditions import Condition, ConditionStatus, ConditionType
from firsttoken_operator.decide.bounds import can_come_back
from firsttoken_operator.domain import (
    POOL_LIMITS,
    Decision,
    Outcome,
    Reason,
    ResourceSnapshot,
    ScalingMode,
    Sized,
    Target,
    TargetMissing,
    Unsized,
)
from firsttoken_operator.estimate import DEFAULT
from firsttoken_sizing.request import Infeasible
from firsttoken_sizing.workload import Sla

LIMITS = POOL_LIMITS | {
    Reason.BURST_HEADROOM, Reason.MAX_REPLICAS, Reason.MIN_REPLICAS, Reason.SCHEDULED_PEAK, Reason.NO_WAKE_UP_SIGNAL,
    Reason.SCALE_DOWN_BRAKE, Reason.PODS_UNSCHEDULABLE, Reason.PODS_FAILING,
}  # fmt: skip
"""What keeps replicas away from what the load asks for; waiting for a window is not a limit."""

_INFEASIBLE = frozenset(cause.value for cause in Infeasible)
_LONGEST_MESSAGE = 1024
_NUMBER = re.compile(r"\d+(\.\d+)?")

Judgement = tuple[ConditionType, bool | None, Reason, str]
"""Type, whether it holds (None: unknown), reason and message of one condition."""


def timestamp(at: datetime) -> str:
    """RFC 3339 in UTC, whole seconds, as Kubernetes writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def conditions(
    previous: Iterable[Condition], resource: ResourceSnapshot, decision: Decision | None, now: datetime
) -> tuple[Condition, ...]:
    """All conditions, `Ready` first; `previous` keeps the times and messages of what did not change."""
    judged = [
        _sizing_ready(resource),
        _sla_feasible(resource),
        _metrics_healthy(resource),
        _sla_met(resource),
        _capacity_available(resource, decision),
        _scaling_active(resource, decision),
        _scaling_limited(resource, decision),
        _calibrated(decision),
    ]
    before = {condition.type: condition for condition in previous}
    everything = [_ready(resource, decision), *judged]
    return tuple(condition(before.get(j[0].value), j, resource.generation, now) for j in everything)


def undecided(
    previous: Iterable[Condition], resource: ResourceSnapshot, message: str, now: datetime
) -> tuple[Condition, ...]:
    """The conditions of a resource on which the decision failed: not `Ready`, the others as they were last known.

    NB: it reads none of what the decision read, which may be what made it fail.
    """
    kept = tuple(previous)
    before = next((c for c in kept if c.type == ConditionType.READY.value), None)
    judgement = (ConditionType.READY, False, Reason.DECISION_FAILED, message)
    ready = condition(before, judgement, resource.generation, now)
    return (ready, *(c for c in kept if c.type != ConditionType.READY.value))


def condition(before: Condition | None, judgement: Judgement, generation: int, now: datetime) -> Condition:
    """One condition; `before` keeps its time while the status is the same, its message while the words are."""
    kind, holds, reason, message = judgement
    status = ConditionStatus.UNKNOWN if holds is None else ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    same = before is not None and before.status is status
    if same and before is not None and before.reason == reason.value and _words(before.message) == _words(message):
        message = before.message
    return Condition(
        type=kind.value,
        status=status,
        reason=reason.value,
        message=message[:_LONGEST_MESSAGE],
        last_transition_time=before.last_transition_time if same and before is not None else timestamp(now),
        observed_generation=generation,
    )


def _words(message: str) -> str:
    return _NUMBER.sub("#", message)


def _ready(resource: ResourceSnapshot, decision: Decision | None) -> Judgement:
    if isinstance(resource.sized, Unsized):
        return ConditionType.READY, False, resource.sized.reason, resource.sized.message
    if isinstance(resource.target, TargetMissing):
        return ConditionType.READY, False, resource.target.reason, resource.target.message
    if resource.conflict:
        return ConditionType.READY, False, Reason.CONFLICT, resource.conflict
    if zero.is_at_zero(resource) and decision is not None and decision.outcome is Outcome.HELD:
        # It is wanted, or nobody may wake it up: that is not sleep.
        return ConditionType.READY, False, decision.limited_by or decision.reason, decision.message
    _, healthy, reason, message = _metrics_healthy(resource)
    if zero.is_at_zero(resource) or reason is Reason.MISSING:
        return ConditionType.READY, healthy, reason, message
    return ConditionType.READY, True, Reason.READY, "sized, target found, metrics present"


def _sizing_ready(resource: ResourceSnapshot) -> Judgement:
    if isinstance(resource.sized, Unsized):
        return ConditionType.SIZING_READY, False, resource.sized.reason, resource.sized.message
    replicas = resource.sized.replicas_for_declared_peak
    return ConditionType.SIZING_READY, True, Reason.SIZED, f"{replicas} replicas for the declared peak"


def _sla_feasible(resource: ResourceSnapshot) -> Judgement:
    sized = resource.sized
    if isinstance(sized, Sized):
        return ConditionType.SLA_FEASIBLE, True, Reason.FEASIBLE, "one request alone meets every limit"
    if sized.reason.value in _INFEASIBLE:
        return ConditionType.SLA_FEASIBLE, False, sized.reason, sized.message
    return ConditionType.SLA_FEASIBLE, None, Reason.UNKNOWN, "nothing is sized"


def _metrics_healthy(resource: ResourceSnapshot) -> Judgement:
    """Without replicas there are no pods to measure: then it is about what is to tell of the next request."""
    healthy, metrics = ConditionType.METRICS_HEALTHY, resource.metrics
    if zero.is_at_zero(resource):
        awaited = can_come_back(resource)
        reason = Reason.SCALED_TO_ZERO if awaited else Reason.NO_WAKE_UP_SIGNAL
        return healthy, awaited, reason, zero.what_wakes_it_up(resource)
    return healthy, metrics.may_lower, metrics.health, metrics.detail


def _sla_met(resource: ResourceSnapshot) -> Judgement:
    """Only TTFT is measured live: it can prove that the SLA is missed, but met only where it is the only limit."""
    ttft, sized = resource.metrics.ttft, resource.sized
    if isinstance(sized, Unsized):
        return ConditionType.SLA_MET, None, Reason.UNKNOWN, "nothing is sized"
    limit, blind = sized.sla.time_to_first_token, _not_measured(sized.sla)
    if limit is None:
        return ConditionType.SLA_MET, None, Reason.UNKNOWN, blind or "no limit is declared"
    blind = f"; {blind}" if blind else ""
    if ttft is None:
        why = Reason.SCALED_TO_ZERO if zero.is_at_zero(resource) else resource.metrics.health
        return ConditionType.SLA_MET, None, Reason.UNKNOWN, f"TTFT is not known ({why}){blind}"
    high = "unbounded" if ttft.high_milliseconds is None else f"{ttft.high_milliseconds:.0f}"
    text = f"TTFT {limit.percentile} in ({ttft.low_milliseconds:.0f}, {high}] ms, limit {limit.milliseconds:.0f} ms"
    if ttft.low_milliseconds > limit.milliseconds:
        return ConditionType.SLA_MET, False, Reason.SLA_MISSED, text + blind
    if ttft.high_milliseconds is None or ttft.high_milliseconds > limit.milliseconds:
        return ConditionType.SLA_MET, None, Reason.LOW_RESOLUTION, f"{text}: the bucket straddles the limit{blind}"
    if blind:
        return ConditionType.SLA_MET, None, Reason.UNKNOWN, text + blind
    return ConditionType.SLA_MET, True, Reason.SLA_MET, text


def _not_measured(sla: Sla) -> str:
    """The declared limits that no runtime's histograms tell live, in words; empty: there are none."""
    limits = {"interTokenLatency": sla.inter_token_latency, "endToEnd": sla.end_to_end}
    names = [name for name, limit in limits.items() if limit is not None]
    return f"not measured live: {', '.join(names)}" if names else ""


def _capacity_available(resource: ResourceSnapshot, decision: Decision | None) -> Judgement:
    target = resource.target
    if decision is not None and decision.limited_by in POOL_LIMITS and decision.limited_by is not None:
        gpus = decision.unmet_replicas * decision.gpus_per_replica
        unknown = decision.limited_by is not Reason.POOL_EXHAUSTED
        text = f"pool {resource.pool}: {gpus} GPUs are missing"
        return ConditionType.CAPACITY_AVAILABLE, None if unknown else False, decision.limited_by, text
    if isinstance(target, Target) and target.unschedulable:
        text = f"{target.unschedulable} pods cannot be scheduled"
        return ConditionType.CAPACITY_AVAILABLE, False, Reason.PODS_UNSCHEDULABLE, text
    return ConditionType.CAPACITY_AVAILABLE, True, Reason.AVAILABLE, "no GPU is missing"


def _scaling_active(resource: ResourceSnapshot, decision: Decision | None) -> Judgement:
    active = ConditionType.SCALING_ACTIVE
    if resource.conflict:
        return active, False, Reason.CONFLICT, resource.conflict
    if resource.policy.mode is ScalingMode.PAUSED:
        return active, False, Reason.PAUSED, "spec.scaling.mode is Paused"
    if resource.policy.mode is ScalingMode.ADVISORY:
        return active, False, Reason.ADVISORY, "decisions are reported and not written"
    if isinstance(resource.target, TargetMissing):
        return active, False, resource.target.reason, resource.target.message
    if isinstance(resource.sized, Unsized):
        return active, False, resource.sized.reason, resource.sized.message
    if decision is not None and decision.reason is Reason.TARGET_AT_ZERO:
        return active, False, Reason.TARGET_AT_ZERO, "somebody scaled the target to 0; scale it up to resume"
    return active, True, Reason.ACTIVE, "replicas follow the load"


def _scaling_limited(resource: ResourceSnapshot, decision: Decision | None) -> Judgement:
    limited = ConditionType.SCALING_LIMITED
    if decision is not None and zero.lacks_a_signal(resource, decision):
        return limited, True, Reason.NO_WAKE_UP_SIGNAL, zero.what_would_allow_zero(resource)
    if decision is not None and decision.limited_by is not None and decision.limited_by in LIMITS:
        text = f"{decision.recommended} replicas asked for, {decision.to_replicas} granted"
        return limited, True, decision.limited_by, text
    return limited, False, Reason.WITHIN_LIMITS, "no limit is in force"


def calibration_state(capacity_factor: float) -> Reason:
    """What live traffic taught: nothing (`AsSized`), something (`Learned`), or all that is believed (`Pegged`)."""
    bounds = DEFAULT.tail_capacity
    if not bounds.least_factor < capacity_factor < bounds.most_factor:
        return Reason.PEGGED
    # Less than half a percent is not told from nothing, here or in the status.
    return Reason.AS_SIZED if round(100 * capacity_factor) == 100 else Reason.LEARNED


def _calibrated(decision: Decision | None) -> Judgement:
    calibrated = ConditionType.CALIBRATED
    state = Reason.AS_SIZED if decision is None else calibration_state(decision.capacity_factor)
    if decision is None or state is Reason.AS_SIZED:
        return calibrated, False, Reason.AS_SIZED, "live traffic has taught nothing else than the sizing says"
    percent = f"a replica serves {100 * decision.capacity_factor:.0f} % of what was sized"
    if state is Reason.LEARNED:
        return calibrated, True, state, percent
    bound = "least" if decision.capacity_factor <= DEFAULT.tail_capacity.least_factor else "most"
    return calibrated, False, state, f"{percent}, the {bound} that is believed; benchmark the deployment"
