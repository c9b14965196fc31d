"""Closed loop of requests that vary in length: TTFT and E2E of clients that have fallen out of step.

In the first round every prompt waits for those before it. Afterwards a request comes whenever another is answered: it
waits for the rest of the running step, then its own step computes its prompt and those of the others that came
meanwhile,

    step = T_decode(B - 1) / (1 - X * T_pf)          TTFT = u * step + chunks * T_decode(B - 1) + T_pf * (1 + X * step)

with u even in 0 to 1, X the throughput, and less of the others where there are few (of c clients one is the request
itself). The front end, and steps after which an engine looks for requests at all, come on top (`VariedClients`). With
more clients than batch slots each also waits for a slot, `(c - B) / X` by Little's law.

Against the 1,530 points of aic_silicon_agg.csv whose configuration has a fit (mean TTFT, median absolute logarithm as
percent): vLLM 14, TensorRT-LLM 34, SGLang 40; as if all requests were alike 50, 122 and 93.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.engines.clients import VariedClients
from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.step.model import StepModel

Floats = NDArray[np.float64]

_PLACES = 32
"""Places in a step, and in the first round, that requests are spread over."""


def first_tokens(
    step: StepModel, lengths: Lengths, concurrency: int, rate: float, scheduler: Scheduler, clients: VariedClients
) -> tuple[Floats, Floats]:
    """TTFT in seconds, and the share of requests that have each, with `concurrency` clients at `rate` requests/s."""
    law, places = PARAMETERS.varied_clients, (np.arange(_PLACES) + 0.5) / _PLACES
    uncached, cached = lengths.uncached_input_tokens, lengths.cached_input_tokens
    batch = min(concurrency, step.max_batch)
    others, among = batch - 1, 1 - 1 / concurrency
    prefill = step.prefill_seconds(uncached, cached)
    decode = step.decode_seconds(others, others * lengths.context_tokens)
    busy = min(law.most_prefill_share, rate * prefill)
    gap = among * decode / (1 - busy)
    later = places * gap + _steps_of_prompt(uncached, others, scheduler) * decode + prefill * (1 + rate * gap)
    first = step.batch_seconds(0) + prefill * (1 + places * (concurrency - 1))
    waits = max(0.0, (concurrency - batch) / rate) + among * clients.front_end_seconds + clients.steps_unseen * gap
    waits += step.prefill_latency_seconds(uncached, cached) - prefill
    shares = np.repeat([law.first_round_share, 1 - law.first_round_share], _PLACES) / _PLACES
    return np.concatenate([first, later + waits]), shares


def _steps_of_prompt(tokens: float, others: int, scheduler: Scheduler) -> int:
    """Steps that a prompt is spread over."""
    if not scheduler.chunked_prefill:
        return 1
    return max(1, math.ceil(tokens / max(1, scheduler.tokens_per_step - others)))
