"""The rules that forbid a scale-down: one function a rule, asked in order; the first that objects wins.

Missing, stale or partial data never lowers replicas, and neither does a process that has not watched for a full window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firsttoken_operator.domain import (
    Idle,
    Metrics,
    Missing,
    Reason,
    ScaleDown,
    ScalingPolicy,
    Sized,
    Target,
    Tick,
    TtftInterval,
    Value,
)
from firsttoken_operator.estimate import HEALTHY, IDLE_FILL, TAIL_REQUESTS, Demand, ResourceMemory, late_on_any_fleet
from firsttoken_sizing.performance.limits import MissingPercentile, judged_milliseconds, meets
from firsttoken_sizing.workload import Limit

MAXIMUM_ERROR_SHARE = 0.01
MAXIMUM_KV_PERCENT = 90.0
LOW_RESOLUTION_SLA_SHARE = 0.9
LOW_RESOLUTION_MEAN_RATIO = 1.2


@dataclass(frozen=True, slots=True)
class DownCase:
    """All that the rules look at: going from the target's present size to `to_replicas`."""

    policy: ScalingPolicy
    sized: Sized
    target: Target
    metrics: Metrics
    memory: ResourceMemory
    load: Demand
    to_replicas: int
    tick: Tick
    above_limit: bool
    hold_seconds: float


def objection(case: DownCase) -> Reason | None:
    """The first rule that forbids the scale-down, or None."""
    for rule in (*PATIENCE, *(() if case.above_limit else SAFETY)):
        reason = rule(case)
        if reason is not None:
            return reason
    return None


def _allowed_by_the_user(case: DownCase) -> Reason | None:
    return Reason.SCALE_DOWN_NEVER if case.policy.scale_down is ScaleDown.NEVER else None


def _data_is_trustworthy(case: DownCase) -> Reason | None:
    return None if case.metrics.health in HEALTHY else case.metrics.health


def _watched_for_a_full_window(case: DownCase) -> Reason | None:
    since = case.memory.healthy_since_seconds
    if since is None or case.tick.clock_seconds - since < case.hold_seconds:
        return Reason.STABILIZING
    return None


def _measured_since_the_last_change(case: DownCase) -> Reason | None:
    changed = case.memory.changed_seconds
    if (
        changed is not None
        and case.tick.clock_seconds - changed < case.metrics.window_seconds + 2 * case.tick.interval_seconds
    ):
        return Reason.STABILIZING
    return None


def _no_rollout(case: DownCase) -> Reason | None:
    return Reason.ROLLOUT if case.target.rollout else None


def _nothing_is_starting(case: DownCase) -> Reason | None:
    # NB: stuck pods do not block: a fleet that cannot start its pods must still be able to shrink.
    return Reason.PODS_STARTING if case.target.starting else None


def _no_errors(case: DownCase) -> Reason | None:
    share = case.metrics.error_share
    if isinstance(share, Idle):
        return None
    return None if isinstance(share, Value) and share.value <= MAXIMUM_ERROR_SHARE else Reason.ERRORS_PRESENT


def _kv_cache_fits(case: DownCase) -> Reason | None:
    kv = case.metrics.kv_percent
    if not isinstance(kv, Value) or case.to_replicas == 0:
        return None  # Not every runtime reports it; the prediction below still bounds it.
    after = kv.value * case.target.replicas / case.to_replicas
    return Reason.KV_PRESSURE if after > MAXIMUM_KV_PERCENT else None


def _observed_ttft_agrees(case: DownCase) -> Reason | None:
    limit, ttft = case.sized.sla.time_to_first_token, case.metrics.ttft
    if limit is None:
        return None
    if ttft is None:
        # Too few requests for a percentile is one thing; enough of them and no histogram is a signal that is missing.
        served = case.metrics.first_tokens
        enough = isinstance(served, Value) and served.value * case.metrics.window_seconds >= TAIL_REQUESTS
        return Reason.PARTIAL if enough else None
    if _too_many_are_late(case, limit, ttft):
        return Reason.TTFT_ABOVE_SLA
    if ttft.late is not None and ttft.late.low == ttft.late.high:
        return None
    if ttft.high_milliseconds is not None and ttft.high_milliseconds <= limit.milliseconds:
        return None
    # The SLA lies inside the bucket (NIM 1.x jumps from 250 to 500 ms). Then the model must say yes with a margin, and
    # the mean, which is exact, must not be worse than the model's: better than predicted is no reason to hold.
    replicas = case.target.replicas
    rate = case.load.total_per_second / (replicas * case.memory.capacity_factor)
    model = case.sized.table.at(rate, replicas).ttft
    predicted = judged_milliseconds(model, limit, MissingPercentile.JUDGED_BY_MEAN)
    trusted = (
        predicted is not None
        and predicted <= LOW_RESOLUTION_SLA_SHARE * limit.milliseconds
        and model.mean is not None
        and ttft.mean_milliseconds <= LOW_RESOLUTION_MEAN_RATIO * model.mean
    )
    return None if trusted else Reason.LOW_RESOLUTION


def _too_many_are_late(case: DownCase, limit: Limit, ttft: TtftInterval) -> bool:
    """Over the stabilization window where late requests are counted: one window of a small fleet says little.

    What is late on idle replicas as well is no reason to keep more of them, nor is what is late while even the smaller
    fleet would be idle. Where late requests are not counted, even the lower end of the bucket has to be above.
    """
    late, inside = case.memory.late_share, limit.percentile.share
    if late is None or inside is None:
        return ttft.low_milliseconds > limit.milliseconds
    capacity = case.to_replicas * case.sized.table.capacity_of_one_among(case.to_replicas)
    if case.load.total_per_second <= IDLE_FILL * capacity:
        return False
    return late - late_on_any_fleet(case.memory.calibration, case.metrics, case.sized) > 1 - inside


def _signals_agree(case: DownCase) -> Reason | None:
    """Engines that are idle while a gateway counts requests: one of them is wrong, and nobody knows which."""
    started = case.metrics.gateway_arrivals
    contradicts = case.metrics.health is Reason.IDLE and isinstance(started, Value) and started.value > 0
    unknown = isinstance(case.metrics.waiting, Missing)
    return Reason.PARTIAL if contradicts or unknown else None


def _nobody_comes(case: DownCase) -> Reason | None:
    """The last replica goes only where it is proven that there is nothing to do."""
    return Reason.STABILIZING if case.to_replicas == 0 and case.metrics.health is not Reason.IDLE else None


def _prediction_meets_the_sla(case: DownCase) -> Reason | None:
    if case.to_replicas == 0:
        return None
    rate = case.load.total_per_second / (case.to_replicas * case.memory.capacity_factor)
    capacity = case.sized.table.capacity_of_one_among(case.to_replicas)
    predicted = case.sized.table.at(rate, case.to_replicas)
    inside = rate <= capacity * (1 + 1e-9) and not predicted.saturated
    met = inside and meets(predicted, case.sized.sla, MissingPercentile.JUDGED_BY_MEAN)
    return None if met else Reason.PREDICTION_ABOVE_SLA


Rule = Callable[[DownCase], Reason | None]

PATIENCE: tuple[Rule, ...] = (
    _data_is_trustworthy,
    _watched_for_a_full_window,
    _measured_since_the_last_change,
    _no_rollout,
    _nothing_is_starting,
    _signals_agree,
    _nobody_comes,
)
"""Always asked."""

SAFETY: tuple[Rule, ...] = (
    _allowed_by_the_user,
    _no_errors,
    _kv_cache_fits,
    _observed_ttft_agrees,
    _prediction_meets_the_sla,
)
"""Asked when the smaller size is our own choice; not when the user lowered a limit below the present size."""
