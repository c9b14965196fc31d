"""The rules that veto a scale-down: one function a rule, named after what it finds; the first that finds it wins.

Missing, stale or partial data never lowers replicas, and neither does a process that has not watched for a full window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firsttoken_operator.decide.case import Case
from firsttoken_operator.domain import (
    DEPLOYMENT,
    MAXIMUM_ERROR_SHARE,
    Idle,
    Missing,
    Reason,
    ScaleDown,
    TtftInterval,
    Value,
)
from firsttoken_operator.estimate import Demand, hold_seconds
from firsttoken_sizing.performance.limits import MissingPercentile, judged_milliseconds, meets
from firsttoken_sizing.workload import Limit


@dataclass(frozen=True, slots=True)
class Reduction:
    """Going from the target's present size to `to_replicas` under `demand`: all that the rules look at."""

    case: Case
    demand: Demand
    to_replicas: int
    above: Reason | None
    """The limit that is below the present size, if one is, or a higher priority that needs the GPUs."""


def veto(step: Reduction) -> Reason | None:
    """Find the first rule that speaks against the scale-down: its reason, or None."""
    rules = PRECONDITIONS + SAFETY
    if step.above is not None:
        rules = PACE if step.above is Reason.MAX_REPLICAS else PRECONDITIONS
    return next((reason for rule in rules if (reason := rule(step)) is not None), None)


def forbidden_by_user(step: Reduction) -> Reason | None:
    """The user wants nothing given back."""
    return Reason.SCALE_DOWN_NEVER if step.case.resource.policy.scale_down is ScaleDown.NEVER else None


def metrics_untrusted(step: Reduction) -> Reason | None:
    """Data that may not lower replicas."""
    metrics = step.case.resource.metrics
    return None if metrics.may_lower else metrics.health


def scrape_overdue(step: Reduction) -> Reason | None:
    """A rate without its newest scrape reads low; the next one tells within seconds."""
    return Reason.STABILIZING if step.case.resource.metrics.overdue else None


def window_not_watched(step: Reduction) -> Reason | None:
    """Less than a whole window of good samples since the start or the last doubtful one."""
    case = step.case
    since = case.memory.healthy_since_seconds
    if since is None or case.tick.clock_seconds - since < hold_seconds(case):
        return Reason.STABILIZING
    return None


def change_not_measured(step: Reduction) -> Reason | None:
    """The rate window still holds time before the last change of size."""
    changed, tick = step.case.memory.changed_seconds, step.case.tick
    settling_seconds = step.case.config.decision.settling_ticks * tick.interval_seconds
    measured_seconds = step.case.resource.metrics.window_seconds + settling_seconds
    if changed is not None and tick.clock_seconds - changed < measured_seconds:
        return Reason.STABILIZING
    return None


def rollout_running(step: Reduction) -> Reason | None:
    """Pods of two templates, of which one goes, or became ready within the deadline of a rollout."""
    case, since = step.case, step.case.memory.rollout_still_since_seconds
    # NB: one that is paused or stuck must not keep an idle fleet for ever.
    deadline_seconds = case.config.decision.rollout_deadline_seconds
    is_still = since is not None and case.tick.clock_seconds - since >= deadline_seconds
    return Reason.ROLLOUT if case.target.rollout and (case.target.terminating or not is_still) else None


def pods_starting(step: Reduction) -> Reason | None:
    """Pods that are not ready yet, or that are not seen yet: what ends while it is not seen is charged to no pool."""
    target = step.case.target
    # NB: stuck and refused pods do not block: a fleet that cannot start its pods must still be able to shrink. Nor does
    # a rollout that is paused between two pods, for which there is a rule of its own.
    unseen = target.pods < target.replicas and not target.refused and not target.rollout
    return Reason.PODS_STARTING if target.starting or (unseen and _may_be_there(step.case)) else None


def _may_be_there(case: Case) -> bool:
    """Tell whether pods that are not seen may be there and await their watch.

    A Deployment makes all of its pods at once, or says that they are refused. Other kinds say nothing, and may make one
    after the other: what is not seen for longer than a watch is behind was never made, and may never be.
    """
    if case.target.kind == DEPLOYMENT:
        return True
    changed, limit_seconds = case.memory.changed_seconds, case.config.decision.own_write_unseen_seconds
    return not case.target.stuck and changed is not None and case.tick.clock_seconds - changed < limit_seconds


def pods_draining(step: Reduction) -> Reason | None:
    """Pods that end and still answer: the next step waits for the last one to have lost no request."""
    # NB: those whose grace is over (a node that is gone) do not block.
    return Reason.PODS_DRAINING if step.case.target.draining else None


def readiness_lost(step: Reduction) -> Reason | None:
    """Many pods, or nodes of the pool, that were ready and are not any more."""
    # NB: their load is missing where it is counted, and comes back with them.
    return Reason.READINESS_LOST if step.case.resource.is_shaken else None


def errors_present(step: Reduction) -> Reason | None:
    """Too many requests that fail, or no knowing how many do."""
    share = step.case.resource.metrics.error_share
    if isinstance(share, Idle):
        return None
    return None if isinstance(share, Value) and share.value <= MAXIMUM_ERROR_SHARE else Reason.ERRORS_PRESENT


def kv_cache_overflows(step: Reduction) -> Reason | None:
    """Veto where what the KV caches hold would not fit into fewer of them."""
    kv = step.case.resource.metrics.kv_percent
    if not isinstance(kv, Value) or step.to_replicas == 0:
        return None  # Not every runtime reports it; the prediction below still bounds it.
    after = kv.value * step.case.target.replicas / step.to_replicas
    return Reason.KV_PRESSURE if after > step.case.config.decision.most_kv_percent else None


def ttft_doubtful(step: Reduction) -> Reason | None:
    """First tokens that are late, or of which the buckets do not tell."""
    case, metrics = step.case, step.case.resource.metrics
    limit, ttft = case.sized.sla.time_to_first_token, metrics.ttft
    if limit is None:
        return None
    if ttft is None:
        # Too few requests for a percentile is one thing; enough of them and no histogram is a signal that is missing.
        served = metrics.first_tokens
        enough = (
            isinstance(served, Value) and served.value * metrics.window_seconds >= case.config.miss_rate.least_requests
        )
        return Reason.PARTIAL if enough else None
    if _too_many_are_late(step, limit, ttft):
        return Reason.TTFT_ABOVE_SLA
    if ttft.late is not None and ttft.late.low == ttft.late.high:
        return None
    if ttft.high_milliseconds is not None and ttft.high_milliseconds <= limit.milliseconds:
        return None
    # The SLA lies inside the bucket (NIM 1.x jumps from 250 to 500 ms). Then the model must say yes with a margin, and
    # the mean, which is exact, must not be worse than the model's: better than predicted is no reason to hold.
    replicas, law = case.target.replicas, case.config.decision
    rate = step.demand.total_per_second / (replicas * case.capacity_factor)
    model = case.sized.table.at(rate, replicas).ttft
    predicted = judged_milliseconds(model, limit, MissingPercentile.JUDGED_BY_MEAN)
    trusted = (
        predicted is not None
        and predicted <= law.low_resolution_sla_share * limit.milliseconds
        and model.mean is not None
        and ttft.mean_milliseconds <= law.low_resolution_mean_ratio * model.mean
    )
    return None if trusted else Reason.LOW_RESOLUTION


def _too_many_are_late(step: Reduction, limit: Limit, ttft: TtftInterval) -> bool:
    """Judge over the stabilization window where late requests are counted: one window of a small fleet says little.

    What is late on idle replicas as well is no reason to keep more of them, nor is what is late while even the smaller
    fleet would be idle. Where late requests are not counted, even the lower end of the bucket has to be above.
    """
    case, missed, inside = step.case, step.case.memory.miss_rate, limit.percentile.share
    if missed is None or inside is None:
        return ttft.low_milliseconds > limit.milliseconds
    capacity = step.to_replicas * case.sized.table.capacity_of_one_among(step.to_replicas)
    if step.demand.total_per_second <= case.config.irreducible_misses.idle_utilization * capacity:
        return False
    return missed - case.irreducible_miss_rate > 1 - inside


def signals_contradict(step: Reduction) -> Reason | None:
    """Engines that are idle while a gateway counts requests: one of them is wrong, and nothing tells which."""
    metrics = step.case.resource.metrics
    started = metrics.gateway_arrivals
    contradicts = metrics.health is Reason.IDLE and isinstance(started, Value) and started.value > 0
    unknown = isinstance(metrics.waiting, Missing)
    return Reason.PARTIAL if contradicts or unknown else None


def idleness_unproven(step: Reduction) -> Reason | None:
    """The last replica goes only where it is proven that there is nothing to do."""
    is_last = step.to_replicas == 0
    return Reason.STABILIZING if is_last and step.case.resource.metrics.health is not Reason.IDLE else None


def prediction_above_sla(step: Reduction) -> Reason | None:
    """The smaller fleet would break the SLA."""
    case, replicas = step.case, step.to_replicas
    if replicas == 0:
        return None
    rate = step.demand.total_per_second / (replicas * case.capacity_factor)
    predicted = case.sized.table.at(rate, replicas)
    most = case.sized.table.capacity_of_one_among(replicas) * (1 + case.config.decision.rounding)
    inside = rate <= most and not predicted.saturated
    # NB: the table's capacity holds the percentile inside its limit already; without one only the mean can contradict.
    met = inside and meets(predicted, case.sized.sla, MissingPercentile.JUDGED_BY_MEAN)
    return None if met else Reason.PREDICTION_ABOVE_SLA


DownRule = Callable[[Reduction], Reason | None]

PACE: tuple[DownRule, ...] = (change_not_measured, pods_draining)
"""Asked where the user lowered `maxReplicas` below the present size: whatever the metrics say, one step at a time."""

PRECONDITIONS: tuple[DownRule, ...] = (
    metrics_untrusted,
    scrape_overdue,
    window_not_watched,
    change_not_measured,
    rollout_running,
    pods_starting,
    pods_draining,
    readiness_lost,
    signals_contradict,
    idleness_unproven,
)
"""Always asked."""

SAFETY: tuple[DownRule, ...] = (
    forbidden_by_user,
    errors_present,
    kv_cache_overflows,
    ttft_doubtful,
    prediction_above_sla,
)
"""Asked when the smaller size is our own choice; not when a limit fell below the present size, or another needs it."""
