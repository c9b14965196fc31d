"""Restoration of a new process from the status that the last one wrote: only what makes it more careful.

What that is, and why nothing else, is in docs/design/control.md ("After a restart").

Not restored, because the status does not say it: changes that others made in the last hour, decreases before the last
ten changes, and an update of the tail capacity that was under way.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from firsttoken_operator.act.status import configuration
from firsttoken_operator.api.quantities import decimal, decimal_string
from firsttoken_operator.api.status import InferenceDeploymentStatus, SizingStatus, TimingStatus
from firsttoken_operator.decide import SLEEPING, Memory
from firsttoken_operator.domain import (
    ConditionType,
    FleetSnapshot,
    Reason,
    ResourceSnapshot,
    ScalingMode,
    Sized,
    Target,
    Tick,
)
from firsttoken_operator.estimate import (
    DEFAULT,
    UNKNOWN_REQUESTS_PER_SECOND,
    Calibration,
    Decrease,
    EstimatorConfig,
    LoadSample,
    ResourceMemory,
    fresh,
    sizing_key,
)
from firsttoken_operator.estimate import restored as restored_calibration
from firsttoken_operator.observe.projections import epoch_seconds
from firsttoken_operator.observe.store import Store

logger = logging.getLogger(__name__)

SEEN_AFTER_TICKS = 2.0
"""A change counts from when it was seen, and the status says when it was decided: up to so many ticks earlier."""
TIMESTAMP_RESOLUTION_SECONDS = 1.0
"""Times of a status have whole seconds."""


def restored(
    status: InferenceDeploymentStatus,
    resource: ResourceSnapshot,
    tick: Tick,
    target_created_seconds: float | None = None,
    config: EstimatorConfig = DEFAULT,
) -> ResourceMemory | None:
    """Memory of one resource as its status tells it; None where the status says nothing of this target.

    `target_created_seconds` (since the epoch; None: not known): a status older than the target is about another one,
    and one that answers a later generation than there is comes from another object.
    """
    target = resource.target
    if not isinstance(target, Target) or status.observed_generation is None:
        return None
    if status.observed_generation > resource.generation or _is_older_than(status, target_created_seconds):
        return None
    sized = resource.sized if isinstance(resource.sized, Sized) else None
    same_sizing = sized is not None and _is_sized_as(status.sizing, sized)
    advisory = resource.policy.mode is ScalingMode.ADVISORY
    timing = status.timing or TimingStatus()
    scaled, lost = timing.last_scale_time, timing.metrics_lost_time
    return replace(
        fresh(target, sizing_key(sized) if sized and same_sizing else "", None),
        # NB: not the target's: what became of it while no operator watched is a change that this process sees.
        replicas=target.replicas if status.replicas is None else status.replicas,
        changed_seconds=_latest(scaled, tick) if scaled else None,
        asked=_asked(status, tick),
        lost_since_seconds=_earliest(lost, tick) if lost else None,
        decreases=_decreases(status, target, tick, config.memory.decreases_seconds),
        calibration=_calibration(status, sized, config) if same_sizing or sized is None else Calibration(),
        sleeps=target.replicas == 0 and _slept(status),
        advised_replicas=status.desired_replicas if advisory else None,
    )


class Restoring:
    """Restores each resource once: when this process first sees it with a target, from the status of its first sight.

    The status is kept until then, because this process overwrites it with what it does not know yet.
    """

    def __init__(self, config: EstimatorConfig = DEFAULT) -> None:
        self._config = config
        self._first: dict[str, InferenceDeploymentStatus] = {}
        self._done: set[str] = set()

    def seeded(self, memory: Memory, snapshot: FleetSnapshot, store: Store, epoch_seconds: float) -> Memory:
        """The memory with which to decide this snapshot: what is restored now, and the rest as it was."""
        clock_seconds = memory.advance(snapshot.now_seconds, snapshot.tick_seconds, self._config.memory)
        tick = Tick(clock_seconds, snapshot.tick_seconds, epoch_seconds, snapshot.tick_seconds)
        present = {resource.uid for resource in snapshot.resources}
        self._done &= present
        self._first = {uid: status for uid, status in self._first.items() if uid in present}
        seeds = {}
        for resource in snapshot.resources:
            if resource.uid in self._done:
                continue
            try:
                seed = self._seed(resource, memory.resources.get(resource.uid), store, tick)
            except Exception:
                # One status that no test foresaw must not keep all the others from being decided.
                logger.exception("restoring %s/%s from its status failed", resource.namespace, resource.name)
                self._done.add(resource.uid)
                continue
            if seed is not None:
                seeds[resource.uid] = seed
        return memory.seeded(seeds)

    def _seed(
        self, resource: ResourceSnapshot, known: ResourceMemory | None, store: Store, tick: Tick
    ) -> ResourceMemory | None:
        stored = store.resources.get(resource.uid)
        if stored is None:
            return None
        status = self._first.setdefault(resource.uid, stored.status)
        target = resource.target
        if not isinstance(target, Target):
            return None
        if isinstance(resource.sized, Sized):
            self._done.add(resource.uid)
            del self._first[resource.uid]
        view = store.workload(resource.namespace, target.name, target.kind.kind)
        found = restored(status, resource, tick, view.created_seconds if view else None, self._config)
        if found is None or known is None or known.target_uid == "":
            return found
        if known.target_uid != target.uid or known.sized_key:
            return None
        # It was restored before it was sized, and without a size nothing is remembered but the traffic of the past.
        return replace(found, forecast=known.forecast, sleeps=known.sleeps)


def _is_older_than(status: InferenceDeploymentStatus, created_seconds: float | None) -> bool:
    if created_seconds is None:
        return False
    times = [*(c.last_transition_time for c in status.conditions), *(record.time for record in status.decisions)]
    return max((at for at in map(epoch_seconds, times) if at is not None), default=0.0) < created_seconds


def _is_sized_as(status: SizingStatus | None, sized: Sized) -> bool:
    """Tell whether the status was written under this sizing: the same configuration with the same capacity."""
    if status is None or status.configuration is None or status.requests_per_second_per_replica is None:
        return False
    rate = decimal_string(float(decimal(status.requests_per_second_per_replica)))
    same_rate = rate == decimal_string(sized.table.capacity_requests_per_second)
    return same_rate and status.configuration == configuration(sized.configuration)


def _calibration(status: InferenceDeploymentStatus, sized: Sized | None, config: EstimatorConfig) -> Calibration:
    """Restore what was learned as far as it is a reason for care: more than was sized is to be learned again."""
    seen = status.calibration
    if seen is None:
        return Calibration()
    percent, consumed_percent = seen.service_factor_percent, seen.late_budget_spent_percent
    if consumed_percent is not None and (consumed_percent <= 100 or not seen.samples):
        consumed_percent = None
    return restored_calibration(
        factor=None if percent is None or percent >= 100 else percent / 100,
        # NB: the speed is measured again; taken for a part of the tail, slow replicas would count twice.
        speed=(seen.speed_percent or 100) / 100,
        consumed=None if consumed_percent is None else consumed_percent / 100,
        requests=float(seen.samples or 0),
        sla=sized.sla if sized else None,
        config=config,
    )


def _decreases(
    status: InferenceDeploymentStatus, target: Target, tick: Tick, since_seconds: float
) -> tuple[Decrease, ...]:
    """GPUs given back within the last `since_seconds`, oldest first."""
    found = []
    for record in reversed(status.decisions):
        at = _latest(record.time, tick)
        gone = record.from_replicas - record.to_replicas
        if at is not None and gone > 0 and at >= tick.clock_seconds - since_seconds:
            found.append(Decrease(at, gone * target.gpus_per_replica))
    return tuple(found)


def _asked(status: InferenceDeploymentStatus, tick: Tick) -> tuple[LoadSample, ...]:
    """The increases, oldest first: of what size more was asked for, and whether of more than was given."""
    found = []
    for record in reversed(status.decisions):
        at = _earliest(record.time, tick)
        if at is not None and record.to_replicas > record.from_replicas:
            cut_short = record.limited_by == Reason.SCALE_UP_STEP.value
            found.append(LoadSample(at, UNKNOWN_REQUESTS_PER_SECOND if cut_short else 0.0, record.from_replicas))
    return tuple(found)


def _slept(status: InferenceDeploymentStatus) -> bool:
    """Tell whether `minReplicas: 0` had put it to sleep: a minimum that was raised since then wakes it up."""
    return any(c.type == ConditionType.METRICS_HEALTHY.value and c.reason in SLEEPING for c in status.conditions)


def _earliest(timestamp: str, tick: Tick) -> float | None:
    """Convert a timestamp to the logical clock, at the earliest; None: the text is no time.

    Times of the future (the clock was set back since) count as now, here and in `_latest`.
    """
    at = epoch_seconds(timestamp)
    return None if at is None else tick.clock_seconds - max(0.0, tick.epoch_seconds - max(0.0, at))


def _latest(timestamp: str, tick: Tick) -> float | None:
    """Convert a timestamp to the logical clock, at the latest that it was seen."""
    at = _earliest(timestamp, tick)
    late = SEEN_AFTER_TICKS * tick.interval_seconds + TIMESTAMP_RESOLUTION_SECONDS
    return None if at is None else min(tick.clock_seconds, at + late)
