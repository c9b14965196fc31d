"""Reader of inference-perf's `stage_N_lifecycle_metrics.json`: one run a file, times in seconds.

A stage has a concurrency (a closed loop) or a rate. Both of its load types for rates, `constant` and `poisson`, draw
exponential gaps between requests, so that a rate is Poisson arrivals. The file names no model. Times per output token
are (latency - TTFT) / (output tokens - 1) of a request; `inter_token_latency` are the gaps between chunks, and
`normalized_time_per_output_token` has the TTFT in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firsttoken_sizing.benchmarks.document import PER_MILLISECOND, Document, mapping
from firsttoken_sizing.benchmarks.loads import NONE_SUCCEEDED
from firsttoken_sizing.benchmarks.runs import Refused, Run
from firsttoken_sizing.profile import Latency, Load, Point

KEPT_UP = 0.9
"""Share of the requested rate below which the client was too slow, and what arrived was its own backlog."""


def recognizes(document: Document) -> bool:
    """Recognize a document in this format."""
    return {"load_summary", "successes"} <= document.fields.keys()


def read(document: Document) -> list[Run | Refused]:
    """The run of the file, or why it is refused. Raises `UnreadableBenchmark`."""
    successes = mapping(document.fields["successes"])
    succeeded = document.count(successes.get("count"), "successes.count")
    if succeeded == 0:
        return [Refused(document.file, NONE_SUCCEEDED)]
    offered = _offered(document)
    if isinstance(offered, str):
        return [Refused(document.file, offered)]
    load, value = offered
    throughput = mapping(successes.get("throughput")).get("requests_per_sec")
    return [
        Run(
            where=document.file,
            source=f"inference-perf {document.name}",
            load=load,
            input_tokens=_input_tokens(document, successes),
            output_tokens=_output_tokens(document, successes),
            point=Point(
                requests_per_second=document.number(throughput, "successes.throughput.requests_per_sec"),
                concurrency=value if load is Load.CLOSED_LOOP else None,
                offered_requests_per_second=value if load is Load.POISSON else None,
                ttft=_latency(document, successes, "time_to_first_token"),
                itl=_latency(document, successes, "time_per_output_token"),
                end_to_end=_latency(document, successes, "request_latency"),
            ),
            times="seconds",
            succeeded=succeeded,
            failed=document.count(mapping(document.fields.get("failures")).get("count", 0), "failures.count"),
        )
    ]


def _offered(document: Document) -> tuple[Load, float] | str:
    """The concurrency or the rate that was sent, or why the run is refused."""
    summary = mapping(document.fields["load_summary"])
    concurrency = document.optional_number(summary.get("concurrency"), "load_summary.concurrency")
    if concurrency is not None:
        return Load.CLOSED_LOOP, concurrency
    requested = document.optional_number(summary.get("requested_rate"), "load_summary.requested_rate")
    if requested is None:
        return "has neither a rate nor a concurrency, as a summary of several stages; import the stage_N files"
    achieved = document.optional_number(summary.get("achieved_rate"), "load_summary.achieved_rate") or requested
    if achieved < KEPT_UP * requested:
        return f"the client sent only {achieved:g} of {requested:g} requests/s; measure with more of its workers"
    return Load.POISSON, achieved


def _input_tokens(document: Document, successes: Mapping[str, Any]) -> float:
    """The mean input length.

    Releases differ: `prompt_len.mean`, then `prompt_tokens.total.mean`, then `prompt_tokens.mean` with a sum over all
    requests as `prompt_tokens.total`.
    """
    tokens = mapping(successes.get("prompt_tokens"))
    for place in (mapping(tokens.get("total")), tokens, mapping(successes.get("prompt_len"))):
        if "mean" in place:
            return document.number(place["mean"], "successes: mean of prompt_tokens")
    raise document.unreadable("has no mean of successes.prompt_tokens or prompt_len")


def _output_tokens(document: Document, successes: Mapping[str, Any]) -> float:
    """The mean output length, as the server counted it where the file says (`output_tokens`), else the client."""
    for name in ("output_tokens", "output_len"):
        if "mean" in mapping(successes.get(name)):
            return document.number(mapping(successes[name])["mean"], f"successes.{name}.mean")
    raise document.unreadable("has no mean of successes.output_len")


def _latency(document: Document, successes: Mapping[str, Any], metric: str) -> Latency:
    """Statistics of one latency; empty where the run did not stream."""
    found = mapping(mapping(successes.get("latency")).get(metric))
    return document.latency(found, f"successes.latency.{metric}.", {"p50": "median"}, PER_MILLISECOND["s"])
