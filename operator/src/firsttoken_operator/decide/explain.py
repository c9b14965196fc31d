"""Turns a granted proposal into a decision that explains itself: predictions at N-1, N, N+1 and its sentences."""

from __future__ import annotations

from dataclasses import replace

from firsttoken_operator.decide.arbitrate import Proposed
from firsttoken_operator.decide.case import Unscalable
from firsttoken_operator.decide.propose import Proposal
from firsttoken_operator.decide.sentences import announcement, message, why_it_stays
from firsttoken_operator.domain import (
    Decision,
    Measurement,
    Outcome,
    Prediction,
    ResourceSnapshot,
    Sized,
    Target,
    Value,
)
from firsttoken_operator.estimate import ResourceMemory, spent_budgets
from firsttoken_sizing.performance.table import Operating


def explain(p: Proposed) -> Decision:
    """The decision of a proposal after arbitration, or of a resource that stays as it is."""
    return _scaled(p) if isinstance(p, Proposal) else _unscaled(p)


def _unscaled(p: Unscalable) -> Decision:
    resource, metrics, target = p.resource, p.resource.metrics, p.resource.target
    return Decision(
        uid=resource.uid,
        namespace=resource.namespace,
        name=resource.name,
        outcome=Outcome.HELD,
        from_replicas=p.replicas,
        to_replicas=p.replicas,
        recommended=None,
        reason=p.reason,
        message=why_it_stays(p),
        limited_by=None,
        limit=None,
        unmet_replicas=0,
        gpus_per_replica=target.gpus_per_replica if isinstance(target, Target) else 0,
        arrival_requests_per_second=None,
        capacity_factor=p.memory.capacity_factor,
        prediction=None,
        metrics_health=metrics.health,
        metrics_detail=metrics.detail,
        input_tokens=_value(metrics.input_tokens),
        output_tokens=_value(metrics.output_tokens),
        replica_speed=p.memory.calibration.speed,
        late_budgets_spent=_spent(resource, p.memory),
        capacity_samples=round(p.memory.calibration.judged_requests),
    )


def _scaled(p: Proposal) -> Decision:
    case, expected = p.case, p.case.expected
    decision = replace(
        _unscaled(Unscalable(p.resource, p.memory, p.reason)),
        outcome=p.outcome,
        to_replicas=p.to_replicas,
        recommended=p.recommended,
        message=message(p),
        limited_by=p.limited_by,
        limit=case.bounds.upper,
        unmet_replicas=p.unmet_replicas,
        arrival_requests_per_second=None if case.load is None else case.load.arrivals_per_second,
        prediction=_prediction(p),
        forecast_requests_per_second=expected.peak_per_second / case.memory.work_ratio if expected else None,
        forecast_method=expected.method.value if expected else "",
    )
    return replace(decision, announcement=announcement(decision, case.sized)) if decision.changes else decision


def _spent(resource: ResourceSnapshot, memory: ResourceMemory) -> float | None:
    sized = resource.sized
    if not isinstance(sized, Sized) or sized.sla.time_to_first_token is None:
        return None
    return spent_budgets(memory.calibration, sized.sla)


def _value(measurement: Measurement) -> float | None:
    return measurement.value if isinstance(measurement, Value) else None


def _prediction(p: Proposal) -> Prediction | None:
    load, table, n = p.case.load, p.case.sized.table, p.to_replicas
    if load is None or n == 0:
        return None
    rate, factor = load.total_per_second, p.memory.capacity_factor

    def at(replicas: int) -> Operating | None:
        return table.at(rate / (replicas * factor), replicas) if replicas > 0 else None

    return Prediction(n_minus_1=at(n - 1), n=at(n), n_plus_1=at(n + 1))
