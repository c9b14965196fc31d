"""The true load of a trace, which only those who know the future (or look back) can use: references, not policies.

Requests are weighed by what they cost a replica: prefill as the step model says, and their share of each decode step at
the batch that the replica was sized for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.performance.work import Work
from firsttoken_sizing.simulation.requests import Requests

Floats = NDArray[np.float64]
_BURST_SECONDS = (1, 2, 5, 10, 20, 30, 60)


def costs(work: Work, requests: Requests) -> Floats:
    """Replica-seconds of every request."""
    return work.seconds(
        requests.input_tokens.astype(np.float64),
        requests.uncached_input_tokens.astype(np.float64),
        requests.output_tokens.astype(np.float64),
    )


def rates_per_minute(arrival_seconds: Floats, cost: Floats, declared_cost: float) -> Floats:
    """Requests a second of every minute, counted in requests of the declared lengths."""
    work = np.bincount((arrival_seconds // 60).astype(np.int64), weights=cost)
    return work / declared_cost / 60


def replicas_needed(arrival_seconds: Floats, cost: Floats, slack_seconds: float) -> Floats:
    """Replicas (a fraction) that every minute needs, so that no burst in it takes `slack_seconds` longer than it came.

    The largest `work(w) / (w + slack)` of the windows w of 1 s to 1 min that end in the minute: the arrival curve of
    network calculus (Cruz 1991), for replicas that share all work.
    """
    second = arrival_seconds.astype(np.int64)
    minutes = int(second[-1]) // 60 + 1
    work = np.bincount(second, weights=cost, minlength=60 * minutes)
    done = np.concatenate((np.zeros(_BURST_SECONDS[-1]), np.cumsum(work)))
    needed = np.zeros(minutes)
    for width in _BURST_SECONDS:
        burst = done[_BURST_SECONDS[-1] :] - done[_BURST_SECONDS[-1] - width : -width]
        needed = np.maximum(needed, burst.reshape(minutes, 60).max(axis=1) / (width + slack_seconds))
    return needed
