"""A simulation from beginning to end, what became of its requests and replicas, and that in a few numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.performance.statistics import latency_of
from firsttoken_sizing.profile import Latencies, Latency
from firsttoken_sizing.simulation.fleet import Fleet, Settings
from firsttoken_sizing.simulation.requests import Requests
from firsttoken_sizing.step.model import StepModel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_DEFAULT = Settings()


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Arrays of one entry a request (in the order of `requests`), then of one a replica. Times in seconds."""

    requests: Requests
    arrival_s: Floats
    """Time when it was sent; in an open loop that of `requests`."""
    admitted_s: Floats
    """Start of the first step that computes its prompt."""
    first_token_s: Floats
    finish_s: Floats
    """Last token."""
    released_s: Floats
    """Time when its slot in the batch was free again: later than `finish_s` in a static batch, whose others run on."""
    replica: Integers
    preemptions: Integers
    """Number of times that its KV cache was taken away (paged admission only)."""
    queued: NDArray[np.bool_]
    """True where it waited beyond the step that ran when it came: no slot, KV cache or prompt budget was free, or
    (static) a batch was running."""

    busy_s: Floats
    """Time with a step running; this and the next are counted in the window of the settings."""
    batch_seconds: Floats
    """Requests in the batch, integrated over time; over `busy_s` the mean batch of a working replica."""
    kv_peak_tokens: Integers
    """Most tokens that were in the KV cache."""
    kv_reserved_peak_tokens: Integers
    """Most tokens that were spoken for, never more than the KV cache has."""
    counted_s: float
    """Length of that window (seconds), which ends with the last answer at the latest."""

    @property
    def ttft_s(self) -> Floats:
        """Time to first token."""
        return self.first_token_s - self.arrival_s

    @property
    def end_to_end_s(self) -> Floats:
        """Time from arrival to the last token."""
        return self.finish_s - self.arrival_s

    @property
    def waiting_s(self) -> Floats:
        """Time from arrival to the first step that computes the prompt: the queue, and the rest of the running step."""
        return self.admitted_s - self.arrival_s

    @property
    def itl_s(self) -> Floats:
        """Inter-token latency of each request, (E2E - TTFT) / (output tokens - 1); NaN for a single token."""
        steps = self.requests.output_tokens - 1
        decoding = self.finish_s - self.first_token_s
        itl = np.full(len(steps), np.nan)
        np.divide(decoding, steps, out=itl, where=steps > 0)
        return itl

    def between(self, start_s: float, end_s: float = np.inf) -> NDArray[np.bool_]:
        """Requests that were sent in [start_s, end_s): a mask over the requests."""
        return (self.arrival_s >= start_s) & (self.arrival_s < end_s)


def simulate(step: StepModel, requests: Requests, settings: Settings = _DEFAULT) -> Outcome:
    """Every replica serves from the start; ends when every request is answered. The same arguments give the same."""
    simulated = Fleet(step, requests, settings)
    for replica in range(settings.replicas):
        simulated.open(replica, 0.0)
    simulated.advance(math.inf)
    work, fleet = simulated.requests, simulated.replicas
    # Columns of their own: they hold no reference to the records, which are twice as large.
    return Outcome(
        requests=requests,
        arrival_s=work["arrival"].copy(),
        admitted_s=work["admitted"].copy(),
        first_token_s=work["first_token"].copy(),
        finish_s=work["finish"].copy(),
        released_s=work["released"].copy(),
        replica=work["replica"].copy(),
        preemptions=work["preemptions"].copy(),
        queued=work["queued"] > 0,
        busy_s=fleet["busy"].copy(),
        batch_seconds=fleet["batch_seconds"].copy(),
        kv_peak_tokens=fleet["kv_peak"].copy(),
        kv_reserved_peak_tokens=fleet["reserved_peak"].copy(),
        counted_s=max(0.0, min(settings.count_until_s, float(work["released"].max())) - settings.count_from_s),
    )


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


def _milliseconds(seconds: Floats) -> Latency:
    return latency_of(1000 * seconds) if len(seconds) else Latency()
