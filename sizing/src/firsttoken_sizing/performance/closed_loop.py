"""Closed loop: what one replica does with c requests always outstanding, as benchmark tools load it.

Throughput is closed-form: `B = min(c, Bmax)`, `X = B / S(B)`, `E2E = c / X` (docs/design/sizing.md). How E2E splits
into TTFT and ITL depends on the scheduler, so that part is a small event-jump simulation of in-flight batching: equal
requests, whole prompts admitted up to a token budget a step, jumps over the steps in which nobody comes or goes.

Deterministic: the clients' turnaround (a few milliseconds, without which equal requests never leave lockstep) is drawn
from a generator with a fixed seed.
"""

from __future__ import annotations

import heapq
import math

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.statistics import latency_of
from firsttoken_sizing.profile import Point
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.scheduler import Scheduler

_CLIENT_TURNAROUND_SECONDS = 0.002
_SEED = 20240501
_SIMULATED_REQUESTS = 400
_MIN_ROUNDS, _MAX_ROUNDS = 3, 12


def round_seconds(step: StepModel, lengths: Lengths, batch: float) -> float:
    """S(B): time in which a replica with `batch` running requests completes `batch` requests."""
    decode = step.decode_seconds(batch, batch * lengths.context_tokens)
    prefill = batch * step.prefill_seconds(lengths.uncached_input_tokens)
    # NB: one request of one output token still costs the fixed part of the step that prefills it.
    return prefill + (lengths.decode_steps * decode if lengths.decode_steps else step.base_seconds)


def throughput(step: StepModel, lengths: Lengths, concurrency: float) -> float:
    """X(c): completed requests a second of one replica."""
    batch = min(concurrency, step.max_batch)
    return batch / round_seconds(step, lengths, batch)


def predict(step: StepModel, lengths: Lengths, concurrency: int, scheduler: Scheduler) -> Point:
    """The operating point at `concurrency`, with every latency percentile."""
    rate = throughput(step, lengths, concurrency)
    ttft, total = _simulate(step, lengths, concurrency, scheduler)
    # The closed form gives the mean of E2E; the simulation gives its shape and the split.
    end_to_end = np.maximum(total * (concurrency / rate / total.mean()), ttft)
    steps = lengths.decode_steps
    return Point(
        requests_per_second=rate,
        concurrency=float(concurrency),
        ttft=latency_of(1000 * ttft),
        itl=latency_of(1000 * (end_to_end - ttft) / steps) if steps else latency_of(np.zeros(1)),
        end_to_end=latency_of(1000 * end_to_end),
    )


def _simulate(
    step: StepModel, lengths: Lengths, concurrency: int, scheduler: Scheduler
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """TTFT and E2E in seconds of the requests after the first rounds."""
    rounds = min(_MAX_ROUNDS, max(_MIN_ROUNDS, math.ceil(_SIMULATED_REQUESTS / concurrency)))
    wanted = rounds * concurrency
    turnaround = np.random.default_rng(_SEED).exponential(_CLIENT_TURNAROUND_SECONDS, wanted + 2 * concurrency).tolist()
    prompts_per_step = max(1, int(scheduler.tokens_per_step // max(1.0, lengths.uncached_input_tokens)))
    prefill = step.prefill_seconds(lengths.uncached_input_tokens)
    decode_steps = round(lengths.decode_steps)

    waiting = [turnaround.pop() for _ in range(concurrency)]
    heapq.heapify(waiting)
    running: list[tuple[int, list[tuple[float, float]]]] = []  # (step at which they finish, [(arrival, first token)])
    now, steps_done, batch, started = 0.0, 0, 0, 0
    ttft: list[float] = []
    total: list[float] = []
    while len(total) < wanted:
        admitted: list[float] = []
        room = min(prompts_per_step, step.max_batch - batch)
        while waiting and waiting[0] <= now and len(admitted) < room:
            admitted.append(heapq.heappop(waiting))
        if not admitted and not batch:
            now = waiting[0]
            continue
        # `started` sums the steps at which the running ones began, so the context is known without a loop over them.
        context = batch * lengths.input_tokens + batch * steps_done - started
        if admitted:
            now += step.decode_seconds(batch, context) + prefill * len(admitted)
            steps_done += 1
            heapq.heappush(running, (steps_done + decode_steps, [(arrival, now) for arrival in admitted]))
            batch += len(admitted)
            started += steps_done * len(admitted)
        else:
            first = step.decode_seconds(batch, context)
            jump = running[0][0] - steps_done
            if waiting and batch < step.max_batch:
                jump = min(jump, max(1, math.ceil((waiting[0] - now) / first)))
            now += jump * step.decode_seconds(batch, context + batch * (jump - 1) / 2)
            steps_done += jump
        while running and running[0][0] <= steps_done:
            finish, group = heapq.heappop(running)
            batch -= len(group)
            started -= (finish - decode_steps) * len(group)
            for arrival, first_token in group:
                ttft.append(first_token - arrival)
                total.append(now - arrival)
                if turnaround:
                    heapq.heappush(waiting, now + turnaround.pop())
    settled = len(total) // 3
    return np.array(ttft[settled:]), np.array(total[settled:])
