"""The one sentence that explains a scaling, wherever it is shown: Event, status and log say the same. Pure."""

from __future__ import annotations

from firsttoken_operator.domain import Decision, Sized
from firsttoken_sizing.performance.table import Operating
from firsttoken_sizing.workload import Percentile


def scaling_sentence(decision: Decision, sized: Sized | None, time: str) -> str:
    """From -> to, reason, arrival rate, predicted TTFT at one replica fewer and at the size chosen, limit, time.

    One replica fewer also has its load in percent of the capacity: a measured capacity, or another limit than TTFT, may
    rule it out although its TTFT alone would do.
    """
    limit = "none" if decision.limit is None else f"{decision.limit} replicas"
    parts = (
        f"{decision.from_replicas} -> {decision.to_replicas} replicas ({decision.reason})",
        _arrivals(decision),
        _predictions(decision, sized),
        f"limit {limit}" + (f", limited by {decision.limited_by}" if decision.limited_by else ""),
        time,
    )
    return "; ".join(parts)


def _arrivals(decision: Decision) -> str:
    rate = decision.arrival_requests_per_second
    if rate is None:
        return f"arrival rate unknown ({decision.metrics_health})"
    return f"arrival rate {rate:.1f} requests/s"


def _predictions(decision: Decision, sized: Sized | None) -> str:
    predicted, n = decision.prediction, decision.to_replicas
    if n == 0:
        return "nothing to predict without replicas"
    if predicted is None:
        return "no prediction without a rate"
    limit = sized.sla.time_to_first_token if sized else None
    percentile = limit.percentile if limit else Percentile.P95
    at_n = _ttft(predicted.n, percentile)
    if n == 1:
        return f"predicted TTFT {percentile}: {at_n} at 1 replica"
    at_fewer = _ttft(predicted.n_minus_1, percentile)
    load = _load(predicted.n_minus_1, n - 1, sized)
    return f"predicted TTFT {percentile}: {at_fewer} at {n - 1} replicas{load}, {at_n} at {n}"


def _load(point: Operating | None, replicas: int, sized: Sized | None) -> str:
    """The load of one of so many replicas in percent of what it serves inside the SLA, as sized and learned."""
    if point is None or sized is None or sized.table.capacity_requests_per_second <= 0:
        return ""
    percent = 100 * point.requests_per_second / sized.table.capacity_of_one_among(replicas)
    # NB: 100.3 % must not read as if it had fitted.
    shown = max(101, round(percent)) if percent > 100 + 1e-6 else round(percent)
    return f" ({shown} % of capacity)"


def _ttft(point: Operating | None, percentile: Percentile) -> str:
    milliseconds = point.ttft.at(percentile) if point else None
    if point is None or milliseconds is None:
        return "unknown"
    return f"{'above ' if point.saturated else ''}{milliseconds:.0f} ms"
