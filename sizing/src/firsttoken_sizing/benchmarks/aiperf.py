"""Reader of AIPerf's `profile_export_aiperf.json`: one run a file, times in the unit that stands beside them.

The run's settings are the phase `profiling` of `input_config.phases` (0.13.0 was read); releases of 2025 have
`input_config.loadgen` in its place. GPU, precision and parallelism are not in the file. The CSV that lies beside it
lacks the concurrency as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from firsttoken_sizing.benchmarks import perf_metrics
from firsttoken_sizing.benchmarks.document import Document, mapping
from firsttoken_sizing.benchmarks.loads import NONE_SUCCEEDED, capped, neither
from firsttoken_sizing.benchmarks.runs import Declared, Refused, Run
from firsttoken_sizing.profile import Load

_REMEDY = "measure with --concurrency alone, or with --request-rate and --arrival-pattern poisson"
_PROFILING = "profiling"
_PROMPT_LENGTH = "input_sequence_length"
_PROMPTS_AS_ASKED_FOR = "AIPerf counted no prompt in what it sent; their length is the one that was asked for (--isl)"
"""It makes prompts of that length, and counts those of payloads that it knows: a template's may be under any name."""


class _Offered(NamedTuple):
    """The load of a run: a concurrency in a closed loop, else a rate and the most requests it let be in flight."""

    load: Load
    value: float
    cap: float | None = None


def recognizes(document: Document) -> bool:
    """Recognize a document in this format."""
    settings = _settings(document)
    return isinstance(settings.get("loadgen"), dict) or isinstance(settings.get("phases"), list)


def read(document: Document) -> list[Run | Refused]:
    """The run of the file, or why it is refused. Raises `UnreadableBenchmark`."""
    offered = _interrupted(document) or _offered(document)
    if isinstance(offered, str):
        return [Refused(document.file, offered)]
    metrics, failed = document.fields, _failed(document)
    if failed and "request_latency" not in metrics:
        return [Refused(document.file, NONE_SUCCEEDED)]
    if offered.cap is not None and _most_in_flight(document) >= offered.cap:
        return [Refused(document.file, capped(offered.value, offered.cap, _REMEDY))]
    requested_input, requested_output = _requested_lengths(document)
    remarks: tuple[str, ...] = ()
    if _PROMPT_LENGTH not in metrics and requested_input is not None:
        metrics, remarks = {**metrics, _PROMPT_LENGTH: {"avg": requested_input}}, (_PROMPTS_AS_ASKED_FOR,)
    return [
        replace(
            perf_metrics.run(document, metrics, "AIPerf", offered.load, offered.value),
            requested_input_tokens=requested_input,
            requested_output_tokens=requested_output,
            declared=Declared(model=_model(document)),
            succeeded=perf_metrics.mean(document, metrics, "request_count"),
            failed=failed,
            remarks=remarks,
        )
    ]


def _interrupted(document: Document) -> str | None:
    """Reason to refuse a run that did not run to its end. Older releases do not write `is_complete`."""
    if document.fields.get("was_cancelled") is True:
        return "was cancelled before its end; measure again"
    if document.fields.get("is_complete") is False:
        return "is incomplete; measure again"
    return None


def _offered(document: Document) -> _Offered | str:
    """The load of the run, or why it is refused."""
    settings = _settings(document)
    phases = settings.get("phases")
    if not isinstance(phases, list):
        return _offered_in_2025(document, mapping(settings.get("loadgen")))
    found = [phase for phase in map(mapping, phases) if (phase.get("kind") or phase.get("name")) == _PROFILING]
    if not found:
        raise document.unreadable("has no profiling phase")
    if len(found) > 1:
        return "mixes several profiling phases; measure one load at a time"
    phase, where = found[0], "input_config.phases: "
    if phase.get("cancellation"):
        return "cancelled requests on purpose; measure without request cancellation"
    kind = phase.get("type")
    if kind == "concurrency":
        return _Offered(Load.CLOSED_LOOP, document.number(phase.get("concurrency"), f"{where}concurrency"))
    if kind != "poisson" or phase.get("rate_ramp") or phase.get("rate_series"):
        return neither("by a changing rate" if kind == "poisson" else f"by a schedule of type {kind!r}", _REMEDY)
    return _Offered(
        Load.POISSON,
        document.number(phase.get("rate"), f"{where}rate"),
        document.optional_number(phase.get("concurrency"), f"{where}concurrency"),
    )


def _offered_in_2025(document: Document, loadgen: Mapping[str, Any]) -> _Offered | str:
    """The load as `loadgen` tells it. Settings at their default may be absent, and Poisson is that of a rate."""
    where = "input_config.loadgen: "
    rate = document.optional_number(loadgen.get("request_rate"), f"{where}request_rate")
    concurrency = document.optional_number(loadgen.get("concurrency"), f"{where}concurrency")
    if rate is None:
        return _Offered(Load.CLOSED_LOOP, document.number(concurrency, f"{where}concurrency"))
    pattern = loadgen.get("arrival_pattern") or loadgen.get("request_rate_mode") or "poisson"
    if pattern != "poisson":
        return neither(f"by a schedule of type {pattern!r}", _REMEDY)
    return _Offered(Load.POISSON, rate, concurrency)


def _most_in_flight(document: Document) -> float:
    """The most requests in flight; a release that does not say it may have been held back at any time."""
    found = mapping(document.fields.get("effective_concurrency")).get("max")
    return float("inf") if found is None else document.count(found, "effective_concurrency.max")


def _failed(document: Document) -> float:
    errors = document.fields.get("error_summary")
    if not isinstance(errors, list):
        return 0.0
    return sum(document.count(mapping(error).get("count"), "error_summary: count") for error in errors)


def _requested_lengths(document: Document) -> tuple[float | None, float | None]:
    settings = _settings(document)
    datasets = settings.get("datasets")
    if isinstance(datasets, list) and len(datasets) == 1:
        prompts = mapping(mapping(datasets[0]).get("prompts"))
        lengths = (prompts.get("isl"), prompts.get("osl"))
    else:
        prompt = mapping(mapping(settings.get("input")).get("prompt"))
        lengths = (prompt.get("input_tokens"), prompt.get("output_tokens"))
    input_tokens, output_tokens = (perf_metrics.requested(document, mapping(length).get("mean")) for length in lengths)
    return input_tokens, output_tokens


def _model(document: Document) -> str | None:
    settings = _settings(document)
    items = mapping(settings.get("models")).get("items")
    if isinstance(items, list):
        return perf_metrics.only_model(document, [mapping(item).get("name") for item in items])
    return perf_metrics.only_model(document, mapping(settings.get("endpoint")).get("model_names"))


def _settings(document: Document) -> Mapping[str, Any]:
    return mapping(document.fields.get("input_config"))
