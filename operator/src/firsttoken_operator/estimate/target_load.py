"""Target load: what arrives now, or is expected before a new pod would be ready, and what drains the backlog.

One rate window of 60 s holds few requests, so its rate scatters; sized for the highest of many such windows, a fleet
would be sized for chance. The filtered level is what the load is. See `forecast` for when more than that is expected.
"""

from __future__ import annotations

import math

from firsttoken_operator.domain import ResourceSnapshot, Sized, Target, Tick, lead_seconds
from firsttoken_operator.estimate import error_budget, miss_rate
from firsttoken_operator.estimate.calibration import budget_consumption, capacity_factor, irreducible_miss_rate
from firsttoken_operator.estimate.config import EstimatorConfig, ForecastConfig, TargetLoadConfig
from firsttoken_operator.estimate.demand import Demand
from firsttoken_operator.estimate.forecast import Forecast, ForecastState, Observation, observe, predict
from firsttoken_operator.estimate.memory import ResourceMemory
from firsttoken_operator.estimate.settled import is_settled


def observed(
    state: ForecastState | None, resource: ResourceSnapshot, demand: Demand, tick: Tick, config: ForecastConfig
) -> ForecastState:
    """The forecast's state after this tick's arrivals."""
    seen = Observation(
        epoch_seconds=tick.epoch_seconds,
        rate_per_second=demand.offered_load,
        window_seconds=resource.metrics.window_seconds,
        horizon_seconds=lead_seconds(resource.time_to_ready_seconds, tick.interval_seconds),
    )
    return observe(state, seen, config)


def expected(
    state: ForecastState | None, resource: ResourceSnapshot, tick: Tick, config: ForecastConfig
) -> Forecast | None:
    """What is expected before a pod that is created now would be ready; None where nothing was observed yet."""
    if state is None:
        return None
    horizon_seconds = lead_seconds(resource.time_to_ready_seconds, tick.interval_seconds)
    forecast = predict(state, tick.epoch_seconds, horizon_seconds, config)
    return forecast if forecast.samples else None


def target_load(
    memory: ResourceMemory,
    resource: ResourceSnapshot,
    sized: Sized,
    demand: Demand,
    forecast: Forecast | None,
    tick: Tick,
    config: EstimatorConfig,
) -> float:
    """Load to size for, in requests of the declared lengths a second.

    Partial data is a lower bound of what arrives: it is taken as it is, and never filtered.
    """
    backlog = demand.backlog_per_second * demand.request_cost
    if not demand.total_per_second:
        return 0.0  # Proven idle: what the filter still remembers is over.
    if not resource.metrics.may_lower:
        return demand.offered_load + backlog
    offered = demand.offered_load
    if forecast is not None:
        chance = _chance(forecast, offered, resource)
        offered = max(forecast.peak_per_second, offered - config.target_load.certain_deviations * chance)
    consumed = budget_consumption(memory.calibration, sized.sla, config)
    needed = (offered + backlog) / error_budget.utilization_limit(consumed, config.error_budget)
    return max(needed, _over_provisioned(memory, resource, sized, demand, tick, config))


def with_deadband(
    load: float, forecast: Forecast | None, resource: ResourceSnapshot, config: TargetLoadConfig
) -> float:
    """The load that a smaller fleet must still carry: chance must not bring the replica back."""
    least = load * (1 + config.least_deadband)
    if forecast is None or not load:
        return least
    return max(least, load + config.deadband_deviations * _chance(forecast, load, resource))


def hold_seconds(resource: ResourceSnapshot, config: TargetLoadConfig) -> float:
    """How long every signal has to allow a smaller size: what takes long to start is not given back at once."""
    start = min(resource.time_to_ready_seconds, config.most_held_start_seconds)
    return max(resource.policy.stabilization_seconds, start)


def _chance(forecast: Forecast, rate_per_second: float, resource: ResourceSnapshot) -> float:
    """One standard deviation of the rate of a window by chance alone, as dispersed as it was measured."""
    return math.sqrt(forecast.dispersion * rate_per_second / resource.metrics.window_seconds)


def _over_provisioned(
    memory: ResourceMemory,
    resource: ResourceSnapshot,
    sized: Sized,
    demand: Demand,
    tick: Tick,
    config: EstimatorConfig,
) -> float:
    """What a fleet carries that is larger by its miss rate, where that is large: 0 where it is not.

    A burst of seconds hardly shows in the rate of a minute, but in what it makes late. Rounded down, so that a fleet of
    two or three is not half as large again for one bad minute. It is asked of a fleet that has been as it is for a
    window, and that works: what is late on idle replicas is not helped by more, and neither is what is irreducible, so
    it stays within what this load could need.
    """
    target, missed = resource.target, miss_rate.measured(resource.metrics.ttft, config.miss_rate)
    if not isinstance(target, Target) or missed is None:
        return 0.0
    irreducible = irreducible_miss_rate(memory.calibration, resource.metrics, sized, config)
    share = min(missed - irreducible, config.target_load.most_over_provisioning)
    if share <= config.target_load.over_provisioning_miss_rate or not is_settled(
        memory, tick, target, resource.metrics
    ):
        return 0.0
    ready, table = target.ready, sized.table
    idle = config.irreducible_misses.idle_utilization
    if demand.total_per_second <= idle * ready * table.capacity_of_one_among(ready):
        return 0.0
    replicas = ready + int(ready * share)
    provided = replicas * table.capacity_of_one_among(replicas) * capacity_factor(memory.calibration, config)
    return min(provided, demand.total_per_second / idle) if replicas > ready else 0.0
