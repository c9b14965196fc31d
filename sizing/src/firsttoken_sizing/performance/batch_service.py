"""Bulk service: all that wait when a server is free are served together, up to a limit.

Static batching and the prefill workers of a disaggregated deployment have it in common. A batch by batch simulation
over given arrivals, so exact for them; what a batch takes is for the caller to say. Requests are served in the order of
their arrival, and a free server does not wait for a batch to fill.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.performance.lengths import Spread

_SEED = 20240503
_SETTLING_SHARE = 0.1
"""Share of the requests, left out at the beginning: they found the queue emptier than it is later."""


@dataclass(frozen=True, slots=True)
class Served:
    """Service of each request, in the order of arrival. Arrays of shape (n,)."""

    wait_seconds: NDArray[np.float64]
    """Wait from the arrival to the start of its batch."""
    batch: NDArray[np.int64]
    """Requests in its batch, itself included."""
    first: NDArray[np.int64]
    """Index of the first request of its batch."""

    def settled(self) -> slice:
        """The requests after the first ones, which found an empty queue."""
        return slice(int(_SETTLING_SHARE * len(self.batch)), None)


def poisson_arrivals(rate: float, requests: int) -> NDArray[np.float64]:
    """Times of so many arrivals at `rate` (requests a second), the same pattern at every rate (fixed seed)."""
    arrivals: NDArray[np.float64] = np.cumsum(np.random.default_rng(_SEED).exponential(size=requests)) / rate
    return arrivals


def drawn_multiples(spread: Spread, requests: int, seed: int) -> NDArray[np.float64]:
    """A multiple of the mean length for each request: every stratum in its share, in random order (fixed seed)."""
    if spread.is_fixed:
        return np.ones(requests)
    shares = np.random.default_rng(seed).permutation((np.arange(requests) + 0.5) / requests)
    multiples = np.array(spread.multiples)[spread.strata_at(shares)]
    drawn: NDArray[np.float64] = multiples / multiples.mean()
    return drawn


def longest_multiple(spread: Spread, requests: int) -> float:
    """Expected longest of so many requests, as a multiple of the mean: `sum m_i * (F_i^n - F_(i-1)^n)`."""
    order = np.argsort(spread.multiples)
    reached = np.concatenate(([0.0], np.cumsum(np.array(spread.shares)[order]))) ** requests
    return float(np.diff(reached) @ np.array(spread.multiples)[order] / reached[-1])


def serve(
    arrivals: NDArray[np.float64], busy_seconds: Callable[[int, int], float], limit: int, servers: int = 1
) -> Served:
    """Serve requests that arrive at these times (rising seconds), at most `limit` (>= 1) in a batch.

    `busy_seconds(first, count)` says how long a server is busy with the requests `first` to `first + count - 1`.
    Several servers take from one queue.
    """
    times: list[float] = arrivals.tolist()
    total = len(times)
    free = [0.0] * servers
    starts: list[float] = []
    sizes: list[int] = []
    firsts: list[int] = []
    done = 0
    while done < total:
        now = max(free[0], times[done])
        waiting = bisect_right(times, now, lo=done, hi=min(total, done + limit)) - done
        starts.append(now)
        sizes.append(waiting)
        firsts.append(done)
        heapq.heapreplace(free, now + busy_seconds(done, waiting))
        done += waiting
    batch = np.repeat(np.array(sizes, dtype=np.int64), sizes)
    first = np.repeat(np.array(firsts, dtype=np.int64), sizes)
    return Served(wait_seconds=np.repeat(starts, sizes) - arrivals, batch=batch, first=first)
