"""A simulation in a few numbers: latencies, throughput, and how full the replicas were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.performance.statistics import latency_of
from firsttoken_sizing.profile import Latencies, Latency
from firsttoken_sizing.simulation.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Summary(Latencies):
    """Latencies in milliseconds of the requests that were sent in a window, and the fleet in that window.

    `itl` is over requests, of each (E2E - TTFT) / (output tokens - 1); those of one token have none.
    """

    requests: int
    """Sent in the window."""
    window_seconds: float
    requests_per_second: float
    """Answered in the window."""
    busy_percent: float
    """Share of the time of all replicas with a step running."""
    mean_batch: float
    """Requests in a running step, averaged over its time."""
    kv_peak_percent: float | None
    """Most tokens in the cache of any replica; None where its size is not known."""
    queued_percent: float
    """Share of requests that waited for more than the step that ran when they came (`Outcome.queued`)."""
    wait: Latency
    """Time from arrival to the first step that computes the prompt, of all requests."""
    preemptions: int


def summarize(outcome: Outcome, start_s: float, end_s: float, kv_cache_tokens: int | None) -> Summary:
    """The summary of [start_s, end_s), for which the settings must have counted. Raises ValueError where none came."""
    sent = outcome.between(start_s, end_s)
    if not sent.any():
        raise ValueError(f"no request was sent between {start_s:g} and {end_s:g} s")
    answered = (outcome.finish_s >= start_s) & (outcome.finish_s < end_s)
    itl = outcome.itl_s[sent]
    busy = float(outcome.busy_s.sum())
    return Summary(
        requests=int(sent.sum()),
        window_seconds=end_s - start_s,
        requests_per_second=float(answered.sum()) / (end_s - start_s),
        ttft=_milliseconds(outcome.ttft_s[sent]),
        itl=_milliseconds(itl[~np.isnan(itl)]),
        end_to_end=_milliseconds(outcome.end_to_end_s[sent]),
        busy_percent=100 * busy / ((end_s - start_s) * len(outcome.busy_s)),
        mean_batch=float(outcome.batch_seconds.sum()) / busy if busy else 0.0,
        kv_peak_percent=100 * float(outcome.kv_peak_tokens.max()) / kv_cache_tokens if kv_cache_tokens else None,
        queued_percent=100 * float(outcome.queued[sent].mean()),
        wait=_milliseconds(outcome.waiting_s[sent]),
        preemptions=int(outcome.preemptions[sent].sum()),
    )


def _milliseconds(seconds: NDArray[np.float64]) -> Latency:
    return latency_of(1000 * seconds) if len(seconds) else Latency()
