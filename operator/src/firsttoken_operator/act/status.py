"""The status document: what a platform engineer asks of the object, written on change only. Pure.

A write comes back as a watch event, so noise is kept out (docs/design/control.md, "Act"). Exact values are metrics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from firsttoken_operator.act.calibration_status import is_news as is_calibration_news
from firsttoken_operator.act.calibration_status import shown as shown_calibration
from firsttoken_operator.act.conditions import conditions, instant, timestamp
from firsttoken_operator.act.figures import steady
from firsttoken_operator.act.scale import ScaleResult, Write
from firsttoken_operator.act.scorecard import Scorecard
from firsttoken_operator.act.scorecard_status import shown as shown_scorecard
from firsttoken_operator.act.traffic_status import shown as shown_traffic
from firsttoken_operator.api.base import ApiModel
from firsttoken_operator.api.quantities import decimal_string
from firsttoken_operator.api.status import (
    CalibrationStatus,
    CapacityStatus,
    Configuration,
    DecisionRecord,
    InferenceDeploymentStatus,
    MetricsProblem,
    MetricsStatus,
    PredictedLatency,
    PredictionAt,
    PredictionStatus,
    SizingStatus,
    TimingStatus,
    TrafficFigures,
)
from firsttoken_operator.decide import charged_gpus
from firsttoken_operator.domain import (
    ConditionType,
    Decision,
    Metrics,
    Reason,
    ResourceSnapshot,
    ScalingMode,
    Sized,
    Target,
    Unsized,
)
from firsttoken_sizing.performance.table import Operating
from firsttoken_sizing.profile import ConfigurationKey, Latency
from firsttoken_sizing.request import Sizing
from firsttoken_sizing.workload import Limit, Sla, Workload

KEPT_DECISIONS = 10
LOST_TIME_RESOLUTION = timedelta(minutes=1)
"""An outage that seems to have begun so much earlier or later is the same."""
_LONGEST_MESSAGE = 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of sizing about one resource: `sized` for the decision, the rest for its status."""

    sized: Sized | Unsized
    shown: SizingStatus | None = None
    """Sizing as the status shows it, without what is recommended; None: there is no size."""
    declared: Workload | None = None
    cost_per_hour: float | None = None
    """Cost of the fleet for the declared peak; None: no prices are known."""
    recommended: ConfigurationKey | None = None
    """Configuration that would be chosen today, where that is better than the pinned one."""
    compared: bool = False
    """True once that is known; until then what is shown stays."""
    generation: int | None = None
    """Generation of the spec that this is about."""
    is_outdated: bool = False
    """True while a later question waits for its answer."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Knowledge of one tick about one resource."""

    resource: ResourceSnapshot
    decision: Decision
    result: ScaleResult
    answer: Answer
    now: datetime
    time_to_ready_seconds: tuple[float, float] | None = None
    """Median and 90th percentile of this target's own pods; None: not known yet."""
    scorecard: Scorecard | None = None
    """Counts so far, this tick included; None: what is shown stays."""


def status_of(previous: InferenceDeploymentStatus, seen: Observed) -> InferenceDeploymentStatus:
    """The whole new status. Equal to `previous` where nothing is worth a write.

    What is learned moves with every tick. It is as it was told until it is news or something else is written.
    """
    told = previous.calibration
    if told is not None and _is_behind(previous, seen.resource):
        # A new process knows nothing yet: what was learned before it is not forgotten.
        return _status(previous, seen, told)
    if told is not None and not is_calibration_news(told, seen.decision):
        made = _status(previous, seen, told)
        if made == previous:
            return previous
    return _status(previous, seen, None)


def _status(
    previous: InferenceDeploymentStatus, seen: Observed, told: CalibrationStatus | None
) -> InferenceDeploymentStatus:
    """The status with what was `told` of the calibration, or (None) with what it is now."""
    resource, decision = seen.resource, seen.decision
    target = resource.target if isinstance(resource.target, Target) else None
    traffic = shown_traffic(previous.traffic, decision, seen.answer.declared, resource.metrics.window_seconds)
    decided = is_change(previous, seen)
    written = seen.result.replicas if seen.result.write is Write.DONE else None
    kept = frozenset({ConditionType.CALIBRATED}) if told else frozenset()
    return InferenceDeploymentStatus.remade(
        previous,
        observed_generation=_observed_generation(previous, resource),
        replicas=written if written is not None else target.replicas if target else None,
        ready_replicas=target.ready if target else None,
        desired_replicas=decision.to_replicas if target else None,
        replica_limit=decision.limit,
        last_decision_reason=decision.reason.value,
        sizing=_sizing(previous, seen),
        traffic=traffic,
        metrics=_metrics(previous, resource.metrics),
        prediction=_prediction(previous, seen, traffic.live),
        capacity=CapacityStatus.remade(
            previous.capacity,
            pool=resource.pool,
            by_default=resource.in_default_pool or None,
            charged_gpus=charged_gpus(target) if target else None,
            unmet_replicas=decision.unmet_replicas,
            unmet_gpus=decision.unmet_replicas * decision.gpus_per_replica,
        ),
        timing=_timing(previous, seen, scaled=decided and written is not None),
        calibration=told or shown_calibration(previous.calibration, decision),
        scorecard=shown_scorecard(previous.scorecard, seen.scorecard, seen.now, resource.uid),
        decisions=_decisions(previous, seen) if decided else previous.decisions,
        conditions=conditions(previous.conditions, resource, decision, seen.result.failed, seen.now, kept),
    )


def document(status: ApiModel) -> dict[str, object]:
    """A status as JSON, unknown fields absent."""
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


def is_change(previous: InferenceDeploymentStatus, seen: Observed) -> bool:
    """Tell whether this decision belongs in the list: replicas were written, or would have been, differently."""
    if not seen.decision.changes:
        return False
    if seen.resource.policy.mode is ScalingMode.ACTIVE:
        return seen.result.write is Write.DONE
    return previous.desired_replicas != seen.decision.to_replicas


def says_the_same(one: InferenceDeploymentStatus, other: InferenceDeploymentStatus) -> bool:
    """Tell whether two statuses differ in figures alone: what is decided, and what is wrong, is the same in both."""
    return _gist(one) == _gist(other)


def _gist(status: InferenceDeploymentStatus) -> tuple[object, ...]:
    told = tuple((condition.type, condition.status, condition.reason) for condition in status.conditions)
    return told, status.observed_generation, status.replicas, status.desired_replicas, status.sizing


def is_unsized_yet(resource: ResourceSnapshot) -> bool:
    """Tell whether its turn has not come yet after a start."""
    return isinstance(resource.sized, Unsized) and resource.sized.reason is Reason.UNKNOWN


def _is_behind(previous: InferenceDeploymentStatus, resource: ResourceSnapshot) -> bool:
    """Tell whether what is known of its size after a start is older than what was told: that stays for so long."""
    # NB: a process may end between its status and the ConfigMap in which the next one finds the size.
    told, known = previous.observed_generation, resource.sized_generation
    return is_unsized_yet(resource) or (told is not None and known is not None and known < told)


def _observed_generation(previous: InferenceDeploymentStatus, resource: ResourceSnapshot) -> int | None:
    """The newest generation of which everything is answered, its sizing included."""
    if _is_behind(previous, resource):
        return previous.observed_generation
    return resource.generation if resource.sized_generation is None else resource.sized_generation


def _decisions(previous: InferenceDeploymentStatus, seen: Observed) -> tuple[DecisionRecord, ...]:
    decision = seen.decision
    record = DecisionRecord(
        time=timestamp(seen.now),
        from_replicas=decision.from_replicas,
        to_replicas=decision.to_replicas,
        reason=decision.reason.value,
        limited_by=decision.limited_by.value if decision.limited_by else None,
        message=f"{decision.announcement}; {timestamp(seen.now)}"[:_LONGEST_MESSAGE],
    )
    return (record, *previous.decisions)[:KEPT_DECISIONS]


def _sizing(previous: InferenceDeploymentStatus, seen: Observed) -> SizingStatus | None:
    if _is_behind(previous, seen.resource):
        # What was known stays, for a second restart to read.
        return previous.sizing
    shown, before = seen.answer.shown, previous.sizing or SizingStatus()
    recommended = configuration(seen.answer.recommended) if seen.answer.compared else before.recommended
    if shown is None:
        # The pinned configuration of a running fleet outlives a sizing that fails.
        pinned = before.configuration
        return SizingStatus(configuration=pinned, recommended=recommended) if pinned else None
    return SizingStatus.remade(previous.sizing, **{**shown.__dict__, "recommended": recommended})


def sizing_status(sizing: Sizing) -> SizingStatus | None:
    """A sizing as the status shows it; None: it is no size."""
    if sizing.configuration is None or not sizing.feasible:
        return None
    return SizingStatus(
        configuration=configuration(sizing.configuration),
        replicas_for_declared_peak=sizing.replicas,
        replicas_low=sizing.replicas_low,
        replicas_high=sizing.replicas_high,
        replicas_for_declared_average=sizing.replicas_for_average,
        gpus_per_replica=sizing.configuration.gpus_per_replica,
        gpus=sizing.gpus,
        servers=sizing.servers,
        requests_per_second_per_replica=decimal_string(sizing.requests_per_second_per_replica),
        utilization_cap_percent=round(sizing.utilization_cap_percent),
        binding_constraint=sizing.binding_constraint,
        basis=sizing.basis,
        error_band_percent=math.ceil(sizing.error_band_percent),
    )


@lru_cache(maxsize=1024)
def configuration(key: ConfigurationKey | None) -> Configuration | None:
    """A configuration as the status shows it."""
    return None if key is None else Configuration.model_validate(key, from_attributes=True)


def _metrics(previous: InferenceDeploymentStatus, metrics: Metrics) -> MetricsStatus | None:
    """The family that was found last stays while nothing is known."""
    if not metrics.family:
        return previous.metrics
    problems = (MetricsProblem(reason=each.reason.value, message=each.text) for each in metrics.shortcomings)
    return MetricsStatus.remade(previous.metrics, family=metrics.family, problems=tuple(problems))


def _prediction(
    previous: InferenceDeploymentStatus, seen: Observed, live: TrafficFigures | None
) -> PredictionStatus | None:
    decision, sized, predicted = seen.decision, seen.resource.sized, seen.decision.prediction
    if predicted is None or not isinstance(sized, Sized):
        return None
    shown = previous.prediction
    unmoved = live is not None and previous.traffic is not None and live == previous.traffic.live
    if shown is not None and _replicas_of(shown) == decision.to_replicas and unmoved:
        return shown
    n, sla = decision.to_replicas, sized.sla
    return PredictionStatus(
        n_minus_1=_at(n - 1, predicted.n_minus_1, sla),
        n=_at(n, predicted.n, sla),
        n_plus_1=_at(n + 1, predicted.n_plus_1, sla),
    )


def _replicas_of(shown: PredictionStatus) -> int | None:
    """Size that was predicted for; a point that the model cannot tell of is absent."""
    near = ((shown.n, 0), (shown.n_plus_1, -1), (shown.n_minus_1, 1))
    return next((at.replicas + more for at, more in near if at is not None and at.replicas is not None), None)


def _at(replicas: int, point: Operating | None, sla: Sla) -> PredictionAt | None:
    if point is None:
        return None
    return PredictionAt(
        replicas=replicas,
        time_to_first_token=_latency(point.ttft, sla.time_to_first_token),
        inter_token_latency=_latency(point.itl, sla.inter_token_latency),
        end_to_end=_latency(point.end_to_end, sla.end_to_end),
        kv_cache_percent=round(point.kv_percent),
        saturated=point.saturated,
    )


def _latency(latency: Latency, limit: Limit | None) -> PredictedLatency | None:
    milliseconds = latency.at(limit.percentile) if limit else None
    if limit is None or milliseconds is None:
        return None
    return PredictedLatency(milliseconds=round(milliseconds), percentile=limit.percentile)


def _timing(previous: InferenceDeploymentStatus, seen: Observed, *, scaled: bool) -> TimingStatus:
    before = previous.timing or TimingStatus()
    p50, p90 = seen.time_to_ready_seconds or (None, None)
    start = None if p90 is None else seen.resource.time_to_ready_seconds
    return TimingStatus.remade(
        previous.timing,
        time_to_ready_p50_seconds=steady(before.time_to_ready_p50_seconds, p50),
        time_to_ready_p90_seconds=steady(before.time_to_ready_p90_seconds, p90),
        next_start_seconds=steady(before.next_start_seconds, start),
        last_scale_time=timestamp(seen.now) if scaled else before.last_scale_time,
        metrics_lost_time=_lost_time(before.metrics_lost_time, seen),
    )


def _lost_time(before: str | None, seen: Observed) -> str | None:
    lost = seen.decision.metrics_lost_seconds
    if lost is None:
        # Before its first sizing a process remembers no outage: what was known stays, for a second restart to read.
        return before if is_unsized_yet(seen.resource) else None
    since = seen.now - timedelta(seconds=lost)
    shown = instant(before)
    return before if shown and abs(shown - since) <= LOST_TIME_RESOLUTION else timestamp(since)
