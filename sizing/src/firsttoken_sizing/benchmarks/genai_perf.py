"""Reader of GenAI-Perf's `profile_export_genai_perf.json`: one run a file, times in milliseconds.

Releases up to 0.0.8 write the settings flat, later ones (0.0.16 was read) nested; the metrics are the same
(`perf_metrics`). Neither says which GPU, precision or parallelism was measured, and `backend` is the client's default,
not what the server ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from firsttoken_sizing.benchmarks import perf_metrics
from firsttoken_sizing.benchmarks.document import Document, mapping
from firsttoken_sizing.benchmarks.loads import neither
from firsttoken_sizing.benchmarks.runs import Declared, Refused, Run
from firsttoken_sizing.profile import Load


def recognizes_nested(document: Document) -> bool:
    """Recognize a document of a release with nested settings (0.0.16)."""
    return isinstance(_settings(document).get("perf_analyzer"), dict)


def recognizes_flat(document: Document) -> bool:
    """Recognize a document of a release with flat settings (0.0.8)."""
    return "formatted_model_name" in _settings(document)


def read_nested(document: Document) -> list[Run | Refused]:
    """The run of a file with nested settings. Raises `UnreadableBenchmark`."""
    settings = _settings(document)
    stimulus = mapping(mapping(settings.get("perf_analyzer")).get("stimulus"))
    lengths = mapping(settings.get("input"))
    return _parsed(
        document,
        models=settings.get("model_names"),
        concurrency=stimulus.get("concurrency"),
        requested_input=mapping(lengths.get("synthetic_tokens")).get("mean"),
        requested_output=mapping(lengths.get("output_tokens")).get("mean"),
    )


def read_flat(document: Document) -> list[Run | Refused]:
    """The run of a file with flat settings. Raises `UnreadableBenchmark`."""
    settings = _settings(document)
    return _parsed(
        document,
        models=settings.get("model"),
        concurrency=settings.get("concurrency"),
        requested_input=settings.get("synthetic_input_tokens_mean"),
        requested_output=settings.get("output_tokens_mean"),
    )


def _parsed(
    document: Document, *, models: object, concurrency: object, requested_input: object, requested_output: object
) -> list[Run | Refused]:
    if concurrency is None:
        # GenAI-Perf spaces the requests of a rate evenly.
        return [Refused(document.file, neither("at a constant rate", "measure with --concurrency"))]
    offered = document.number(concurrency, "input_config: concurrency")
    run = perf_metrics.run(document, document.fields, "GenAI-Perf", Load.CLOSED_LOOP, offered)
    return [
        replace(
            run,
            requested_input_tokens=perf_metrics.requested(document, requested_input),
            requested_output_tokens=perf_metrics.requested(document, requested_output),
            declared=Declared(model=perf_metrics.only_model(document, models)),
        )
    ]


def _settings(document: Document) -> Mapping[str, Any]:
    return mapping(document.fields.get("input_config"))
