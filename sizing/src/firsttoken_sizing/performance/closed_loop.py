"""Closed loop: performance of one replica with c requests always outstanding, as benchmark tools load it.

Throughput is closed-form: `B = min(c, Bmax)`, `X = B / S(B)`, `E2E = c / X` (docs/design/sizing.md). How E2E splits
into TTFT and ITL depends on the scheduler, and on the clients. Requests that are all alike stay together: that part is
a simulation of the batches, group by group (`closed_loop_batches`), whose times are scaled so that E2E is the closed
form's. Requests that vary in length fall out of step: a formula (`closed_loop_varied`). With which of them a release of
an engine was measured is a fact of its benchmarks (`engines.clients`).

Deterministic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.engines.clients import VariedClients
from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.performance.closed_loop_batches import ClosedLoopBatches
from firsttoken_sizing.performance.closed_loop_varied import first_tokens
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.statistics import latency_of
from firsttoken_sizing.profile import Point
from firsttoken_sizing.step.model import StepModel

Floats = NDArray[np.float64]

_MOST_ROUNDS = 3
_SIMULATED_REQUESTS = 500


@dataclass(frozen=True, slots=True)
class BenchmarkClients:
    """Clients of a benchmark tool whose requests are all alike: from empty, each sending again as soon as answered."""

    handover_seconds: float = 0.0025
    """Client and HTTP front end together pass requests on one at a time, so many seconds apart, the first as long after
    the answer that frees its client. Not part of the TTFT of a request alone, where the step model has it already.
    Between 2 and 3 ms the TTFT of nim_dli.csv is met alike; `benchmarks/evaluation/ttft.py` chooses it again without
    the lengths that it tests."""
    run_seconds: float = 360.0
    """Length of a run, which decides how much the first round counts, in which every prompt waits for all before it.
    GenAI-Perf's default of three windows; those behind nim_dli.csv took 216 to 650 s (requests / requests a second)."""


CLIENTS = BenchmarkClients()


def round_seconds(step: StepModel, lengths: Lengths, batch: float) -> float:
    """S(B): time in which a replica with `batch` running requests completes `batch` requests."""
    decode = step.decode_seconds(batch, batch * lengths.context_tokens)
    prefill = batch * step.prefill_seconds(lengths.uncached_input_tokens, lengths.cached_input_tokens)
    # NB: one request of one output token still costs the fixed part of the step that prefills it.
    return prefill + (lengths.decode_steps * decode if lengths.decode_steps else step.base_seconds)


def throughput(step: StepModel, lengths: Lengths, concurrency: float) -> float:
    """X(c): completed requests a second of one replica."""
    batch = min(concurrency, step.max_batch)
    return batch / round_seconds(step, lengths, batch)


@lru_cache(maxsize=1024)
def predict(
    step: StepModel,
    lengths: Lengths,
    concurrency: int,
    scheduler: Scheduler,
    clients: BenchmarkClients | VariedClients = CLIENTS,
) -> Point:
    """The operating point at `concurrency` (>= 1), with every latency percentile.

    The closed form gives the mean of E2E, the clients its shape and its split. Kept, because the search, what prunes
    it and a curve ask for the same points.
    """
    rate = throughput(step, lengths, concurrency)
    end_to_end_mean, steps = concurrency / rate, lengths.decode_steps
    if isinstance(clients, VariedClients):
        ttft, weights = first_tokens(step, lengths, concurrency, rate, scheduler, clients)
        # NB: all of it where answers have one token, and where the first of the model takes longer than the round.
        ttft = ttft * (end_to_end_mean / max(end_to_end_mean, float(np.average(ttft, weights=weights))))
        decode = end_to_end_mean - float(np.average(ttft, weights=weights)) if steps else 0.0
        total = ttft + decode
    else:
        rounds = max(2.0, clients.run_seconds / end_to_end_mean)
        batches = ClosedLoopBatches(step, lengths, concurrency, scheduler, clients.handover_seconds)
        ttft, total, weights = _simulate(batches, concurrency, rounds)
        scale = end_to_end_mean / float(np.average(total, weights=weights))
        ttft, total = scale * ttft, scale * total
    return Point(
        requests_per_second=rate,
        concurrency=float(concurrency),
        ttft=latency_of(1000 * ttft, weights),
        itl=latency_of(1000 * (total - ttft) / steps, weights) if steps else latency_of(np.zeros(1)),
        end_to_end=latency_of(1000 * total, weights),
    )


def _simulate(batches: ClosedLoopBatches, concurrency: int, rounds: float) -> tuple[Floats, Floats, Floats]:
    """TTFT and E2E in seconds, and the requests that had them, in a run of `rounds` rounds from an empty engine.

    Rounds after the first few are like the last of those, so they are counted and not simulated.
    """
    simulated = min(math.ceil(rounds), max(2, min(_MOST_ROUNDS, _SIMULATED_REQUESTS // concurrency)))
    weights = _round_weights(simulated, rounds)
    ttft: list[float] = []
    total: list[float] = []
    counts: list[float] = []
    done = 0
    for served in batches.serve():
        ttft.append(served.first_token - served.sent)
        total.append(served.finished - served.sent)
        counts.append(served.requests * weights[done // concurrency])
        done += served.requests
        if done >= simulated * concurrency:
            break
    return np.array(ttft), np.array(total), np.array(counts)


def _round_weights(simulated: int, rounds: float) -> Floats:
    """Rounds that each simulated one stands for; those left out are like the last two, which share them."""
    weights = np.ones(simulated)
    if rounds < simulated:
        weights[-1] = rounds - (simulated - 1)
    else:
        weights[-min(2, simulated - 1) :] += (rounds - simulated) / min(2, simulated - 1)
    return weights
