"""The words of a decision, wherever they are shown: log, Events, status and condition `Ready` say the same."""

from __future__ import annotations

import math

from firsttoken_operator.decide.case import Case, Unscalable
from firsttoken_operator.decide.propose import Proposal
from firsttoken_operator.domain import MAXIMUM_ERROR_SHARE, Decision, Outcome, Reason, Sized, TargetMissing, Unsized
from firsttoken_sizing.performance.table import Operating
from firsttoken_sizing.workload import Percentile


def why_it_stays(p: Unscalable) -> str:
    """Say why the replicas of a resource stay as they are."""
    resource = p.resource
    if isinstance(resource.target, TargetMissing):
        return resource.target.message
    if isinstance(resource.sized, Unsized):
        return resource.sized.message
    if p.reason is Reason.CONFLICT:
        return resource.conflict
    return f"paused by spec.scaling.mode: {p.replicas} replicas stay"


def message(p: Proposal) -> str:
    """One sentence: what is asked for, what is done about it, and what limits that."""
    return "; ".join(part for part in (_need(p.case, p.recommended), _change(p), _limit(p)) if part)


def announcement(decision: Decision, sized: Sized) -> str:
    """Announce from -> to, reason, arrival rate, predicted TTFT at one replica fewer and at the size chosen, limit.

    One replica fewer also has its load in percent of the capacity: a measured capacity, or another limit than TTFT, may
    rule it out although its TTFT alone would do.
    """
    limit = "none" if decision.limit is None else f"{decision.limit} replicas"
    parts = (
        f"{decision.from_replicas} -> {decision.to_replicas} replicas ({decision.reason})",
        _arrivals(decision),
        _predictions(decision, sized),
        f"limit {limit}" + (f", limited by {decision.limited_by}" if decision.limited_by else ""),
    )
    return "; ".join(parts)


def metrics_announcement(told: Reason, health: str, detail: str) -> str:
    """Sentence about metrics that are lost or come back, or about requests that begin to fail."""
    if told is Reason.METRICS_RECOVERED:
        return "live metrics may lower replicas again"
    if told is Reason.ERRORS_PRESENT:
        # NB: without the share, which moves: a rate that swings around the bound is one Event whose count grows.
        return f"more than {100 * MAXIMUM_ERROR_SHARE:g} % of the requests fail; replicas are not lowered"
    return f"{health}: {detail}; replicas are not lowered"


def _need(case: Case, recommended: int | None) -> str:
    demand, forecast, least = case.demand, case.forecast, case.config.decision.least_share_said
    if demand is None or recommended is None:
        return f"no usable metrics ({case.resource.metrics.health}: {case.resource.metrics.detail})"
    capacity = case.sized.table.capacity_of_one_among(max(1, recommended)) * case.capacity_factor
    backlog = f" and {demand.backlog_requests:.0f} waiting" if demand.backlog_requests >= 1 else ""
    cost = demand.request_cost
    weight = f", each counted as {cost:.2f} declared ones" if abs(cost - 1) >= least else ""
    soon = ""
    if forecast and forecast.peak_per_second / cost > (1 + least) * demand.arrivals_per_second:
        soon = f", {forecast.peak_per_second / cost:.1f} ± {forecast.deviation_per_second / cost:.1f} expected"
    return (
        f"{demand.arrivals_per_second:.1f} requests/s arrive{backlog}{weight}{soon}: "
        f"{recommended} replicas at {capacity:.2f} requests/s each"
    )


def _change(p: Proposal) -> str:
    if p.outcome is Outcome.HELD:
        return f"{p.from_replicas} replicas held ({p.reason})"
    if p.to_replicas == p.from_replicas:
        return f"{p.from_replicas} replicas stay ({p.reason})"
    return f"{p.from_replicas} -> {p.to_replicas} replicas ({p.reason})"


def _limit(p: Proposal) -> str:
    if p.limited_by is None or p.limited_by is p.reason:
        return ""
    unmet = f", {p.unmet_replicas} replicas unmet" if p.unmet_replicas else ""
    return f"limited by {p.limited_by}{unmet}"


def _arrivals(decision: Decision) -> str:
    rate = decision.arrival_requests_per_second
    if rate is None:
        return f"arrival rate unknown ({decision.metrics_health})"
    return f"arrival rate {rate:.1f} requests/s"


def _predictions(decision: Decision, sized: Sized) -> str:
    predicted, n = decision.prediction, decision.to_replicas
    if n == 0:
        return "nothing to predict without replicas"
    if predicted is None:
        return "no prediction without a rate"
    limit = sized.sla.time_to_first_token
    percentile = limit.percentile if limit else Percentile.P95
    at_n = _ttft(predicted.n, percentile)
    if n == 1:
        return f"predicted TTFT {percentile}: {at_n} at 1 replica"
    at_fewer = _ttft(predicted.n_minus_1, percentile)
    load = _load(predicted.n_minus_1, n - 1, sized)
    return f"predicted TTFT {percentile}: {at_fewer} at {n - 1} replicas{load}, {at_n} at {n}"


def _load(point: Operating | None, replicas: int, sized: Sized) -> str:
    """The load of one of so many replicas in percent of what it serves inside the SLA, as sized and learned."""
    if point is None or sized.table.capacity_requests_per_second <= 0:
        return ""
    percent = 100 * point.requests_per_second / sized.table.capacity_of_one_among(replicas)
    # NB: 100.3 % must not read as if it had fitted.
    shown = max(101, round(percent)) if percent > 100 + 1e-6 else round(percent)
    return f" ({shown} % of capacity)"


def _ttft(point: Operating | None, percentile: Percentile) -> str:
    milliseconds = point.ttft.at(percentile) if point else None
    if point is None or milliseconds is None or not math.isfinite(milliseconds):
        return "unknown"
    return f"{'above ' if point.saturated else ''}{milliseconds:.0f} ms"
