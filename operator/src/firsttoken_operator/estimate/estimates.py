"""Update of the estimates of a resource by one tick, before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass, replace

from firsttoken_operator.domain import ResourceSnapshot, ScalingMode, Sized, Target, Tick, Value
from firsttoken_operator.estimate import demand as demands
from firsttoken_operator.estimate import (
    error_budget,
    irreducible_misses,
    miss_rate,
    replica_speed,
    tail_capacity,
    witnesses,
)
from firsttoken_operator.estimate.calibration import Calibration, allowed_share, model_factor, set_point, speed_of
from firsttoken_operator.estimate.config import EstimatorConfig
from firsttoken_operator.estimate.demand import Demand, DemandState, LoadSample, can_wake_up, recent
from firsttoken_operator.estimate.forecast import Forecast
from firsttoken_operator.estimate.memory import Decrease, ResourceMemory
from firsttoken_operator.estimate.situation import Situation
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
    at = Situation(resource, target, sized, memory, tick, config)
    for update in (_with_size, _with_health, _with_request_cost):
        at = replace(at, memory=update(at))
    demand = demands.demand(at.memory.demand, at.metrics, resource.policy)
    if demand is None:
        return Estimates(at.memory, None, None)
    learned = (_with_arrivals, _with_speed, _with_misses) if at.metrics.may_lower and not at.metrics.overdue else ()
    for learn in (_with_queue, *learned):
        at = replace(at, memory=learn(at, demand))
    forecast = expected(at)
    sample = LoadSample(tick.clock_seconds, target_load(at, demand, forecast), target.replicas)
    window = hold_seconds(at) * error_budget.window_multiplier(at.consumed_budgets, config.error_budget)
    loads = (*recent(at.memory.loads, tick.clock_seconds, window), sample)
    asked = witnesses.update(at.memory.asked, sample, at.metrics.window_seconds)
    return Estimates(replace(at.memory, loads=loads, asked=asked), demand, forecast)


def sizing_key(sized: Sized) -> str:
    """Name what the calibration is a correction of: another SLA, benchmark or configuration begins with none."""
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
        sleeps=memory.sleeps and target.replicas == 0,
    )


def _with_size(at: Situation) -> ResourceMemory:
    memory, target, now = at.memory, at.target, at.tick.clock_seconds
    sleeps = target.replicas == 0 and (at.resource.policy.min_replicas == 0 or memory.sleeps)
    still = memory.rollout_still_since_seconds
    if still is None or target.ready > (memory.ready or 0):
        still = now
    memory = replace(memory, sleeps=sleeps, rollout_still_since_seconds=still if target.rollout else None)
    if target.ready != memory.ready:
        memory = replace(memory, ready=target.ready, ready_changed_seconds=None if memory.ready is None else now)
    if target.replicas == memory.replicas:
        return memory
    # NB: what others take away, or do on our advice, is no step of ours and holds up none.
    others = at.resource.policy.mode is ScalingMode.ADVISORY
    gone = 0 if others else max(0, memory.replicas - target.replicas - target.taken) * target.gpus_per_replica
    kept = tuple(d for d in memory.decreases if d.at_seconds >= now - at.config.memory.decreases_seconds)
    return replace(
        memory,
        replicas=target.replicas,
        changed_seconds=now,
        decreases=(*kept, Decrease(now, gone)) if gone else kept,
        # A fleet that wakes up has lost nothing yet: its first pod needs time to say something.
        lost_since_seconds=None if memory.replicas == 0 else memory.lost_since_seconds,
    )


def _with_health(at: Situation) -> ResourceMemory:
    memory, target, now = at.memory, at.target, at.tick.clock_seconds
    lost, since = memory.lost_since_seconds, memory.healthy_since_seconds
    if at.metrics.may_lower:
        return replace(memory, lost_since_seconds=None, healthy_since_seconds=now if since is None else since)
    # NB: without a ready pod there is nothing to measure; that is a start, or a sleep from which a gateway can wake it.
    asleep = target.replicas == 0
    if asleep and can_wake_up(at.metrics):
        lost = None
    elif lost is None and not at.metrics.may_raise and (target.ready or asleep):
        lost = now
    return replace(memory, healthy_since_seconds=None, lost_since_seconds=lost)


def _with_request_cost(at: Situation) -> ResourceMemory:
    elapsed, config = at.tick.elapsed_seconds, at.config.demand
    return replace(at.memory, demand=demands.update(at.memory.demand, at.metrics, at.sized.table, elapsed, config))


def _with_queue(at: Situation, demand: Demand) -> ResourceMemory:
    return replace(at.memory, queued_seconds=at.tick.clock_seconds) if demand.backlog_requests >= 1 else at.memory


def _with_arrivals(at: Situation, demand: Demand) -> ResourceMemory:
    return replace(at.memory, forecast=observed(at, demand))


def _with_speed(at: Situation, _: Demand) -> ResourceMemory:
    """Memory with what the requests inside the replicas say of their speed."""
    memory, table, config = at.memory, at.sized.table, at.config.replica_speed
    if not at.is_settled:
        return memory
    cost = demands.token_cost(at.metrics, table)
    if cost is None and memory.demand.measured_cost is not None:
        return memory  # Lengths that went missing: by the declared ones longer requests would look like slow replicas.
    measured = replica_speed.measured(at.metrics, at.target, 1.0 if cost is None else cost, table, config)
    if measured is None:
        return memory
    speed = replica_speed.update(memory.calibration.speed, measured, at.tick.elapsed_seconds, config)
    return replace(memory, calibration=replace(memory.calibration, speed=speed))


def _with_misses(at: Situation, demand: Demand) -> ResourceMemory:
    """Memory with what this tick's late first tokens say of the miss rate, the budget, and settled replicas."""
    metrics, known, config, elapsed = at.metrics, at.memory.calibration, at.config, at.tick.elapsed_seconds
    seen, allowed = miss_rate.measured(metrics.ttft, config.miss_rate), allowed_share(at.sized.sla)
    smoothed = miss_rate.update(at.memory.miss_rate, seen, elapsed, at.resource.policy.stabilization_seconds)
    judged = seen if allowed is not None else None
    requests = metrics.ttft.requests * elapsed / metrics.window_seconds if metrics.ttft else 0.0
    budget = error_budget.update(known.budget, judged, known.irreducible.share, requests, elapsed, config.error_budget)
    violating, known = at.memory.violating_since_seconds, replace(known, budget=budget)
    memory = replace(at.memory, miss_rate=smoothed, calibration=known, violating_since_seconds=None)
    at = replace(at, memory=memory)
    if judged is None or allowed is None or not at.is_settled or not _is_speed_known(at):
        return memory
    # What the engines say, not a gateway: both sides of a comparison have to be of the same requests.
    arrivals = metrics.arrivals.value if isinstance(metrics.arrivals, Value) else demand.arrivals_per_second
    ready = at.target.ready
    utilization = arrivals * demand.request_cost / (ready * at.sized.table.capacity_of_one_among(ready))
    if _is_idle(at, utilization):
        law = config.irreducible_misses
        irreducible = irreducible_misses.update(known.irreducible, judged, requests, elapsed, law)
        return replace(memory, calibration=replace(known, irreducible=irreducible))
    return _with_tail(at, violating, judged, allowed, utilization)


def _with_tail(
    at: Situation, violating_since_seconds: float | None, missed: float, allowed: float, sized_utilization: float
) -> ResourceMemory:
    """Memory with what the miss rate of replicas that work says of their capacity."""
    known, config, law = at.memory.calibration, at.config, at.config.tail_capacity
    gain = error_budget.gain(at.consumed_budgets, config.error_budget)
    irreducible, held_at = at.irreducible_miss_rate, set_point(known, allowed, config) * gain
    signal = tail_capacity.error_signal(missed, irreducible, known.irreducible.share, held_at, allowed, law)
    now, since = at.tick.clock_seconds, None
    if signal < 0:
        since = now if violating_since_seconds is None else violating_since_seconds
    sample = TailSample(
        error_signal=signal,
        budget_gain=gain,
        is_clear=missed - irreducible > law.clear_violations * allowed,
        utilization=sized_utilization / at.capacity_factor,
        violating_windows=0.0 if since is None else (now - since) / at.metrics.window_seconds,
        most_factor=model_factor(at.sized, config),
        interval_seconds=at.tick.elapsed_seconds,
        window_seconds=at.metrics.window_seconds,
    )
    tail = tail_capacity.update(known.tail, sample, speed_of(known, config), law)
    return replace(at.memory, calibration=replace(known, tail=tail), violating_since_seconds=since)


def _is_speed_known(at: Situation) -> bool:
    """Tell whether the replicas' speed was measured, or could not be for long: else its error would count twice."""
    since = at.memory.healthy_since_seconds
    waited = since is not None and at.tick.clock_seconds - since >= at.config.tail_capacity.speed_wait_seconds
    return waited or replica_speed.is_known(at.memory.calibration.speed, at.config.replica_speed)


def _is_idle(at: Situation, sized_utilization: float) -> bool:
    """Tell whether no request waits on these replicas: then what is late is irreducible."""
    queued, idle = at.memory.queued_seconds, at.config.irreducible_misses
    is_quiet = queued is None or at.tick.clock_seconds - queued > idle.quiet_windows * at.metrics.window_seconds
    has_room = sized_utilization / at.capacity_factor <= at.config.tail_capacity.least_utilization
    return sized_utilization <= idle.idle_utilization and has_room and is_quiet
