"""What one tick adds to the memory of a resource, before anything is decided."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from firsttoken_operator.domain import ResourceSnapshot, Sized, Target, Tick
from firsttoken_operator.estimate import replica_speed, tail_capacity
from firsttoken_operator.estimate.demand import (
    Demand,
    can_wake_up,
    demand,
    live_cost,
    live_work_ratio,
    recent,
)
from firsttoken_operator.estimate.forecast import Forecast
from firsttoken_operator.estimate.memory import Calibration, Decrease, DemandSample, ResourceMemory
from firsttoken_operator.estimate.settled import is_settled
from firsttoken_operator.estimate.target_load import forecast, hold_seconds, wanted_load, watched

BRAKE_MEMORY_SECONDS = 3600.0
"""How long decreases are remembered; longer than any pool's brake window."""
WORK_SMOOTHING_WINDOWS = 1.0
"""Time constant of the live token means, in rate windows. Short: lengths may double in minutes, the first answers that
end are the short ones, and the filter of the load sees to the rest of their scatter."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """Memory after a tick, and what it read on the way: the demand, and the forecast of it; None where there is none.

    With a demand, the newest of the memory's demands is this tick's.
    """

    memory: ResourceMemory
    load: Demand | None
    expected: Forecast | None


def remember(
    resource: ResourceSnapshot, target: Target, sized: Sized, memory: ResourceMemory | None, tick: Tick
) -> Remembered:
    """Memory after this tick: changes of size, the run of healthy samples, the demand, the lesson of TTFT."""
    key = sizing_key(sized)
    if memory is None or memory.target_uid != target.uid:
        memory = fresh(target, key, None)
    if memory.sized_key != key:
        # What was learned is not about the new sizing: another SLA, other lengths, another tail_capacity.
        memory = replace(memory, sized_key=key, calibration=Calibration(), live_work_ratio=None, late_share=None)
    memory = _with_health(_with_size(memory, target, tick), resource, target, tick)
    memory = _with_work_ratio(memory, resource, sized, tick)
    load = demand(resource.metrics, resource.policy, memory.work_ratio)
    if load is None:
        return Remembered(memory, None, None)
    if load.backlog_requests >= 1:
        memory = replace(memory, queued_seconds=tick.clock_seconds)
    if resource.metrics.may_lower:
        memory = replace(memory, forecast=watched(memory.forecast, resource, load, tick))
        memory = _with_late_share(memory, resource, tick)
        memory = _with_speed(memory, resource, target, sized, tick)
        memory = tail_capacity.learn(memory, tick, sized, target, resource.metrics, load)
    expected = forecast(memory.forecast, resource, tick)
    sample = DemandSample(tick.clock_seconds, wanted_load(memory, resource, sized, load, expected, tick))
    window = hold_seconds(resource) * tail_capacity.patience(memory.calibration, sized.sla)
    demands = (*recent(memory.demands, tick.clock_seconds, window), sample)
    return Remembered(replace(memory, demands=demands), load, expected)


def sizing_key(sized: Sized) -> str:
    """What the learned capacity is a correction of: another SLA, benchmark or configuration begins with none."""
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
        calibration=memory.calibration,
        forecast=memory.forecast,
        live_work_ratio=memory.live_work_ratio,
    )


def _with_size(memory: ResourceMemory, target: Target, tick: Tick) -> ResourceMemory:
    if target.ready != memory.ready:
        seen = None if memory.ready is None else tick.clock_seconds
        memory = replace(memory, ready=target.ready, ready_changed_seconds=seen)
    if target.replicas == memory.replicas:
        return memory
    gone = max(0, memory.replicas - target.replicas) * target.gpus_per_replica
    kept = tuple(d for d in memory.decreases if d.at_seconds >= tick.clock_seconds - BRAKE_MEMORY_SECONDS)
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


def _with_work_ratio(memory: ResourceMemory, resource: ResourceSnapshot, sized: Sized, tick: Tick) -> ResourceMemory:
    live = live_work_ratio(resource.metrics, sized.table)
    if live is None:
        return memory
    before = live if memory.live_work_ratio is None else memory.live_work_ratio
    return replace(
        memory,
        live_work_ratio=before
        + _gain(tick, WORK_SMOOTHING_WINDOWS * resource.metrics.window_seconds) * (live - before),
    )


def _with_speed(
    memory: ResourceMemory, resource: ResourceSnapshot, target: Target, sized: Sized, tick: Tick
) -> ResourceMemory:
    if not is_settled(memory, tick, target, resource.metrics):
        return memory
    cost = live_cost(resource.metrics, sized.table)
    if cost is None and memory.live_work_ratio is not None:
        return memory  # Lengths that went missing: by the declared ones longer requests would look like slow replicas.
    speed = replica_speed.measured_speed(resource.metrics, target, 1.0 if cost is None else cost, sized.table)
    return memory if speed is None else replace(memory, calibration=replica_speed.with_speed(memory.calibration, speed))


def _with_late_share(memory: ResourceMemory, resource: ResourceSnapshot, tick: Tick) -> ResourceMemory:
    late, before = tail_capacity.late_share(resource.metrics.ttft), memory.late_share
    if before is None:
        return memory if late is None else replace(memory, late_share=late)
    # Of too few requests nothing is known: what was seen before them fades.
    gain = _gain(tick, resource.policy.stabilization_seconds)
    return replace(memory, late_share=before + gain * ((late or 0.0) - before))


def _gain(tick: Tick, time_constant_seconds: float) -> float:
    """Weight of one tick in an exponential average."""
    return 1 - math.exp(-tick.interval_seconds / max(time_constant_seconds, tick.interval_seconds))
