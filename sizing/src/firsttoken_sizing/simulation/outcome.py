"""Outcome of a simulation: its requests and its replicas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.simulation.requests import Requests

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Arrays of one entry a request (in the order of `requests`), then of one a replica. Times in seconds."""

    requests: Requests
    arrival_s: Floats
    """When it was sent; in an open loop that of `requests`."""
    admitted_s: Floats
    """Start of the first step that computes its prompt."""
    first_token_s: Floats
    finish_s: Floats
    """Last token."""
    released_s: Floats
    """When its slot in the batch was free again: later than `finish_s` in a static batch, whose others run on."""
    replica: Integers
    preemptions: Integers
    """How often its KV cache was taken away (paged admission only)."""
    queued: NDArray[np.bool_]
    """Whether it waited for more than the step that ran when it came: no slot, KV cache or prompt budget was free, or
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
