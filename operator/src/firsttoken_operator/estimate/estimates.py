"""What one tick adds to the estimates of a resource, before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass, replace

from firsttoken_operator.domain import Metrics, ResourceSnapshot, Sized, Target, Tick, Value
from firsttoken_operator.estimate import demand as demands
from firsttoken_operator.estimate import error_budget, irreducible_misses, miss_rate, replica_speed, tail_capacity
from firsttoken_operator.estimate.calibration import (
    Calibration,
    allowed_share,
    budget_consumption,
    capacity_factor,
    irreducible_miss_rate,
    model_factor,
    set_point,
    speed_of,
)
from firsttoken_operator.estimate.config import EstimatorConfig
from firsttoken_operator.estimate.demand import Demand, DemandState, LoadSample, can_wake_up, recent
from firsttoken_operator.estimate.forecast import Forecast
from firsttoken_operator.estimate.memory import Decrease, ResourceMemory
from firsttoken_operator.estimate.settled import is_settled
from firsttoken_operator.estimate.tail_capacity import TailSample
from firsttoken_operator.estimate.target_load import expected, hold_seconds, observed, target_load


@dataclass(frozen=True, slots=True)
class Estimates:
    """Memory after a tick, and what it read on the way: the demand, and the forecast of it; None where there is none.

    With a demand, the newest of the memory's loads is this tick's.
    """

    memory: ResourceMemory
    demand: Demand | None
    forecast: Forecast | None


def estimate(
    resource: ResourceSnapshot,
    target: Target,
    sized: Sized,
    memory: ResourceMemory | None,
    tick: Tick,
    config: EstimatorConfig,
) -> Estimates:
    """Estimates after this tick: changes of size, the run of healthy samples, the demand, what TTFT says."""
    key = sizing_key(sized)
    if memory is None or memory.target_uid != target.uid:
        memory = fresh(target, key, None)
    if memory.sized_key != key:
        # What was learned is not about the new sizing: another SLA, other lengths, another capacity.
        memory = replace(memory, sized_key=key, calibration=Calibration(), demand=DemandState(), miss_rate=None)
    sleeps = target.replicas == 0 and (resource.policy.min_replicas == 0 or memory.sleeps)
    memory = replace(_with_size(memory, target, tick, config), sleeps=sleeps)
    memory = _with_health(memory, resource, target, tick)
    cost = demands.update(memory.demand, resource.metrics, sized.table, tick.interval_seconds, config.demand)
    memory = replace(memory, demand=cost)
    demand = demands.demand(memory.demand, resource.metrics, resource.policy)
    if demand is None:
        return Estimates(memory, None, None)
    if demand.backlog_requests >= 1:
        memory = replace(memory, queued_seconds=tick.clock_seconds)
    if resource.metrics.may_lower:
        memory = replace(memory, forecast=observed(memory.forecast, resource, demand, tick, config.forecast))
        memory = _with_speed(memory, resource.metrics, target, sized, tick, config)
        memory = _with_misses(memory, resource, target, sized, demand, tick, config)
    forecast = expected(memory.forecast, resource, tick, config.forecast)
    sample = LoadSample(tick.clock_seconds, target_load(memory, resource, sized, demand, forecast, tick, config))
    consumed = budget_consumption(memory.calibration, sized.sla, config)
    hold = hold_seconds(resource, config.target_load)
    window = hold * error_budget.window_multiplier(consumed, config.error_budget)
    loads = (*recent(memory.loads, tick.clock_seconds, window), sample)
    return Estimates(replace(memory, loads=loads), demand, forecast)


def sizing_key(sized: Sized) -> str:
    """What the calibration is a correction of: another SLA, benchmark or configuration begins with none."""
    capacity_rps, saturation_rps = sized.table.capacity_requests_per_second, sized.table.saturation_requests_per_second
    return f"{sized.configuration} {sized.sla} {capacity_rps} {saturation_rps}"


def fresh(target: Target, sized_key: str, memory: ResourceMemory | None) -> ResourceMemory:
    """Memory that allows nothing yet: of an earlier one only what was learned and what was given back is kept."""
    if memory is None or memory.target_uid != target.uid:
        return ResourceMemory(target_uid=target.uid, sized_key=sized_key, replicas=target.replicas)
    return ResourceMemory(
        target_uid=target.uid,
        sized_key=memory.sized_key,
        replicas=target.replicas,
        decreases=memory.decreases,
        demand=memory.demand,
        calibration=memory.calibration,
        forecast=memory.forecast,
        sleeps=memory.sleeps,
    )


def _with_size(memory: ResourceMemory, target: Target, tick: Tick, config: EstimatorConfig) -> ResourceMemory:
    if target.ready != memory.ready:
        seen = None if memory.ready is None else tick.clock_seconds
        memory = replace(memory, ready=target.ready, ready_changed_seconds=seen)
    if target.replicas == memory.replicas:
        return memory
    gone = max(0, memory.replicas - target.replicas) * target.gpus_per_replica
    oldest = tick.clock_seconds - config.memory.decreases_seconds
    kept = tuple(d for d in memory.decreases if d.at_seconds >= oldest)
    decreases = (*kept, Decrease(tick.clock_seconds, gone)) if gone else kept
    # A fleet that wakes up has lost nothing yet: its first pod needs time to say something.
    lost = None if memory.replicas == 0 else memory.lost_since_seconds
    return replace(
        memory,
        replicas=target.replicas,
        changed_seconds=tick.clock_seconds,
        decreases=decreases,
        lost_since_seconds=lost,
    )


def _with_health(memory: ResourceMemory, resource: ResourceSnapshot, target: Target, tick: Tick) -> ResourceMemory:
    lost, since = memory.lost_since_seconds, memory.healthy_since_seconds
    if resource.metrics.may_lower:
        since = tick.clock_seconds if since is None else since
        return replace(memory, lost_since_seconds=None, healthy_since_seconds=since)
    # NB: without a ready pod there is nothing to measure; that is a start, or a sleep from which a gateway can wake it.
    asleep = target.replicas == 0
    if asleep and can_wake_up(resource.metrics):
        lost = None
    elif lost is None and not resource.metrics.may_raise and (target.ready or asleep):
        lost = tick.clock_seconds
    return replace(memory, healthy_since_seconds=None, lost_since_seconds=lost)


def _with_speed(
    memory: ResourceMemory, metrics: Metrics, target: Target, sized: Sized, tick: Tick, config: EstimatorConfig
) -> ResourceMemory:
    """Memory with what the requests inside the replicas say of their speed."""
    if not is_settled(memory, tick, target, metrics):
        return memory
    cost = demands.token_cost(metrics, sized.table)
    if cost is None and memory.demand.measured_cost is not None:
        return memory  # Lengths that went missing: by the declared ones longer requests would look like slow replicas.
    measured = replica_speed.measured(metrics, target, 1.0 if cost is None else cost, sized.table, config.replica_speed)
    if measured is None:
        return memory
    speed = replica_speed.update(memory.calibration.speed, measured, config.replica_speed)
    return replace(memory, calibration=replace(memory.calibration, speed=speed))


def _with_misses(
    memory: ResourceMemory,
    resource: ResourceSnapshot,
    target: Target,
    sized: Sized,
    demand: Demand,
    tick: Tick,
    config: EstimatorConfig,
) -> ResourceMemory:
    """Memory with what this tick's late first tokens say of the miss rate, the budget, and settled replicas."""
    metrics, known = resource.metrics, memory.calibration
    seen, allowed = miss_rate.measured(metrics.ttft, config.miss_rate), allowed_share(sized.sla)
    smoothed = miss_rate.update(memory.miss_rate, seen, tick.interval_seconds, resource.policy.stabilization_seconds)
    judged = seen if allowed is not None else None
    requests = metrics.ttft.requests * tick.interval_seconds / metrics.window_seconds if metrics.ttft else 0.0
    budget = error_budget.update(
        known.budget, judged, known.irreducible.share, requests, tick.interval_seconds, config.error_budget
    )
    violating, known = memory.violating_since_seconds, replace(known, budget=budget)
    memory = replace(memory, miss_rate=smoothed, calibration=known, violating_since_seconds=None)
    if judged is None or allowed is None or not is_settled(memory, tick, target, metrics):
        return memory
    if not _speed_is_known(memory, tick, config):
        return memory
    # What the engines say, not a gateway: both sides of a comparison have to be of the same requests.
    offered = (
        metrics.arrivals.value * demand.request_cost if isinstance(metrics.arrivals, Value) else demand.offered_load
    )
    utilization = offered / (target.ready * sized.table.capacity_of_one_among(target.ready))
    if _is_idle(memory, metrics, utilization, tick, config):
        irreducible = irreducible_misses.update(
            known.irreducible, judged, requests, tick.interval_seconds, config.irreducible_misses
        )
        return replace(memory, calibration=replace(known, irreducible=irreducible))
    return _with_tail(memory, violating, judged, allowed, utilization, metrics, sized, tick, config)


def _with_tail(
    memory: ResourceMemory,
    violating_since_seconds: float | None,
    missed: float,
    allowed: float,
    sized_utilization: float,
    metrics: Metrics,
    sized: Sized,
    tick: Tick,
    config: EstimatorConfig,
) -> ResourceMemory:
    """Memory with what the miss rate of replicas that work says of their capacity."""
    known, since = memory.calibration, None
    gain = error_budget.gain(budget_consumption(known, sized.sla, config), config.error_budget)
    irreducible = irreducible_miss_rate(known, metrics, sized, config)
    held_at = set_point(known, allowed, config) * gain
    signal = tail_capacity.error_signal(
        missed, irreducible, known.irreducible.share, held_at, allowed, config.tail_capacity
    )
    if signal < 0:
        since = tick.clock_seconds if violating_since_seconds is None else violating_since_seconds
    sample = TailSample(
        error_signal=signal,
        budget_gain=gain,
        is_clear=missed - irreducible > config.tail_capacity.clear_violations * allowed,
        utilization=sized_utilization / capacity_factor(known, config),
        violating_windows=0.0 if since is None else (tick.clock_seconds - since) / metrics.window_seconds,
        most_factor=model_factor(sized, config),
        interval_seconds=tick.interval_seconds,
        window_seconds=metrics.window_seconds,
    )
    tail = tail_capacity.update(known.tail, sample, speed_of(known, config), config.tail_capacity)
    return replace(memory, calibration=replace(known, tail=tail), violating_since_seconds=since)


def _speed_is_known(memory: ResourceMemory, tick: Tick, config: EstimatorConfig) -> bool:
    """Whether the replicas' speed was measured, or could not be for long: else its error would count twice."""
    since = memory.healthy_since_seconds
    waited = since is not None and tick.clock_seconds - since >= config.tail_capacity.speed_wait_seconds
    return waited or replica_speed.is_known(memory.calibration.speed, config.replica_speed)


def _is_idle(
    memory: ResourceMemory, metrics: Metrics, sized_utilization: float, tick: Tick, config: EstimatorConfig
) -> bool:
    """Whether no request waits on these replicas: then what is late is irreducible."""
    queued, idle = memory.queued_seconds, config.irreducible_misses
    is_quiet = queued is None or tick.clock_seconds - queued > idle.quiet_windows * metrics.window_seconds
    utilization = sized_utilization / capacity_factor(memory.calibration, config)
    has_room = utilization <= config.tail_capacity.least_utilization
    return sized_utilization <= idle.idle_utilization and has_room and is_quiet
