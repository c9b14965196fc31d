"""Turns a granted proposal into a decision that explains itself: predictions at N-1, N, N+1 and one sentence."""

from __future__ import annotations

from firsttoken_operator.decide.propose import Proposal
from firsttoken_operator.domain import (
    Decision,
    Measurement,
    Outcome,
    Prediction,
    Reason,
    Sized,
    Target,
    TargetMissing,
    Unsized,
    Value,
)
from firsttoken_operator.estimate import spent_budgets
from firsttoken_sizing.performance.table import Operating

WORTH_SAYING = 0.05
"""A difference of less than this share is not mentioned."""


def explain(p: Proposal) -> Decision:
    """The decision of a proposal after arbitration."""
    resource, target = p.resource, p.resource.target
    return Decision(
        uid=resource.uid,
        namespace=resource.namespace,
        name=resource.name,
        outcome=p.outcome,
        from_replicas=p.from_replicas,
        to_replicas=p.to_replicas,
        recommended=p.recommended,
        reason=p.reason,
        message=_message(p),
        limited_by=p.limited_by,
        limit=None if p.bounds is None else p.bounds.upper,
        unmet_replicas=p.unmet_replicas,
        gpus_per_replica=target.gpus_per_replica if isinstance(target, Target) else 0,
        arrival_requests_per_second=None if p.load is None else p.load.arrivals_per_second,
        capacity_factor=p.memory.capacity_factor,
        prediction=_prediction(p),
        metrics_health=resource.metrics.health,
        metrics_detail=resource.metrics.detail,
        forecast_requests_per_second=p.expected.peak_per_second / p.memory.work_ratio if p.expected else None,
        forecast_method=p.expected.method.value if p.expected else "",
        input_tokens=_value(resource.metrics.input_tokens),
        output_tokens=_value(resource.metrics.output_tokens),
        replica_speed=p.memory.calibration.speed,
        late_budgets_spent=_spent(p),
        capacity_samples=round(p.memory.calibration.judged_requests),
    )


def _spent(p: Proposal) -> float | None:
    sized = p.resource.sized
    if not isinstance(sized, Sized) or sized.sla.time_to_first_token is None:
        return None
    return spent_budgets(p.memory.calibration, sized.sla)


def _value(measurement: Measurement) -> float | None:
    return measurement.value if isinstance(measurement, Value) else None


def _prediction(p: Proposal) -> Prediction | None:
    sized = p.resource.sized
    if p.load is None or not isinstance(sized, Sized) or p.to_replicas == 0:
        return None
    rate, factor = p.load.total_per_second, p.memory.capacity_factor

    def at(replicas: int) -> Operating | None:
        return sized.table.at(rate / (replicas * factor), replicas) if replicas > 0 else None

    return Prediction(n_minus_1=at(p.to_replicas - 1), n=at(p.to_replicas), n_plus_1=at(p.to_replicas + 1))


def _message(p: Proposal) -> str:
    resource = p.resource
    if isinstance(resource.target, TargetMissing):
        return resource.target.message
    if isinstance(resource.sized, Unsized):
        return resource.sized.message
    if p.reason is Reason.CONFLICT:
        return resource.conflict
    if p.reason is Reason.PAUSED:
        return f"paused by spec.scaling.mode: {p.from_replicas} replicas stay"
    return "; ".join(part for part in (_need(p), _deed(p), _limit(p)) if part)


def _need(p: Proposal) -> str:
    if p.load is None:
        return f"no usable metrics ({p.resource.metrics.health}: {p.resource.metrics.detail})"
    assert isinstance(p.resource.sized, Sized), "a load is only read for a sized resource"
    needed = max(1, p.recommended or 0)
    capacity = p.resource.sized.table.capacity_of_one_among(needed) * p.memory.capacity_factor
    backlog = f" and {p.load.backlog_requests:.0f} waiting" if p.load.backlog_requests >= 1 else ""
    ratio = p.load.work_ratio
    weight = f", each counted as {ratio:.2f} declared ones" if abs(ratio - 1) >= WORTH_SAYING else ""
    expected = p.expected.peak_per_second / ratio if p.expected else 0.0
    doubt = p.expected.deviation_per_second / ratio if p.expected else 0.0
    soon = (
        f", {expected:.1f} ± {doubt:.1f} expected" if expected > (1 + WORTH_SAYING) * p.load.arrivals_per_second else ""
    )
    return (
        f"{p.load.arrivals_per_second:.1f} requests/s arrive{backlog}{weight}{soon}: "
        f"{p.recommended} replicas at {capacity:.2f} requests/s each"
    )


def _deed(p: Proposal) -> str:
    if p.outcome is Outcome.HELD:
        return f"{p.from_replicas} replicas held ({p.reason})"
    if p.to_replicas == p.from_replicas:
        return f"{p.from_replicas} replicas stay ({p.reason})"
    return f"{p.from_replicas} -> {p.to_replicas} replicas ({p.reason})"


def _limit(p: Proposal) -> str:
    if p.limited_by is None or p.limited_by is p.reason:
        return ""
    unmet = f", {p.unmet_replicas} replicas unmet" if p.unmet_replicas else ""
    return f"limited by {p.limited_by}{unmet}"
