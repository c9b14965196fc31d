"""The one sentence that explains a scaling, wherever it is shown: Event, status and log say the same. Pure."""

from __future__ import annotations

from firsttoken_operator.domain import Decision
from firsttoken_sizing.performance.table import Operating
from firsttoken_sizing.workload import Percentile, Sla


def scaling_sentence(decision: Decision, sla: Sla | None, time: str) -> str:
    """From -> to, reason, arrival rate, predicted TTFT at one replica fewer and at the size chosen, limit, time."""
    limit = "none" if decision.limit is None else f"{decision.limit} replicas"
    parts = (
        f"{decision.from_replicas} -> {decision.to_replicas} replicas ({decision.reason})",
        _arrivals(decision),
        _predictions(decision, sla),
        f"limit {limit}" + (f", limited by {decision.limited_by}" if decision.limited_by else ""),
        time,
    )
    return "; ".join(parts)


def _arrivals(decision: Decision) -> str:
    rate = decision.arrival_requests_per_second
    if rate is None:
        return f"arrival rate unknown ({decision.metrics_health})"
    return f"arrival rate {rate:.1f} requests/s"


def _predictions(decision: Decision, sla: Sla | None) -> str:
    predicted = decision.prediction
    if predicted is None:
        return "no prediction without a rate"
    limit = sla.time_to_first_token if sla else None
    percentile = limit.percentile if limit else Percentile.P95
    at_n = _ttft(predicted.n, percentile)
    at_fewer = _ttft(predicted.n_minus_1, percentile)
    n = decision.to_replicas
    return f"predicted TTFT {percentile}: {at_fewer} at {n - 1} replicas, {at_n} at {n}"


def _ttft(point: Operating | None, percentile: Percentile) -> str:
    milliseconds = point.ttft.at(percentile) if point else None
    if point is None or milliseconds is None:
        return "unknown"
    return f"{'above ' if point.saturated else ''}{milliseconds:.0f} ms"
