"""Reader of `vllm bench serve --save-result`: one run a file, summaries in milliseconds (their names say so).

How the run was loaded: `request_rate` "inf" with `max_concurrency` is a closed loop, a number is a rate of Poisson
arrivals (burstiness 1), and "inf" alone sends everything at once. GPU and parallelism are there only where `--metadata`
noted them (`gpu`, `tensor_parallel_size` or `tp`, `pipeline_parallel_size` or `pp`, `precision`).

NB: ITL is `tpot` here, (latency - TTFT) / (output tokens - 1) of a request. What vLLM calls `itl` are the gaps between
chunks, which hold several tokens under speculative decoding. Percentiles other than P99, and any of `e2el`, are written
only where `--metric-percentiles` and `--percentile-metrics` ask for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from firsttoken_sizing.benchmarks.document import Document, label
from firsttoken_sizing.benchmarks.loads import (
    BACKLOG_REMARK,
    NONE_SUCCEEDED,
    WITHOUT_BATCH,
    backlog_point,
    capped,
    neither,
)
from firsttoken_sizing.benchmarks.runs import Declared, Refused, Run
from firsttoken_sizing.profile import STATISTICS, Latency, Load, Point

_REMEDY = "measure with --max-concurrency alone, or with --request-rate alone"


def recognizes(document: Document) -> bool:
    """Recognize a document in this format."""
    return {"mean_ttft_ms", "total_token_throughput"} <= document.fields.keys()


def read(document: Document) -> list[Run | Refused]:
    """The run of the file, or why it is refused. Raises `UnreadableBenchmark`."""
    fields = document.fields
    completed = document.count(fields.get("completed"), "completed")
    if completed == 0:
        return [Refused(document.file, NONE_SUCCEEDED)]
    output_tokens = document.number(fields.get("total_output_tokens"), "total_output_tokens") / completed
    rate = _rate(document)
    at_once = rate is None and _cap(document) is None
    point = _all_at_once(document, output_tokens) if at_once else _loaded(document, rate)
    if isinstance(point, str):
        return [Refused(document.file, point)]
    return [
        Run(
            where=document.file,
            source=f"vLLM bench serve {document.name}",
            load=Load.CLOSED_LOOP if rate is None else Load.POISSON,
            input_tokens=document.number(fields.get("total_input_tokens"), "total_input_tokens") / completed,
            output_tokens=output_tokens,
            point=point,
            times="milliseconds",
            declared=Declared(
                model=label(fields.get("model_id")),
                gpu=label(fields.get("gpu")),
                precision=label(fields.get("precision")),
                tensor_parallel=_noted(document, "tensor_parallel_size", "tp"),
                pipeline_parallel=_noted(document, "pipeline_parallel_size", "pp"),
            ),
            succeeded=completed,
            failed=_failed(document, completed),
            remarks=(BACKLOG_REMARK,) if at_once else (),
        )
    ]


def _loaded(document: Document, rate: float | None) -> Point | str:
    """The point of a closed loop (no rate) or of Poisson arrivals, or why it is refused."""
    fields, cap = document.fields, _cap(document)
    if fields.get("ramp_up_strategy"):
        return neither("at a rate that was ramped up", _REMEDY)
    if rate is not None:
        burstiness = document.optional_number(fields.get("burstiness"), "burstiness")
        if burstiness not in (None, 1.0):
            return neither(f"with burstiness {burstiness:g}", "measure with --burstiness 1")
        if cap is not None and _most_in_flight(document) >= cap:
            return capped(rate, cap, _REMEDY)
    return Point(
        requests_per_second=_throughput(document),
        concurrency=cap if rate is None else None,
        offered_requests_per_second=rate,
        ttft=_latency(document, "ttft"),
        itl=_latency(document, "tpot"),
        end_to_end=_latency(document, "e2el"),
    )


def _all_at_once(document: Document, output_tokens: float) -> Point | str:
    if document.fields.get("ramp_up_strategy"):
        return neither("at a rate that was ramped up", _REMEDY)
    return backlog_point(_throughput(document), _latency(document, "tpot"), output_tokens) or WITHOUT_BATCH


def _rate(document: Document) -> float | None:
    """Requests offered a second, or None for an infinite rate (`"inf"`; Infinity in older files)."""
    value = document.fields.get("request_rate")
    if value == "inf" or (isinstance(value, float) and math.isinf(value)):
        return None
    return document.number(value, "request_rate")


def _cap(document: Document) -> float | None:
    return document.optional_number(document.fields.get("max_concurrency"), "max_concurrency")


def _most_in_flight(document: Document) -> float:
    """The most requests in flight; a release that does not say it may have been held back at any time."""
    found = document.fields.get("max_concurrent_requests")
    return math.inf if found is None else document.count(found, "max_concurrent_requests")


def _throughput(document: Document) -> float:
    return document.number(document.fields.get("request_throughput"), "request_throughput")


def _failed(document: Document, completed: float) -> float:
    """Requests without an answer; older releases count only those that were sent."""
    fields = document.fields
    if "failed" in fields:
        return document.count(fields["failed"], "failed")
    return max(0.0, document.count(fields.get("num_prompts", completed), "num_prompts") - completed)


def _latency(document: Document, metric: str) -> Latency:
    """Statistics of one latency, empty where the file does not have it.

    A mean of 0 is what vLLM writes for a latency that no request had (one output token, no streaming).
    """
    fields: Mapping[str, Any] = document.fields
    if fields.get(f"mean_{metric}_ms") in (None, 0):
        return Latency()
    words = {statistic: statistic for statistic in STATISTICS} | {"p50": "median"}
    return document.latency(fields, "", {statistic: f"{word}_{metric}_ms" for statistic, word in words.items()})


def _noted(document: Document, *names: str) -> int | None:
    """A whole number that `--metadata` noted under one of these names."""
    return next((document.whole(document.fields[name], name) for name in names if name in document.fields), None)
