"""The true load of a trace, which only those who know the future (or look back) can use: references, not policies.

Requests are weighed by what they cost a replica: prefill as the step model says, and their share of each decode step at
the batch that the replica was sized for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.simulation.requests import Requests
from firsttoken_sizing.step.model import StepModel

Floats = NDArray[np.float64]
_BURST_SECONDS = (1, 2, 5, 10, 20, 30, 60)


def costs(step: StepModel, requests: Requests, concurrency: float) -> Floats:
    """Replica-seconds of every request, where `concurrency` of them share a decode step."""
    return _costs(
        step,
        requests.input_tokens.astype(np.float64),
        requests.uncached_input_tokens.astype(np.float64),
        requests.output_tokens.astype(np.float64),
        concurrency,
    )


def cost_of(step: StepModel, lengths: Lengths, concurrency: float) -> float:
    """Replica-seconds of one request of the mean lengths."""
    columns = (lengths.input_tokens, lengths.uncached_input_tokens, lengths.output_tokens)
    prompt, uncached, output = (np.array([tokens]) for tokens in columns)
    return float(_costs(step, prompt, uncached, output, concurrency)[0])


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


def _costs(step: StepModel, prompt: Floats, uncached: Floats, output: Floats, concurrency: float) -> Floats:
    batch = float(np.clip(concurrency, 1.0, step.max_batch))
    a_token = step.batch_seconds(batch) / batch
    a_context_token = step.context_seconds(batch)
    prefill = step.prefill_seconds(uncached, prompt - uncached)
    cost: Floats = prefill + np.maximum(output - 1, 0.0) * (a_token + a_context_token * (prompt + output / 2))
    return cost
