"""Reader of guidellm's `benchmarks.json` (layout version 2; 0.8.1 was read): a run for each benchmark of the file.

Statistics are those of the successful requests. `request_latency` is in seconds, names that end in `_ms` are in
milliseconds. A request that was cut off by the end of the run is `incomplete`, which is no failure; `errored` is.

NB: guidellm's `time_per_output_token_ms` is latency / output tokens, with the TTFT in it. ITL is
`inter_token_latency_ms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firsttoken_sizing.benchmarks.document import PER_MILLISECOND, Document, label, mapping
from firsttoken_sizing.benchmarks.loads import (
    BACKLOG_REMARK,
    NONE_SUCCEEDED,
    WITHOUT_BATCH,
    backlog_point,
    capped,
    neither,
)
from firsttoken_sizing.benchmarks.runs import Declared, Refused, Run
from firsttoken_sizing.profile import Latency, Load, Point

VERSION = 2
_REMEDY = "measure with the profile concurrent or poisson"


def recognizes(document: Document) -> bool:
    """Recognize a document in this format, in any version of its layout."""
    return "guidellm_version" in mapping(document.fields.get("metadata")) and "benchmarks" in document.fields


def read(document: Document) -> list[Run | Refused]:
    """Every run of the file. Raises `UnreadableBenchmark`."""
    version = mapping(document.fields["metadata"]).get("version")
    if version != VERSION:
        raise document.unreadable(f"has guidellm's layout version {version}, not {VERSION}; measure with guidellm 0.8")
    benchmarks = document.fields["benchmarks"]
    if not isinstance(benchmarks, list):
        raise document.unreadable("has no list of benchmarks")
    return [_run(document, index, mapping(benchmark)) for index, benchmark in enumerate(benchmarks)]


def _run(document: Document, index: int, benchmark: Mapping[str, Any]) -> Run | Refused:
    row, where = f"{document.file} benchmarks[{index}]", f"benchmarks[{index}]: "
    config, metrics = mapping(benchmark.get("config")), mapping(benchmark.get("metrics"))
    totals = mapping(metrics.get("request_totals"))
    succeeded = document.count(totals.get("successful"), f"{where}request_totals.successful")
    if succeeded == 0:
        return Refused(row, NONE_SUCCEEDED)
    output_tokens = _mean(document, metrics, "output_token_count", where)
    strategy = mapping(config.get("strategy"))
    at_once = strategy.get("type_") == "throughput" and strategy.get("max_concurrency") is None
    if at_once:
        rate, itl = _mean(document, metrics, "requests_per_second", where), _latency(document, metrics, "itl", where)
        point: Point | str = backlog_point(rate, itl, output_tokens) or WITHOUT_BATCH
    else:
        point = _point(document, strategy, metrics, where)
    if isinstance(point, str):
        return Refused(row, point)
    requested_input, requested_output = _requested_lengths(document)
    return Run(
        where=row,
        source=f"guidellm {document.name}",
        load=Load.CLOSED_LOOP if point.offered_requests_per_second is None else Load.POISSON,
        input_tokens=_mean(document, metrics, "prompt_token_count", where),
        output_tokens=output_tokens,
        requested_input_tokens=requested_input,
        requested_output_tokens=requested_output,
        point=point,
        times="milliseconds, and request_latency in seconds",
        declared=Declared(model=label(mapping(config.get("backend")).get("model"))),
        succeeded=succeeded,
        failed=document.count(totals.get("errored"), f"{where}request_totals.errored"),
        remarks=(BACKLOG_REMARK,) if at_once else (),
    )


def _point(document: Document, strategy: Mapping[str, Any], metrics: Mapping[str, Any], where: str) -> Point | str:
    """The point of a closed loop or of Poisson arrivals, or why the run is refused."""
    kind = strategy.get("type_")
    concurrency: float | None = None
    rate: float | None = None
    if kind == "synchronous":
        concurrency = 1.0
    elif kind == "concurrent":
        concurrency = document.number(strategy.get("streams"), f"{where}strategy.streams")
    elif kind == "throughput":
        # Requests above the cap wait in the client, and guidellm times them from when they leave it: a closed loop.
        concurrency = document.number(strategy.get("max_concurrency"), f"{where}strategy.max_concurrency")
    elif kind == "poisson":
        rate = document.number(strategy.get("rate"), f"{where}strategy.rate")
        cap = document.optional_number(strategy.get("max_concurrency"), f"{where}strategy.max_concurrency")
        most = mapping(mapping(metrics.get("request_concurrency")).get("total")).get("max")
        if cap is not None and document.count(most, f"{where}request_concurrency.total.max") >= cap:
            return capped(rate, cap, "raise the limit of requests in flight")
    else:
        return neither("at a constant rate" if kind == "constant" else f"by the strategy {kind!r}", _REMEDY)
    return Point(
        requests_per_second=_mean(document, metrics, "requests_per_second", where),
        concurrency=concurrency,
        offered_requests_per_second=rate,
        ttft=_latency(document, metrics, "ttft", where),
        itl=_latency(document, metrics, "itl", where),
        end_to_end=_latency(document, metrics, "end_to_end", where),
    )


_LATENCIES = {
    "ttft": ("time_to_first_token_ms", PER_MILLISECOND["ms"]),
    "itl": ("inter_token_latency_ms", PER_MILLISECOND["ms"]),
    "end_to_end": ("request_latency", PER_MILLISECOND["s"]),
}


def _latency(document: Document, metrics: Mapping[str, Any], name: str, where: str) -> Latency:
    """Statistics of one latency; empty where no request had it (guidellm writes a count of 0 and zeros then)."""
    metric, per_millisecond = _LATENCIES[name]
    found = _successful(metrics, metric)
    if not found.get("count"):
        return Latency()
    values = {"mean": found.get("mean"), **mapping(found.get("percentiles"))}
    return document.latency(values, f"{where}{metric}.", per_millisecond=per_millisecond)


def _mean(document: Document, metrics: Mapping[str, Any], metric: str, where: str) -> float:
    return document.number(_successful(metrics, metric).get("mean"), f"{where}{metric}.successful.mean")


def _successful(metrics: Mapping[str, Any], metric: str) -> Mapping[str, Any]:
    return mapping(mapping(metrics.get(metric)).get("successful"))


def _requested_lengths(document: Document) -> tuple[float | None, float | None]:
    """Mean lengths of the synthetic data that was asked for; None for other data."""
    data = mapping(mapping(document.fields.get("config")).get("spec")).get("data")
    only = mapping(data[0]) if isinstance(data, list) and len(data) == 1 else {}
    input_tokens, output_tokens = (
        document.optional_number(only.get(name), f"config.spec.data[0]: {name}")
        for name in ("prompt_tokens", "output_tokens")
    )
    return input_tokens, output_tokens
