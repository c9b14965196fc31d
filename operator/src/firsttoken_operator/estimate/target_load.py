"""Target load: what arrives now, or is expected before a new pod would be ready, and what drains the backlog.

One rate window of 60 s holds few requests, so its rate scatters; sized for the highest of many such windows, a fleet
would be sized for chance. The filtered level is what the load is. See `forecast` for when more than that is expected.

Worked, for a fleet of 12 whose replicas are sized for 5 requests/s each, with 0.2 % of first tokens late where nothing
else is said:

| what is seen | target load, requests/s | replicas |
|---|---|---|
| the first hour, at 50 requests/s | 50.0 | 11 |
| a window at 54: rates did not scatter before, so it counts | 54.0 | 11 |
| a window at 65 | 65.0 | 13 |
| an hour at 50 | 50.0 | 11 |
| a fifth is late | 64.8 | 13 |
| a bad hour of it: the largest reserve, and less capacity of each | 71.3 | 21 |
| an hour as before: the reserve stays until the day is forgotten | 58.5 | 13 |
| a quiet night: nothing comes | 0.0 | 13 |
| two hours of it | 0.0 | 2 |
"""

from __future__ import annotations

import math

from firsttoken_operator.estimate import error_budget, miss_rate
from firsttoken_operator.estimate.demand import Demand
from firsttoken_operator.estimate.forecast import Forecast, ForecastState, Observation, observe, predict
from firsttoken_operator.estimate.situation import Situation


def observed(at: Situation, demand: Demand) -> ForecastState:
    """The forecast's state after this tick's arrivals."""
    seen = Observation(at.tick.epoch_seconds, demand.offered_load, at.metrics.window_seconds, at.lead_seconds)
    return observe(at.memory.forecast, seen, at.config.forecast)


def expected(at: Situation) -> Forecast | None:
    """Forecast until a pod that is created now would be ready; None where nothing was observed yet."""
    forecast = predict(at.memory.forecast, at.tick.epoch_seconds, at.lead_seconds, at.config.forecast)
    return forecast if forecast.samples else None


def target_load(at: Situation, demand: Demand, forecast: Forecast | None) -> float:
    """Load to size for, in requests of the declared lengths a second.

    Partial data is a lower bound of what arrives: it is taken as it is, and never filtered.
    """
    backlog = demand.backlog_per_second * demand.request_cost
    if not demand.total_per_second:
        return 0.0  # Proven idle: what the filter still remembers is over.
    offered = demand.offered_load
    if not at.metrics.may_lower:
        return offered + backlog
    if forecast is not None:
        certain = at.config.target_load.certain_deviations * _chance(at, forecast, offered)
        offered = max(forecast.peak_per_second, offered - certain)
    needed = (offered + backlog) / error_budget.utilization_limit(at.consumed_budgets, at.config.error_budget)
    return max(needed, _over_provisioned(at, demand))


def with_deadband(at: Situation, load: float, forecast: Forecast | None) -> float:
    """The load that a smaller fleet must still carry: chance must not bring the replica back."""
    law = at.config.target_load
    least = load * (1 + law.least_deadband)
    if forecast is None or not load:
        return least
    return max(least, load + law.deadband_deviations * _chance(at, forecast, load))


def raising_arrivals(at: Situation, demand: Demand, forecast: Forecast | None, replicas: int) -> float:
    """Arrivals of a window, requests a second, that prove beyond chance that so many replicas are too few.

    The inverse of `target_load`, as far as that is about what arrives: o - k sqrt(d o / window) is what they carry.
    """
    carried = replicas * at.sized.table.capacity_of_one_among(replicas) * at.capacity_factor
    carried *= error_budget.utilization_limit(at.consumed_budgets, at.config.error_budget)
    left = max(carried - demand.backlog_per_second * demand.request_cost, 0.0)
    dispersion = forecast.dispersion if forecast is not None else 0.0
    half = at.config.target_load.certain_deviations * math.sqrt(dispersion / at.metrics.window_seconds) / 2
    return (half + math.sqrt(half**2 + left)) ** 2 / demand.request_cost


def hold_seconds(at: Situation) -> float:
    """Time for which every signal has to allow a smaller size: what takes long to start is not given back at once."""
    start = min(at.resource.next_replica_seconds, at.config.target_load.most_held_start_seconds)
    return max(at.resource.policy.stabilization_seconds, start)


def _chance(at: Situation, forecast: Forecast, rate_per_second: float) -> float:
    """One standard deviation of the rate of a window by chance alone, as dispersed as it was measured."""
    return math.sqrt(forecast.dispersion * rate_per_second / at.metrics.window_seconds)


def _over_provisioned(at: Situation, demand: Demand) -> float:
    """Load of a fleet that is larger by its miss rate, where that is large: 0 where it is not.

    A burst of seconds hardly shows in the rate of a minute, but in what it makes late. Rounded down, so that a fleet of
    two or three is not half as large again for one bad minute. It is asked of a fleet that has been as it is for a
    window, and that works: what is late on idle replicas is not helped by more, and neither is what is irreducible, so
    it stays within what this load could need.
    """
    missed, law = miss_rate.measured(at.metrics.ttft, at.config.miss_rate), at.config.target_load
    if missed is None:
        return 0.0
    share = min(missed - at.irreducible_miss_rate, law.most_over_provisioning)
    if share <= law.over_provisioning_miss_rate or not at.is_settled:
        return 0.0
    ready, table, idle = at.target.ready, at.sized.table, at.config.irreducible_misses.idle_utilization
    if demand.total_per_second <= idle * ready * table.capacity_of_one_among(ready):
        return 0.0
    replicas = ready + int(ready * share)
    provided = replicas * table.capacity_of_one_among(replicas) * at.capacity_factor
    return min(provided, demand.total_per_second / idle) if replicas > ready else 0.0
