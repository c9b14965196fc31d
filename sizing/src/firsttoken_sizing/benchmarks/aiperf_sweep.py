"""Reader of AIPerf's `profile_export_aiperf_sweep.json`: a run for each value that was swept.

The file holds what was swept (`parameters`) and the metrics, nothing else: no model, no requested lengths, and no
arrival pattern, so that only a sweep of the concurrency can be read. A rate is imported run by run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from firsttoken_sizing.benchmarks import perf_metrics
from firsttoken_sizing.benchmarks.document import Document, mapping
from firsttoken_sizing.benchmarks.loads import NONE_SUCCEEDED
from firsttoken_sizing.benchmarks.runs import Refused, Run
from firsttoken_sizing.profile import Load

_COMBINATIONS = "per_combination_metrics"
_ONE_BY_ONE = "import the profile_export_aiperf.json of each run instead"


def recognizes(document: Document) -> bool:
    """Recognize a document in this format."""
    return isinstance(document.fields.get(_COMBINATIONS), list)


def read(document: Document) -> list[Run | Refused]:
    """Every run of the sweep. Raises `UnreadableBenchmark`."""
    failed = document.fields.get("failed_runs")
    combinations = document.fields[_COMBINATIONS]
    return [
        *(
            Refused(f"{document.file} failed_runs[{index}]", "AIPerf reports that the run failed")
            for index in range(len(failed) if isinstance(failed, list) else 0)
        ),
        *(_run(document, f"{_COMBINATIONS}[{index}]", mapping(one)) for index, one in enumerate(combinations)),
    ]


def _run(document: Document, place: str, combination: Mapping[str, Any]) -> Run | Refused:
    parameters, metrics = mapping(combination.get("parameters")), mapping(combination.get("metrics"))
    row, where = f"{document.file} {place}", f"{place}: "
    if "concurrency" not in parameters or any("rate" in name for name in parameters):
        swept = ", ".join(parameters) or "nothing"
        return Refused(row, f"sweeps {swept}, which does not say how requests arrived; {_ONE_BY_ONE}")
    failed = _failed(document, metrics, where)
    if failed and "request_latency" not in metrics:
        return Refused(row, NONE_SUCCEEDED)
    concurrency = document.number(parameters["concurrency"], f"{where}concurrency")
    run = perf_metrics.run(document, metrics, "AIPerf sweep", Load.CLOSED_LOOP, concurrency, place)
    return replace(run, succeeded=perf_metrics.mean(document, metrics, "request_count", where), failed=failed)


def _failed(document: Document, metrics: Mapping[str, Any], where: str) -> float:
    """Requests that failed: those that ended less those that succeeded, where the file counts both."""
    completed, succeeded = (
        document.count(mapping(metrics[name]).get("avg"), f"{where}{name}.avg") if name in metrics else 0.0
        for name in ("completed_request_count", "request_count")
    )
    return max(0.0, completed - succeeded)
