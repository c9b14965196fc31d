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
from firsttoken_sizing.benchmarks.runs import Run
from firsttoken_sizing.profile import Latency, Load, Point


def run(document: Document, metrics: Mapping[str, Any], tool: str, load: Load, offered: float, place: str = "") -> Run:
    """Make a run of what the metrics say; `offered` is its concurrency or its rate, as `load` says.

    `place` is where the run stands in a file of several. Raises `UnreadableBenchmark`.
    """
    closed, where = load is Load.CLOSED_LOOP, f"{place}: " if place else ""
    return Run(
        where=f"{document.file} {place}" if place else document.file,
        source=f"{tool} {document.name}",
        load=load,
        input_tokens=mean(document, metrics, "input_sequence_length", where),
        output_tokens=mean(document, metrics, "output_sequence_length", where),
        point=Point(
            requests_per_second=mean(document, metrics, "request_throughput", where),
            concurrency=offered if closed else None,
            offered_requests_per_second=None if closed else offered,
            ttft=_latency(document, metrics, "time_to_first_token", where),
            itl=_latency(document, metrics, "inter_token_latency", where),
            end_to_end=_latency(document, metrics, "request_latency", where, required=True),
        ),
        times="the unit that stands beside each metric",
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
    latency = document.latency(found, f"{where}{metric}.", {"mean": "avg"}, PER_MILLISECOND[unit])
    if latency.mean is None:
        raise document.unreadable(f"{where}{metric}.avg is missing")
    return latency
