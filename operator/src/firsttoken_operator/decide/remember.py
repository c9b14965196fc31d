"""What one tick adds to the memory of a resource, before anything is decided."""

from __future__ import annotations

from dataclasses import replace

from firsttoken_operator.decide import capacity
from firsttoken_operator.decide.demand import HEALTHY, USABLE, demand, recent
from firsttoken_operator.decide.memory import Decrease, DemandSample, ResourceMemory
from firsttoken_operator.domain import ResourceSnapshot, Sized, Target

BRAKE_MEMORY_SECONDS = 3600.0
"""How long decreases are remembered; longer than any pool's brake window."""


def remember(
    resource: ResourceSnapshot, target: Target, sized: Sized, memory: ResourceMemory | None, clock_seconds: float
) -> ResourceMemory:
    """Memory after this tick: changes of size, the run of healthy samples, the demand, the lesson of TTFT."""
    key = sizing_key(sized)
    if memory is None or memory.target_uid != target.uid:
        memory = fresh(target, key, None)
    if memory.sized_key != key:
        memory = replace(memory, sized_key=key, capacity_factor=1.0, ttft_missed_since_seconds=None)
    if target.replicas != memory.replicas:
        gone = max(0, memory.replicas - target.replicas) * target.gpus_per_replica
        kept = tuple(d for d in memory.decreases if d.at_seconds >= clock_seconds - BRAKE_MEMORY_SECONDS)
        decreases = (*kept, Decrease(clock_seconds, gone)) if gone else kept
        memory = replace(memory, replicas=target.replicas, changed_seconds=clock_seconds, decreases=decreases)
    health = resource.metrics.health
    lost = memory.lost_since_seconds
    if health in HEALTHY:
        memory = replace(
            memory,
            lost_since_seconds=None,
            healthy_since_seconds=clock_seconds
            if memory.healthy_since_seconds is None
            else memory.healthy_since_seconds,
        )
    else:
        # NB: without a ready pod there is nothing to measure; that is a start, not a loss of metrics.
        if lost is None and health not in USABLE and target.ready:
            lost = clock_seconds
        memory = replace(memory, healthy_since_seconds=None, lost_since_seconds=lost)
    load = demand(resource.metrics, resource.policy)
    if load is None:
        return memory
    sample = DemandSample(clock_seconds, load.total_per_second)
    kept_demands = recent(memory.demands, clock_seconds, resource.policy.stabilization_seconds)
    memory = replace(memory, demands=(*kept_demands, sample))
    return capacity.learn(memory, clock_seconds, sized.table, sized.sla, target, resource.metrics, load)


def sizing_key(sized: Sized) -> str:
    """What the learned capacity is a correction of: another SLA, benchmark or configuration begins with none."""
    capacity_rps, saturation_rps = sized.table.capacity_requests_per_second, sized.table.saturation_requests_per_second
    return f"{sized.configuration} {sized.sla} {capacity_rps} {saturation_rps}"


def fresh(target: Target, sized_key: str, memory: ResourceMemory | None) -> ResourceMemory:
    """Memory that allows nothing yet. What only makes us more careful is kept: GPUs given back, capacity learned."""
    if memory is None or memory.target_uid != target.uid:
        return ResourceMemory(target_uid=target.uid, sized_key=sized_key, replicas=target.replicas)
    return ResourceMemory(
        target_uid=target.uid,
        sized_key=memory.sized_key,
        replicas=target.replicas,
        decreases=memory.decreases,
        capacity_factor=memory.capacity_factor,
    )
