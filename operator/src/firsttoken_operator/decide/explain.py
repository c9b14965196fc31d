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
    Tick,
    Value,
)
from firsttoken_operator.estimate import (
    EstimatorConfig,
    ResourceMemory,
    budget_consumption,
    capacity_factor,
    raising_arrivals,
    speed_of,
)
from firsttoken_sizing.performance.table import Operating


def explain(p: Proposed, tick: Tick, config: EstimatorConfig) -> Decision:
    """The decision of a proposal after arbitration, or of a resource that stays as it is."""
    return _scaled(p) if isinstance(p, Proposal) else _unscaled(p, tick, config)


def _unscaled(p: Unscalable, tick: Tick, config: EstimatorConfig) -> Decision:
    resource, metrics, target = p.resource, p.resource.metrics, p.resource.target
    known, lost = p.memory.calibration, p.memory.lost_since_seconds
    standby = target.standby if isinstance(target, Target) else 0
    return Decision(
        uid=resource.uid,
        namespace=resource.namespace,
        name=resource.name,
        outcome=Outcome.HELD,
        from_replicas=p.replicas,
        to_replicas=p.replicas,
        reason=p.reason,
        message=why_it_stays(p),
        gpus_per_replica=target.gpus_per_replica if isinstance(target, Target) else 0,
        capacity_factor=capacity_factor(known, config),
        metrics_health=metrics.health,
        input_tokens=_value(metrics.input_tokens),
        output_tokens=_value(metrics.output_tokens),
        replica_speed=speed_of(known, config),
        late_budgets_spent=_consumed(resource, p.memory, config),
        capacity_samples=round(known.budget.requests),
        metrics_lost_seconds=None if lost is None else tick.clock_seconds - lost,
        sleeps=p.memory.sleeps,
        from_standby=standby,
        to_standby=standby,
    )


def _scaled(p: Proposal) -> Decision:
    case, forecast = p.case, p.case.forecast
    decision = replace(
        _unscaled(Unscalable(p.resource, p.memory, p.reason), case.tick, case.config),
        outcome=p.outcome,
        to_replicas=p.to_replicas,
        recommended=p.recommended,
        message=message(p),
        limited_by=p.limited_by,
        limit=case.bounds.upper,
        unmet_replicas=p.unmet_replicas,
        shortage=p.shortage,
        to_standby=p.standby,
        arrival_requests_per_second=None if case.demand is None else case.demand.arrivals_per_second,
        prediction=_prediction(p),
        forecast_requests_per_second=forecast.peak_per_second / case.memory.demand.request_cost if forecast else None,
        forecast_method=forecast.method.value if forecast else "",
        raising_requests_per_second=_raising(p),
    )
    return replace(decision, announcement=announcement(decision, case.sized)) if decision.changes else decision


def _consumed(resource: ResourceSnapshot, memory: ResourceMemory, config: EstimatorConfig) -> float | None:
    sized = resource.sized
    # NB: a day without a request has consumed nothing; to decide, it counts as one on target.
    if not isinstance(sized, Sized) or sized.sla.time_to_first_token is None or memory.calibration.budget.requests < 1:
        return None
    return budget_consumption(memory.calibration, sized.sla, config)


def _value(measurement: Measurement) -> float | None:
    return measurement.value if isinstance(measurement, Value) else None


def _raising(p: Proposal) -> float | None:
    case, demand = p.case, p.case.demand
    is_held_back = p.to_replicas >= case.bounds.upper or (p.recommended or 0) > p.to_replicas
    if demand is None or is_held_back:
        return None
    return raising_arrivals(case, demand, case.forecast, p.to_replicas) if p.to_replicas else 0.0


def _prediction(p: Proposal) -> Prediction | None:
    demand, table, n = p.case.demand, p.case.sized.table, p.to_replicas
    if demand is None or n == 0:
        return None
    rate, factor = demand.total_per_second, p.case.capacity_factor

    def at(replicas: int) -> Operating | None:
        return table.at(rate / (replicas * factor), replicas) if replicas > 0 else None

    return Prediction(n_minus_1=at(n - 1), n=at(n), n_plus_1=at(n + 1))
