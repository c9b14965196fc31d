"""Metrics as GenAI-Perf and AIPerf write them: `{metric: {"unit": ..., "avg": ..., "p50": ..., ...}}`.

Both tools define the inter-token latency of a request as (latency - TTFT) / (output tokens - 1), which is that of a
Profile.

NB: units of counts and throughputs are wrong in GenAI-Perf 0.0.8 (`requests/sec` for lengths), so only those of times
are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firsttoken_sizing.benchmarks.document import PER_MILLISECOND, Document, mapping
from firsttoken_sizing.profile import Latency, Load, Point

TIMES = "the unit that stands beside each metric"
"""`Run.times` of both tools."""
_STATISTICS = {"mean": "avg", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}


def point(document: Document, metrics: Mapping[str, Any], load: Load, offered: float, where: str = "") -> Point:
    """The operating point of one run; `offered` is its concurrency or its rate, as `load` says.

    `where` goes before the name of a metric in messages. Raises `UnreadableBenchmark`.
    """
    closed = load is Load.CLOSED_LOOP
    return Point(
        requests_per_second=mean(document, metrics, "request_throughput", where),
        concurrency=offered if closed else None,
        offered_requests_per_second=None if closed else offered,
        ttft=_latency(document, metrics, "time_to_first_token", where),
        itl=_latency(document, metrics, "inter_token_latency", where),
        end_to_end=_latency(document, metrics, "request_latency", where, required=True),
    )


def mean(document: Document, metrics: Mapping[str, Any], metric: str, where: str = "") -> float:
    """The mean of a count or a rate. Raises `UnreadableBenchmark`."""
    return document.number(mapping(metrics.get(metric)).get("avg"), f"{where}{metric}.avg")


def requested(document: Document, tokens: object) -> float | None:
    """The length that was asked for; GenAI-Perf writes -1 where it left the length to the server."""
    if isinstance(tokens, (int, float)) and tokens <= 0:
        return None
    return document.optional_number(tokens, "input_config: requested length")


def only_model(document: Document, models: object) -> str | None:
    """The one model of a run, or None where the file names none. Raises `UnreadableBenchmark` for several."""
    names = [models] if isinstance(models, str) else models
    if not isinstance(names, list) or not names:
        return None
    if len(names) > 1:
        raise document.unreadable(f"mixes the models {', '.join(map(str, names))}; measure one at a time")
    return str(names[0])


def _latency(
    document: Document, metrics: Mapping[str, Any], metric: str, where: str, *, required: bool = False
) -> Latency:
    """Statistics of one latency; empty where a run without --streaming does not have it."""
    found = mapping(metrics.get(metric))
    if not found:
        if required:
            raise document.unreadable(f"has no {where}{metric}")
        return Latency()
    unit = found.get("unit")
    if not isinstance(unit, str) or unit not in PER_MILLISECOND:
        raise document.unreadable(f"{where}{metric} is in {unit!r}, not in one of {', '.join(PER_MILLISECOND)}")
    latency = document.latency(found, f"{where}{metric}.", _STATISTICS, PER_MILLISECOND[unit])
    if latency.mean is None:
        raise document.unreadable(f"{where}{metric}.avg is missing")
    return latency
