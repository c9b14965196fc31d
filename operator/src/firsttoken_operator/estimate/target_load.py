"""The load that the replicas must carry: what arrives now or is expected before a new pod would be ready, and backlog.

One rate window of 60 s holds few requests, so its rate scatters; sized for the highest of many such windows, a fleet
would be sized for chance. The filtered level is what the load is. See `forecast` for when more than that is expected.
"""

from __future__ import annotations

import math

from firsttoken_operator.domain import ResourceSnapshot, Sized, Target, Tick, lead_seconds
from firsttoken_operator.estimate.demand import Demand
from firsttoken_operator.estimate.forecast import Forecast, ForecastState, Observation, observe, predict
from firsttoken_operator.estimate.memory import IDLE_FILL, ResourceMemory
from firsttoken_operator.estimate.settled import is_settled
from firsttoken_operator.estimate.tail_capacity import late_on_any_fleet, late_share, reserve

LONGEST_HELD_START_SECONDS = 1800.0
"""A size is kept at least for as long as a start takes, up to this."""
MISSES_THAT_BOOST, MOST_MISS_BOOST = 0.1, 0.5
"""Share of late first tokens from which on a fleet is made larger by that share, and by how much at most."""
LEAST_DEADBAND, DEADBAND_DEVIATIONS = 0.05, 0.75
"""Of a scale-down: a share of the load, or so many deviations of what chance makes of one window's rate."""
CERTAIN_DEVIATIONS = 2.0
"""A window whose rate is by so much above the level, in deviations of chance, proves that the level has risen."""


def watched(state: ForecastState | None, resource: ResourceSnapshot, load: Demand, tick: Tick) -> ForecastState:
    """The forecast's state after this tick's arrivals."""
    seen = Observation(
        epoch_seconds=tick.epoch_seconds,
        rate_per_second=load.arriving_load,
        window_seconds=resource.metrics.window_seconds,
        horizon_seconds=lead_seconds(resource.time_to_ready_seconds, tick.interval_seconds),
    )
    return observe(state, seen)


def forecast(state: ForecastState | None, resource: ResourceSnapshot, tick: Tick) -> Forecast | None:
    """What is expected before a pod that is created now would be ready; None where nothing was observed yet."""
    if state is None:
        return None
    expected = predict(state, tick.epoch_seconds, lead_seconds(resource.time_to_ready_seconds, tick.interval_seconds))
    return expected if expected.samples else None


def wanted_load(
    memory: ResourceMemory,
    resource: ResourceSnapshot,
    sized: Sized,
    load: Demand,
    expected: Forecast | None,
    tick: Tick,
) -> float:
    """Load to size for, in requests of the declared lengths a second.

    Partial data is a lower bound of what arrives: it is taken as it is, and never filtered.
    """
    backlog = load.backlog_per_second * load.work_ratio
    if not load.total_per_second:
        return 0.0  # Proven idle: what the filter still remembers is over.
    if not resource.metrics.may_lower:
        return load.arriving_load + backlog
    arriving = load.arriving_load
    if expected is not None:
        chance = _chance(expected, arriving, resource)
        arriving = max(expected.peak_per_second, arriving - CERTAIN_DEVIATIONS * chance)
    wanted = (arriving + backlog) / reserve(memory.calibration, sized.sla)
    return max(wanted, _missed_load(memory, resource, sized, load, tick))


def with_deadband(load: float, expected: Forecast | None, resource: ResourceSnapshot) -> float:
    """The load that a smaller fleet must still carry: chance must not bring the replica back."""
    least = load * (1 + LEAST_DEADBAND)
    if expected is None or not load:
        return least
    return max(least, load + DEADBAND_DEVIATIONS * _chance(expected, load, resource))


def _chance(expected: Forecast, rate_per_second: float, resource: ResourceSnapshot) -> float:
    """One standard deviation of the rate of a window by chance alone, as dispersed as it was measured."""
    return math.sqrt(expected.dispersion * rate_per_second / resource.metrics.window_seconds)


def _missed_load(memory: ResourceMemory, resource: ResourceSnapshot, sized: Sized, load: Demand, tick: Tick) -> float:
    """What a fleet carries that is larger by the share of late requests, where that is large: 0 where it is not.

    A burst of seconds hardly shows in the rate of a minute, but in what it makes late. Rounded down, so that a fleet of
    two or three is not half as large again for one bad minute. It is asked of a fleet that has been as it is for a
    window, and that works: what is late on idle replicas is not helped by more, and neither is what is late whatever
    their number, so the boosts stay within what this load could need.
    """
    target, late = resource.target, late_share(resource.metrics.ttft)
    if not isinstance(target, Target) or late is None:
        return 0.0
    missed = min(late - late_on_any_fleet(memory.calibration, resource.metrics, sized), MOST_MISS_BOOST)
    if missed <= MISSES_THAT_BOOST or not is_settled(memory, tick, target, resource.metrics):
        return 0.0
    ready, table = target.ready, sized.table
    if load.total_per_second <= IDLE_FILL * ready * table.capacity_of_one_among(ready):
        return 0.0
    replicas = ready + int(ready * missed)
    boosted = replicas * table.capacity_of_one_among(replicas) * memory.capacity_factor
    return min(boosted, load.total_per_second / IDLE_FILL) if replicas > ready else 0.0


def hold_seconds(resource: ResourceSnapshot) -> float:
    """How long every signal has to allow a smaller size: what takes long to start is not given back at once."""
    start = min(resource.time_to_ready_seconds, LONGEST_HELD_START_SECONDS)
    return max(resource.policy.stabilization_seconds, start)
