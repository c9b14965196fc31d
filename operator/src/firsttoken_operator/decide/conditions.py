"""Conditions of a resource: judged from what a tick saw and decided."""

from __future__ import annotations

import math

from firsttoken_operator.decide.bounds import careful, resource_bounds
from firsttoken_operator.decide.hindered import NO_PLACE, hindrance
from firsttoken_operator.decide.rollout import rollout_pending
from firsttoken_operator.decide.settings import settings_match
from firsttoken_operator.decide.zero import can_come_back, is_at_zero, what_wakes_it_up, what_would_allow_zero
from firsttoken_operator.domain import (
    POOL_LIMITS,
    ConditionType,
    Decision,
    FailedWrite,
    Judgement,
    Outcome,
    Reason,
    ResourceSnapshot,
    ScalingMode,
    Sized,
    Target,
    TargetMissing,
    Unsized,
)
from firsttoken_operator.estimate import DEFAULT, EstimatorConfig
from firsttoken_sizing.request import Infeasible
from firsttoken_sizing.workload import Percentile, Sla

LIMITS = POOL_LIMITS | (NO_PLACE - {Reason.NODES_PROVISIONING}) | {
    Reason.BURST_HEADROOM, Reason.MAX_REPLICAS, Reason.MIN_REPLICAS, Reason.SCHEDULED_PEAK, Reason.NO_WAKE_UP_SIGNAL,
    Reason.SCALE_DOWN_BRAKE, Reason.PODS_FAILING,
}  # fmt: skip
"""Reasons that keep replicas away from what the load asks for; waiting for a window is not a limit."""

ABOUT_SIZING = frozenset({ConditionType.READY, ConditionType.SIZING_READY, ConditionType.SLA_FEASIBLE})
"""Conditions that answer the generation of the spec that was sized."""

_UNKNOWN_BUDGET = frozenset({Reason.POOL_INVENTORY_UNKNOWN, Reason.POOL_NOT_FOUND})
_INFEASIBLE = frozenset(cause.value for cause in Infeasible)


Said = tuple[bool | None, Reason, str]
"""State of a condition (None: unknown), its reason, and the reason in words."""


def judge(
    resource: ResourceSnapshot,
    decision: Decision,
    unscaled: FailedWrite | None = None,
    config: EstimatorConfig = DEFAULT,
) -> tuple[Judgement, ...]:
    """All conditions of a resource, `Ready` first. `unscaled`: why the replicas are not what was decided.

    Without `RolloutPending` and `SettingsMatch` where that is not known.
    """
    said = {
        ConditionType.READY: _ready(resource, decision),
        ConditionType.SIZING_READY: _sizing_ready(resource),
        ConditionType.SLA_FEASIBLE: _sla_feasible(resource.sized),
        ConditionType.METRICS_HEALTHY: _metrics_healthy(resource, decision),
        ConditionType.SLA_MET: _sla_met(resource),
        ConditionType.CAPACITY_AVAILABLE: _capacity_available(resource, decision),
        ConditionType.SCALING_ACTIVE: _scaling_active(resource, decision, unscaled),
        ConditionType.SCALING_LIMITED: _scaling_limited(resource, decision),
        ConditionType.CALIBRATED: _calibrated(decision.capacity_factor, config),
    }
    if (pending := rollout_pending(resource)) is not None:
        said[ConditionType.ROLLOUT_PENDING] = pending
    if (matching := settings_match(resource, config)) is not None:
        said[ConditionType.SETTINGS_MATCH] = matching
    return tuple(Judgement(kind, *what) for kind, what in said.items())


def judge_undecided() -> Judgement:
    """Judge a resource that makes the decision fail. It reads nothing that may have made it fail."""
    text = "no decision could be made on this resource, its replicas stay; the operator's log has the error"
    return Judgement(ConditionType.READY, False, Reason.DECISION_FAILED, text)


def judge_untold(message: str) -> Judgement:
    """Judge a resource whose status the API server refuses, where it takes the conditions alone."""
    text = f"the status cannot be written, its other fields are old; decisions go on: {message}"
    return Judgement(ConditionType.READY, False, Reason.WRITE_DENIED, text)


def _ready(resource: ResourceSnapshot, decision: Decision) -> Said:
    if isinstance(resource.sized, Unsized):
        return False, resource.sized.reason, resource.sized.message
    if isinstance(resource.target, TargetMissing):
        return False, resource.target.reason, resource.target.message
    if resource.conflict:
        return False, Reason.CONFLICT, resource.conflict
    if resource.unrendered is not None:
        kind = resource.claims.kind.kind
        text = f"the {kind} is not what spec.runtime says, which is tried again: {resource.unrendered.message}"
        return False, resource.unrendered.reason, text
    rests = _rests(resource, decision)
    if rests and decision.outcome is Outcome.HELD:
        # It is wanted, or nothing could wake it up: that is not sleep.
        return False, decision.limited_by or decision.reason, decision.message
    metrics = _metrics_healthy(resource, decision)
    if rests or metrics[1] is Reason.MISSING:
        return metrics
    return True, Reason.READY, "sized, target found, metrics not missing"


def _rests(resource: ResourceSnapshot, decision: Decision) -> bool:
    """Tell whether its own policy put it at 0 replicas, also where the minimum has been raised since."""
    return is_at_zero(resource) or decision.sleeps


def _sizing_ready(resource: ResourceSnapshot) -> Said:
    sized = resource.sized
    if isinstance(sized, Unsized):
        # What waits for its turn is neither sized nor refused.
        return None if sized.reason is Reason.UNKNOWN else False, sized.reason, sized.message
    text = f"{sized.replicas_for_declared_peak} replicas for the declared peak{_careful_start(sized)}"
    if resource.sized_generation is not None:
        return True, Reason.RESIZING, f"{text} in force; what it was sized for has changed, a new size is on its way"
    return True, Reason.SIZED, text


def _careful_start(sized: Sized) -> str:
    if sized.careful_share == 1:
        return ""
    most, share = careful(sized, sized.replicas_for_declared_peak), math.floor(100 * sized.careful_share)
    return (
        f", and up to {most}: one may carry only {share} % of what it was sized for, so a new deployment starts with"
        " replicas for that"
    )


def _sla_feasible(sized: Sized | Unsized) -> Said:
    if isinstance(sized, Sized):
        return True, Reason.FEASIBLE, "one request alone meets every limit"
    if sized.reason.value in _INFEASIBLE:
        return False, sized.reason, sized.message
    return None, Reason.UNKNOWN, "nothing is sized"


def _metrics_healthy(resource: ResourceSnapshot, decision: Decision) -> Said:
    """Judge the metrics; without replicas, which have no pods to measure, what is to tell of the next request."""
    metrics = resource.metrics
    if _rests(resource, decision):
        awaited = can_come_back(resource)
        return awaited, Reason.SCALED_TO_ZERO if awaited else Reason.NO_WAKE_UP_SIGNAL, what_wakes_it_up(resource)
    lacking = (f"{each.reason}: {each.text}" for each in metrics.shortcomings)
    return metrics.may_lower, metrics.health, "; ".join((metrics.detail, *lacking))


def _sla_met(resource: ResourceSnapshot) -> Said:
    """Only TTFT is measured live: it can prove that the SLA is missed, but met only where it is the only limit."""
    ttft, sized = resource.metrics.ttft, resource.sized
    if isinstance(sized, Unsized):
        return None, Reason.UNKNOWN, "nothing is sized"
    limit, blind = sized.sla.time_to_first_token, _not_measured(sized.sla)
    if limit is None:
        return None, Reason.UNKNOWN, blind or "no limit is declared"
    blind = f"; {blind}" if blind else ""
    if ttft is None and (unobserved := resource.metrics.lacks(Reason.TTFT_NOT_OBSERVED)):
        return None, unobserved.reason, unobserved.text + blind
    if ttft is None:
        why = Reason.SCALED_TO_ZERO if is_at_zero(resource) else resource.metrics.health
        return None, Reason.UNKNOWN, f"TTFT is not known ({why}){blind}"
    end = ttft.high_milliseconds
    if end is not None and not math.isfinite(end):
        end = None
    high = "unbounded" if end is None else f"{end:.0f}"
    text = f"TTFT {limit.percentile} in ({ttft.low_milliseconds:.0f}, {high}] ms, limit {limit.milliseconds:.0f} ms"
    if ttft.low_milliseconds > limit.milliseconds:
        return False, Reason.SLA_MISSED, text + blind
    if end is None or end > limit.milliseconds:
        return None, Reason.LOW_RESOLUTION, f"{text}: the bucket straddles the limit{blind}"
    return (None, Reason.UNKNOWN, text + blind) if blind else (True, Reason.SLA_MET, text)


def _not_measured(sla: Sla) -> str:
    """The declared limits that no runtime's histograms tell live, in words; empty: there are none."""
    limits = {"interTokenLatency": sla.inter_token_latency, "endToEnd": sla.end_to_end}
    names = [name for name, limit in limits.items() if limit is not None]
    return f"not measured live: {', '.join(names)}" if names else ""


def _capacity_available(resource: ResourceSnapshot, decision: Decision) -> Said:
    target, name, waiting = resource.target, resource.pool or resource.guest_of, resource.unrendered
    if waiting is not None and waiting.reason in POOL_LIMITS:
        return False, waiting.reason, waiting.message
    if isinstance(target, TargetMissing) and target.reason in POOL_LIMITS:
        return None if target.reason in _UNKNOWN_BUDGET else False, target.reason, target.message
    if decision.limited_by is not None and decision.limited_by in POOL_LIMITS:
        if decision.limited_by in _UNKNOWN_BUDGET:
            return None, decision.limited_by, f"pool {name}: how many GPUs it has is not known"
        gpus = decision.unmet_replicas * decision.gpus_per_replica
        more = f"; {decision.shortage}" if decision.shortage else ""
        return False, decision.limited_by, f"pool {name}: {gpus} GPUs are missing{more}"
    if isinstance(target, Target) and (found := hindrance(target)) and found[0] in NO_PLACE:
        return False, *found
    return True, Reason.AVAILABLE, "no GPU is missing"


def _scaling_active(resource: ResourceSnapshot, decision: Decision, unscaled: FailedWrite | None) -> Said:
    if resource.conflict:
        return False, Reason.CONFLICT, resource.conflict
    if isinstance(resource.target, TargetMissing) and resource.target.reason is Reason.INVALID_SPEC:
        # NB: of a spec that cannot be read the mode is not known either.
        return False, Reason.INVALID_SPEC, resource.target.message
    if resource.policy.mode is ScalingMode.PAUSED:
        return False, Reason.PAUSED, "spec.scaling.mode is Paused"
    if resource.policy.mode is ScalingMode.ADVISORY:
        return False, Reason.ADVISORY, "decisions are reported and not written"
    if isinstance(resource.target, TargetMissing):
        return False, resource.target.reason, resource.target.message
    if isinstance(resource.sized, Unsized):
        return False, resource.sized.reason, resource.sized.message
    if decision.reason is Reason.TARGET_AT_ZERO:
        return False, Reason.TARGET_AT_ZERO, "the target was scaled to 0 from outside; scale it up to resume"
    if unscaled is not None:
        change = f"{decision.from_replicas} -> {decision.to_replicas} replicas"
        return False, unscaled.reason, f"{change} not written, tried again ever later: {unscaled.message}"
    if cut := _cut_short(resource.target, resource.sized, is_rendered=resource.claims.is_rendered):
        return True, Reason.GRACE_TOO_SHORT, f"replicas follow the load; {cut}"
    return True, Reason.ACTIVE, "replicas follow the load"


def _cut_short(target: Target, sized: Sized, *, is_rendered: bool) -> str:
    """Tell of answers that a scale-down breaks off, because they take longer than a pod has to end; empty: of none."""
    answer, ending = sized.table.at(sized.table.capacity_requests_per_second).end_to_end, target.ending
    milliseconds = answer.at(Percentile.P99) or answer.mean
    if ending is None or milliseconds is None or milliseconds <= 1000 * ending.answer_seconds:
        return ""
    times, raised, server = [f"terminationGracePeriodSeconds {ending.grace_seconds:g}"], [], ending.server_ends_seconds
    if ending.sleeps_seconds:
        times.append(f"preStop {ending.sleeps_seconds:g}")
    needed = milliseconds / 1000 + ending.after_last_request_seconds
    if ending.drain is not None and server is not None:
        times.append(f"{ending.drain.option} {ending.drain.seconds:g}")
        raised += [f"{ending.drain.option} or the preStop sleep"] if server < needed else []
    raised += ["terminationGracePeriodSeconds"] if ending.grace_seconds < needed else []
    # NB: of a server that firsttoken runs the grace period gives its own limit.
    advice = "spec.runtime.terminationGracePeriodSeconds" if is_rendered else " and ".join(raised)
    return (
        f"an answer takes up to {milliseconds / 1000:.0f} s, and a pod that ends leaves it "
        f"{ending.answer_seconds:.0f} s ({', '.join(times)}): raise {advice}"
    )


def _scaling_limited(resource: ResourceSnapshot, decision: Decision) -> Said:
    if _lacks_a_signal(resource, decision):
        return True, Reason.NO_WAKE_UP_SIGNAL, what_would_allow_zero(resource)
    if decision.limited_by is not None and decision.limited_by in LIMITS:
        # Without metrics a minimum, a window or the declared peak may ask for more than there are.
        asked = "more" if decision.recommended is None else str(decision.recommended)
        text = f"{asked} replicas asked for, {decision.to_replicas} granted"
        return True, decision.limited_by, text
    return False, Reason.WITHIN_LIMITS, "no limit is in force"


def _lacks_a_signal(resource: ResourceSnapshot, decision: Decision) -> bool:
    """Tell whether the last replica would go, if only something could call it back."""
    return (
        isinstance(resource.sized, Sized)
        and decision.recommended == 0
        and decision.to_replicas == 1
        and resource_bounds(resource, resource.sized).lower_by is Reason.NO_WAKE_UP_SIGNAL
    )


def calibration_state(capacity_factor: float, config: EstimatorConfig = DEFAULT) -> Reason:
    """Name what live traffic changed: nothing (`AsSized`), something (`Learned`), all that is believed (`Pegged`)."""
    law = config.tail_capacity
    if not law.least_factor < capacity_factor < law.most_factor:
        return Reason.PEGGED
    # Less than half a percent is not told from nothing, here or in the status.
    return Reason.AS_SIZED if round(100 * capacity_factor) == 100 else Reason.LEARNED


def _calibrated(capacity_factor: float, config: EstimatorConfig) -> Said:
    state = calibration_state(capacity_factor, config)
    if state is Reason.AS_SIZED:
        return False, state, "live traffic shows nothing else than the sizing says"
    percent = f"a replica serves {100 * capacity_factor:.0f} % of what was sized"
    if state is Reason.LEARNED:
        return True, state, percent
    bound = "least" if capacity_factor <= config.tail_capacity.least_factor else "most"
    return False, state, f"{percent}, the {bound} that is believed; benchmark the deployment"
