"""Reader of GenAI-Perf's `profile_export_genai_perf.json`: one run a file, times in milliseconds.

Releases up to 0.0.8 write the settings flat, later ones (0.0.16 was read) nested; the metrics are the same. Neither
says which GPU, precision or parallelism was measured, and `backend` is the client's default, not what the server ran.

NB: units of counts and throughputs are wrong in 0.0.8 (`requests/sec` for lengths), so only those of times are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firsttoken_sizing.benchmarks.document import PER_MILLISECOND, Document
from firsttoken_sizing.benchmarks.runs import Reading, Refused, Run
from firsttoken_sizing.profile import Latency, Load, Point

_STATISTICS = {"mean": "avg", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}


def recognizes_nested(document: Document) -> bool:
    """Whether a document is of a release with nested settings (0.0.16)."""
    return isinstance(_settings(document).get("perf_analyzer"), dict)


def recognizes_flat(document: Document) -> bool:
    """Whether a document is of a release with flat settings (0.0.8)."""
    return "formatted_model_name" in _settings(document)


def read_nested(document: Document) -> Reading:
    """The run of a file with nested settings. Raises `UnreadableBenchmark`."""
    settings = _settings(document)
    stimulus = _mapping(_mapping(settings.get("perf_analyzer")).get("stimulus"))
    lengths = _mapping(settings.get("input"))
    return _reading(
        document,
        models=settings.get("model_names"),
        concurrency=stimulus.get("concurrency"),
        requested_input=_mapping(lengths.get("synthetic_tokens")).get("mean"),
        requested_output=_mapping(lengths.get("output_tokens")).get("mean"),
    )


def read_flat(document: Document) -> Reading:
    """The run of a file with flat settings. Raises `UnreadableBenchmark`."""
    settings = _settings(document)
    return _reading(
        document,
        models=settings.get("model"),
        concurrency=settings.get("concurrency"),
        requested_input=settings.get("synthetic_input_tokens_mean"),
        requested_output=settings.get("output_tokens_mean"),
    )


def _reading(
    document: Document, *, models: object, concurrency: object, requested_input: object, requested_output: object
) -> Reading:
    if concurrency is None:
        # GenAI-Perf spaces the requests of a rate evenly, and a Profile knows closed loops and Poisson arrivals only.
        reason = "sent at a constant rate, which is neither a closed loop nor Poisson; measure with --concurrency"
        return Reading(refused=(Refused(document.file, reason),))
    return Reading(
        runs=(
            Run(
                where=document.file,
                source=f"GenAI-Perf {document.name}",
                load=Load.CLOSED_LOOP,
                input_tokens=_mean(document, "input_sequence_length"),
                output_tokens=_mean(document, "output_sequence_length"),
                requested_input_tokens=_requested(requested_input),
                requested_output_tokens=_requested(requested_output),
                point=Point(
                    requests_per_second=_mean(document, "request_throughput"),
                    concurrency=document.number(concurrency, "input_config: concurrency"),
                    ttft=_latency(document, "time_to_first_token"),
                    itl=_latency(document, "inter_token_latency"),
                    end_to_end=_latency(document, "request_latency", required=True),
                ),
                model=_only_model(document, models),
            ),
        )
    )


def _latency(document: Document, metric: str, *, required: bool = False) -> Latency:
    """Statistics of one latency; empty where a run without --streaming does not have it."""
    found = _mapping(_data(document).get(metric))
    if not found:
        if required:
            raise document.unreadable(f"has no {metric}")
        return Latency()
    unit = found.get("unit")
    if not isinstance(unit, str) or unit not in PER_MILLISECOND:
        raise document.unreadable(f"{metric} is in {unit!r}, not in one of {', '.join(PER_MILLISECOND)}")
    values: dict[str, float | None] = {}
    for statistic, name in _STATISTICS.items():
        value = document.optional_number(found.get(name), f"{metric}.{name}")
        values[statistic] = None if value is None else value / PER_MILLISECOND[unit]
    if values["mean"] is None:
        raise document.unreadable(f"{metric}.avg is missing")
    return Latency(**values)


def _mean(document: Document, metric: str) -> float:
    return document.number(_mapping(_data(document).get(metric)).get("avg"), f"{metric}.avg")


def _requested(tokens: object) -> float | None:
    """The length that was asked for; GenAI-Perf writes -1 where it left the length to the server."""
    return float(tokens) if isinstance(tokens, (int, float)) and tokens > 0 else None


def _only_model(document: Document, models: object) -> str | None:
    names = [models] if isinstance(models, str) else models
    if not isinstance(names, list) or not names:
        return None
    if len(names) > 1:
        raise document.unreadable(f"mixes the models {', '.join(map(str, names))}; measure one at a time")
    return str(names[0])


def _settings(document: Document) -> Mapping[str, Any]:
    return _mapping(_data(document).get("input_config"))


def _data(document: Document) -> Mapping[str, Any]:
    return document.data or {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
