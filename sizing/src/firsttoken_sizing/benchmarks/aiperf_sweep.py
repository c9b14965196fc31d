"""Reader of AIPerf's `profile_export_aiperf_sweep.json`: a run for each value that was swept.

The file holds what was swept (`parameters`) and the metrics, nothing else: no model, no requested lengths, and no
arrival pattern, so that only a sweep of the concurrency can be read. A rate is imported run by run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firsttoken_sizing.benchmarks import perf_metrics
from firsttoken_sizing.benchmarks.document import Document, mapping
from firsttoken_sizing.benchmarks.loads import NONE_SUCCEEDED
from firsttoken_sizing.benchmarks.runs import ParseResult, Refused, Run
from firsttoken_sizing.profile import Load

_COMBINATIONS = "per_combination_metrics"
_ONE_BY_ONE = "import the profile_export_aiperf.json of each run instead"


def recognizes(document: Document) -> bool:
    """Whether a document is in this format."""
    return isinstance(document.fields.get(_COMBINATIONS), list)


def read(document: Document) -> ParseResult:
    """Every run of the sweep. Raises `UnreadableBenchmark`."""
    runs: list[Run] = []
    failed_runs = document.fields.get("failed_runs")
    refused = [
        Refused(f"{document.file} failed_runs[{index}]", "AIPerf reports that the run failed")
        for index in range(len(failed_runs) if isinstance(failed_runs, list) else 0)
    ]
    for index, combination in enumerate(map(mapping, document.fields[_COMBINATIONS])):
        found = _run(document, f"{_COMBINATIONS}[{index}]", combination)
        if isinstance(found, Run):
            runs.append(found)
        else:
            refused.append(found)
    return ParseResult(runs=tuple(runs), refused=tuple(refused))


def _run(document: Document, place: str, combination: Mapping[str, Any]) -> Run | Refused:
    parameters, metrics = mapping(combination.get("parameters")), mapping(combination.get("metrics"))
    row = f"{document.file} {place}"
    if "concurrency" not in parameters or any("rate" in name for name in parameters):
        swept = ", ".join(parameters) or "nothing"
        return Refused(row, f"sweeps {swept}, which does not say how requests arrived; {_ONE_BY_ONE}")
    where = f"{place}: "
    failed = _failed(document, metrics, where)
    if failed and "request_latency" not in metrics:
        return Refused(row, NONE_SUCCEEDED)
    concurrency = document.number(parameters["concurrency"], f"{where}concurrency")
    return Run(
        where=row,
        source=f"AIPerf sweep {document.name}",
        load=Load.CLOSED_LOOP,
        input_tokens=perf_metrics.mean(document, metrics, "input_sequence_length", where),
        output_tokens=perf_metrics.mean(document, metrics, "output_sequence_length", where),
        point=perf_metrics.point(document, metrics, Load.CLOSED_LOOP, concurrency, where),
        times=perf_metrics.TIMES,
        succeeded=perf_metrics.mean(document, metrics, "request_count", where),
        failed=failed,
    )


def _failed(document: Document, metrics: Mapping[str, Any], where: str) -> float:
    """Requests that failed: those that ended less those that succeeded, where the file counts both."""
    completed, succeeded = (
        document.count(mapping(metrics[name]).get("avg"), f"{where}{name}.avg") if name in metrics else 0.0
        for name in ("completed_request_count", "request_count")
    )
    return max(0.0, completed - succeeded)
