"""Exports that lie beside an importable file and say less: which they are, and which file to import instead.

A GenAI-Perf or AIPerf CSV has the latencies but not the concurrency that they were measured at, which cannot be
guessed; guidellm's has three header rows over the figures of its JSON.
"""

from __future__ import annotations

from firsttoken_sizing.benchmarks.document import Document

_NO_CONCURRENCY = "has no concurrency and no model; import {file}, which the tool writes beside it"


def advice(document: Document) -> str | None:
    """Advice for a document of a benchmark tool that is no format to import, or None for any other document."""
    columns = document.columns
    if columns[:2] == ("Metric", "avg"):
        file = "profile_export_aiperf.json" if "sum" in columns else "profile_export_genai_perf.json"
        return f"is a CSV of {'AIPerf' if 'sum' in columns else 'GenAI-Perf'} and {_NO_CONCURRENCY.format(file=file)}"
    if "request_throughput_mean" in columns:
        return "is the CSV of an AIPerf sweep, without percentiles and units; import profile_export_aiperf_sweep.json"
    if columns[:1] == ("Run Info",):
        return "is guidellm's CSV; import the benchmarks.json of the same run"
    return None
