"""Curves as the JSON document that `firsttoken curve -o json` prints. The names are a public contract (api.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from firsttoken_sizing.profile import STATISTICS, Latency, Point
from firsttoken_sizing.report.curves import Curve, Study
from firsttoken_sizing.report.document import configuration_json, rounded
from firsttoken_sizing.workload import Arrivals


def curves_json(studies: Iterable[Study]) -> list[dict[str, Any]]:
    """One object a curve. Rates are requests a second of one replica, latencies milliseconds; not known is null.

    A point has the concurrency of a closed loop or the rate of Poisson arrivals. Percentiles are those that were
    measured or modeled: what a benchmark did not report is null and never filled in.
    """
    return [_curve(curve) for study in studies for curve in study.curves]


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        **configuration_json(curve.key),
        "inputTokens": curve.lengths.input_tokens,
        "outputTokens": curve.lengths.output_tokens,
        "arrivals": curve.arrivals.value,
        "basis": curve.basis.value,
        "errorBandPercent": rounded(curve.band.percent),
        "points": [
            {**_point(curve, point), "insideSLA": kept} for point, kept in zip(curve.points, curve.kept, strict=True)
        ],
        "knee": _point(curve, curve.knee) if curve.knee else None,
        "chosen": _point(curve, curve.chosen) if curve.chosen else None,
    }


def _point(curve: Curve, point: Point) -> dict[str, Any]:
    closed = curve.arrivals is Arrivals.CLOSED_LOOP
    load = point.concurrency if closed else point.offered_requests_per_second
    return {
        "concurrency" if closed else "requestsPerSecond": rounded(load),
        "requestsPerSecondPerReplica": rounded(point.requests_per_second),
        "ttftMilliseconds": rounded(point.ttft.mean),
        "itlMilliseconds": rounded(point.itl.mean),
        "endToEndMilliseconds": rounded(point.end_to_end.mean),
        "ttftPercentilesMilliseconds": _percentiles(point.ttft),
        "itlPercentilesMilliseconds": _percentiles(point.itl),
        "endToEndPercentilesMilliseconds": _percentiles(point.end_to_end),
    }


def _percentiles(latency: Latency) -> dict[str, float | None]:
    return {s: rounded(getattr(latency, s)) for s in STATISTICS[1:]}
