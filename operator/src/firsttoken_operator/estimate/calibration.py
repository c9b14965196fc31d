"""Calibration: what live traffic says of the replicas, one state an estimator, and what follows from them together."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from firsttoken_operator.domain import Metrics, Sized
from firsttoken_operator.estimate import error_budget, irreducible_misses, replica_speed, tail_capacity
from firsttoken_operator.estimate.config import EstimatorConfig
from firsttoken_operator.estimate.error_budget import ErrorBudget
from firsttoken_operator.estimate.irreducible_misses import IrreducibleMisses
from firsttoken_operator.estimate.replica_speed import ReplicaSpeed
from firsttoken_operator.estimate.tail_capacity import TailCapacity
from firsttoken_sizing.profile import STATISTICS
from firsttoken_sizing.workload import Sla


@dataclass(frozen=True, slots=True)
class Calibration:
    """States of the estimators that correct a sizing; another sizing begins with none."""

    speed: ReplicaSpeed = field(default_factory=ReplicaSpeed)
    tail: TailCapacity = field(default_factory=TailCapacity)
    irreducible: IrreducibleMisses = field(default_factory=IrreducibleMisses)
    budget: ErrorBudget = field(default_factory=ErrorBudget)


def speed_of(known: Calibration, config: EstimatorConfig) -> float:
    """Speed of a replica as a multiple of the modeled one."""
    return replica_speed.speed(known.speed, config.replica_speed)


def capacity_factor(known: Calibration, config: EstimatorConfig) -> float:
    """The corrected capacity of a replica as a share of the sized one; 1 is as sized."""
    return tail_capacity.factor(known.tail, speed_of(known, config), config.tail_capacity)


def irreducible_miss_rate(known: Calibration, metrics: Metrics, sized: Sized, config: EstimatorConfig) -> float:
    """Share of first tokens, 0..1, that are late on any number of replicas."""
    speed = speed_of(known, config)
    return irreducible_misses.miss_rate(known.irreducible, speed, metrics, sized, config.irreducible_misses)


def allowed_share(sla: Sla) -> float | None:
    """Share of first tokens that may be late; None where there is no limit on a percentile of TTFT."""
    limit = sla.time_to_first_token
    return None if limit is None or limit.percentile.share is None else 1 - limit.percentile.share


def set_point(known: Calibration, allowed: float, config: EstimatorConfig) -> float:
    """Miss rate to aim at where `allowed` is the share that may be late."""
    return error_budget.set_point(known.irreducible.share, allowed, config.error_budget)


def budget_consumption(known: Calibration, sla: Sla, config: EstimatorConfig) -> float:
    """Error budgets that about the last day consumed: 1 is what is aimed at; 1 where the SLA has none."""
    allowed = allowed_share(sla)
    if allowed is None:
        return 1.0
    return error_budget.consumption(known.budget, set_point(known, allowed, config), config.error_budget)


def model_factor(sized: Sized, config: EstimatorConfig) -> float:
    """Largest factor that the model allows: live ITL and E2E are not observed, so it must predict them inside."""
    sla, table = sized.sla, sized.table
    others = ((sla.inter_token_latency, table.itl), (sla.end_to_end, table.end_to_end))
    most = config.tail_capacity.most_factor
    for limit, columns in others:
        if limit is not None:
            # NB: not known at this percentile reads as outside: the model then allows no more than was sized.
            inside = table.rates[columns[:, STATISTICS.index(limit.percentile.key)] <= limit.milliseconds]
            most = min(most, max(1.0, float(inside.max(initial=0.0)) / table.capacity_requests_per_second))
    return most


def restored(
    *,
    factor: float | None,
    speed: float,
    consumed: float | None,
    requests: float,
    sla: Sla | None,
    config: EstimatorConfig,
) -> Calibration:
    """The calibration of which these values are known: None and 1 where nothing was learned.

    `factor`: of the capacity, the speed included. `consumed`: error budgets, of so many first tokens.
    """
    known = Calibration()
    allowed = None if sla is None else allowed_share(sla)
    if consumed is not None and allowed is not None:
        aimed_at = set_point(known, allowed, config)
        known = Calibration(budget=error_budget.restored(consumed, requests, aimed_at, config.error_budget))
    if factor is None:
        return known
    tail = tail_capacity.restored(factor, speed, config.tail_capacity)
    return replace(known, speed=replica_speed.restored(speed, config.replica_speed), tail=tail)
