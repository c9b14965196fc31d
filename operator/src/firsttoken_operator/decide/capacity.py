"""TTFT feedback: live latency corrects the capacity of a replica, never the replica count directly.

TTFT = own prefill + queue, and replicas can only remove the queue. So a TTFT above the SLA at a load that the model
calls safe says that the model is too optimistic: the learned capacity shrinks in bounded steps. It only tightens.
"""

from __future__ import annotations

from dataclasses import replace

from firsttoken_operator.decide.demand import HEALTHY, Demand
from firsttoken_operator.decide.memory import ResourceMemory
from firsttoken_operator.domain import Metrics, Target, TtftInterval
from firsttoken_sizing.performance.table import CapacityTable
from firsttoken_sizing.workload import Sla

MINIMUM_FACTOR = 0.5
"""The learned capacity never goes below half of the sized one; there it is `Pegged`."""
TIGHTEN_RATIO = 0.9
"""One lesson takes a tenth: a single outlier cannot double a fleet."""
WINDOWS_TO_LEARN = 3
"""Rate windows in a row, none sharing a request with another, that must agree: one burst is no lesson."""
MINIMUM_UTILIZATION = 0.7
"""Of the learned capacity: below it TTFT does not come from queueing."""
MINIMUM_REQUESTS = 50
"""A percentile of fewer requests is noise."""


def learn(
    memory: ResourceMemory,
    clock_seconds: float,
    table: CapacityTable,
    sla: Sla,
    target: Target,
    metrics: Metrics,
    load: Demand,
) -> ResourceMemory:
    """Memory with the capacity that this tick's TTFT teaches."""
    if not _misses(memory, clock_seconds, table, sla, target, metrics, load):
        return replace(memory, ttft_missed_since_seconds=None)
    since = clock_seconds if memory.ttft_missed_since_seconds is None else memory.ttft_missed_since_seconds
    if clock_seconds - since < (WINDOWS_TO_LEARN - 1) * metrics.window_seconds:
        return replace(memory, ttft_missed_since_seconds=since)
    factor = max(MINIMUM_FACTOR, memory.capacity_factor * TIGHTEN_RATIO)
    return replace(memory, ttft_missed_since_seconds=None, capacity_factor=factor)


def ttft_above_sla(ttft: TtftInterval | None, sla: Sla) -> bool:
    """Whether TTFT is above the SLA for certain: even the lower end of its bucket is."""
    limit = sla.time_to_first_token
    return ttft is not None and limit is not None and ttft.low_milliseconds > limit.milliseconds


def _misses(
    memory: ResourceMemory,
    clock_seconds: float,
    table: CapacityTable,
    sla: Sla,
    target: Target,
    metrics: Metrics,
    load: Demand,
) -> bool:
    ttft = metrics.ttft
    if metrics.health not in HEALTHY or ttft is None or ttft.requests < MINIMUM_REQUESTS:
        return False
    if not ttft_above_sla(ttft, sla):
        return False
    in_transition = target.starting or target.terminating or target.rollout or target.ready < target.replicas
    settled = memory.changed_seconds is None or clock_seconds - memory.changed_seconds > metrics.window_seconds
    if in_transition or not settled:
        return False
    # More load than the learned capacity is a lack of replicas, which demand asks for; it says nothing of the model.
    # At a small part of it there is no queue: what is slow is a prompt's own prefill, which no replica shortens.
    capacity = target.ready * table.capacity_of_one_among(target.ready) * memory.capacity_factor
    enough = table.replicas_for(load.total_per_second, memory.capacity_factor) <= target.ready
    return enough and load.total_per_second >= MINIMUM_UTILIZATION * capacity > 0
