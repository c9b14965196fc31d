"""Prefill/decode disaggregation: prompts on one pool of workers, decoding on another, the KV cache sent between them.

Prompts no longer stall the tokens of others, so ITL has a limit of its own; in return the pools cannot lend each other
time, and TTFT gains a transfer. Here: the latencies of given pools under Poisson arrivals, and the fewest GPUs inside
an SLA, to hold against the aggregated answer.

* prefill: one queue in front of all workers (as Dynamo has it), each takes whole prompts up to the token budget of its
  step. Simulated batch by batch. NB: a budget of one prompt a step gives the shortest TTFT wherever a prompt takes much
  longer than `w0`, because prompts of one step are all done at its end;
* transfer: all layers after the prefill, each GPU its own part, no overlap (engines that stream layer by layer do
  better);
* decode: the Poisson model without prompts, each worker sees its share of the arrivals. The first token is shown once
  the decode worker has the cache and starts its next step.

Not modeled: contention of transfers for a link, and workers that change their role.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.catalog.gpus import Gpu
from firsttoken_sizing.catalog.interconnect import transfer
from firsttoken_sizing.catalog.models import Model
from firsttoken_sizing.engines.memory import largest_kv_share
from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance import poisson
from firsttoken_sizing.performance.batch_service import drawn_multiples, poisson_arrivals, serve
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.statistics import open_point
from firsttoken_sizing.profile import Latency, Point
from firsttoken_sizing.rounding import ceiling
from firsttoken_sizing.step.model import StepModel

_SEED = 20240504
_REQUESTS = 8192
_MOST_WORKERS = 4096
"""Workers of one pool at most: a deployment that needs more is not one that this model is for."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Workers of both pools: the step model of one, and its GPUs."""

    step: StepModel
    gpus_per_worker: int


@dataclass(frozen=True, slots=True)
class Disaggregated:
    """Two pools that serve a rate inside the SLA."""

    prefill_workers: int
    decode_workers: int
    gpus: int


def kv_transfer_seconds(
    model: Model,
    gpu: Gpu,
    *,
    input_tokens: float,
    tensor_parallel: int,
    gpus_per_server: int,
    same_server: bool = False,
) -> float:
    """Time of the KV cache of one prompt from a prefill to a decode worker of the same tensor parallelism.

    Every GPU sends what it holds to its counterpart at the same time: `latency + kv bytes * share / bandwidth`, the
    share as in memory (1/TP; heads replicated beyond their number; an MLA cache whole). Without `same_server` over the
    network adapter of each GPU.
    """
    link = transfer(gpu, same_server=same_server, gpus_per_server=gpus_per_server)
    return link.seconds(model.kv_bytes(input_tokens) * largest_kv_share(model, tensor_parallel))


def predict_disaggregated(
    pool: Pool,
    lengths: Lengths,
    rate: float,
    *,
    prefill_workers: int,
    decode_workers: int,
    transfer_seconds: float,
    scheduler: Scheduler,
) -> Point:
    """The operating point of the whole deployment at `rate` requests a second (> 0, below what each pool sustains)."""
    waited = _prefill_seconds(pool.step, lengths, rate, prefill_workers, scheduler)
    return _through(waited, transfer_seconds, _decode_point(pool.step, lengths, rate / decode_workers), lengths, rate)


def size_disaggregated(
    pool: Pool,
    lengths: Lengths,
    rate: float,
    meets: Callable[[Point], bool],
    *,
    transfer_seconds: float,
    scheduler: Scheduler,
) -> Disaggregated | None:
    """The fewest GPUs whose operating point at `rate` (requests a second) `meets` the SLA; None where none does.

    Both pools stay below `max_utilization` of their largest rates. For each number of decode workers, from the
    fewest on, the fewest prefill workers that do; it ends where decode workers alone are no cheaper than the best so
    far. More workers of either kind never worsen a latency, so each search is a bisection.
    """
    most_prefill = _prefill_rate(pool.step, lengths, scheduler)
    most_decode = poisson.saturation_rate(pool.step, _decode_lengths(lengths))
    fewest_prefill, fewest_decode = (
        max(1, ceiling(rate / (PARAMETERS.capacity.max_utilization * most))) for most in (most_prefill, most_decode)
    )
    most_prefill_workers = 2 * fewest_prefill + _enough_prefill(pool.step, lengths, rate)
    waits: dict[int, NDArray[np.float64]] = {}

    def enough(decoded: Point, workers: int) -> bool:
        if workers not in waits:
            waits[workers] = _prefill_seconds(pool.step, lengths, rate, workers, scheduler)
        return meets(_through(waits[workers], transfer_seconds, decoded, lengths, rate))

    best: Disaggregated | None = None
    decode_workers = fewest_decode
    while decode_workers <= _MOST_WORKERS:
        least_gpus = (fewest_prefill + decode_workers) * pool.gpus_per_worker
        if best is not None and least_gpus >= best.gpus:
            break
        decoded = _decode_point(pool.step, lengths, rate / decode_workers)
        workers = _fewest(partial(enough, decoded), fewest_prefill, most_prefill_workers)
        if workers is not None:
            gpus = (workers + decode_workers) * pool.gpus_per_worker
            if best is None or gpus < best.gpus:
                best = Disaggregated(workers, decode_workers, gpus)
        elif best is None and decode_workers > 2 * rate / _alone_rate(pool.step, lengths):
            return None  # nearly one request a worker: more of them change nothing
        # One more at a time while few; a fleet of hundreds is not searched one by one.
        decode_workers += max(1, decode_workers // 16)
    return best


def _fewest(enough: Callable[[int], bool], least: int, most: int) -> int | None:
    """The smallest number in [least, most] that is enough, where more is never less so; None where `most` is not."""
    low, high = least, least
    while not enough(high):
        if high == most:
            return None
        low, high = high + 1, min(most, 2 * high)
    return bisect_left(range(high), True, low, high, key=enough)


def _through(
    prefilled: NDArray[np.float64], transfer_seconds: float, decoded: Point, lengths: Lengths, rate: float
) -> Point:
    """Point of both pools together. A request's luck in one is independent of the other, and so are the samples."""
    rng = np.random.default_rng(_SEED)
    shares = (np.arange(len(prefilled)) + 0.5) / len(prefilled)
    ttft = prefilled + transfer_seconds + _samples(decoded.ttft, rng.permutation(shares))
    itl = _samples(decoded.itl, rng.permutation(shares)) if lengths.decode_steps else np.zeros(len(ttft))
    outputs = lengths.output_tokens * drawn_multiples(lengths.output_spread, len(ttft), _SEED + 1)
    end_to_end = ttft + np.maximum(0.0, outputs - 1) * itl
    return open_point(rate, ttft, itl, end_to_end)


def _samples(latency: Latency, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds at these shares (0..1) of a distribution of which percentiles are known, moved to its mean."""
    known = {0.5: latency.p50, 0.9: latency.p90, 0.95: latency.p95, 0.99: latency.p99}
    places, values = zip(*((share, v) for share, v in known.items() if v is not None), strict=True)
    # Below the median: as far down as P90 lies above it, never below nothing.
    lowest = max(0.0, 2 * values[0] - values[1])
    drawn: NDArray[np.float64] = np.interp(shares, (0.0, *places), (lowest, *values))
    return drawn * ((latency.mean or float(drawn.mean())) / max(float(drawn.mean()), 1e-12)) / 1000


def _prefill_seconds(
    step: StepModel, lengths: Lengths, rate: float, workers: int, scheduler: Scheduler
) -> NDArray[np.float64]:
    """Time from arrival to the end of the prefill, of each simulated request."""
    limit = _prompts_per_step(lengths, scheduler)
    prompts = drawn_multiples(lengths.input_spread, _REQUESTS, _SEED)
    own = step.prefill_seconds(prompts * lengths.uncached_input_tokens, prompts * lengths.cached_input_tokens)
    before = np.concatenate(([0.0], np.cumsum(own))).tolist()

    def busy(first: int, count: int) -> float:
        return float(step.base_seconds + before[first + count] - before[first])

    served = serve(poisson_arrivals(rate, _REQUESTS), busy, limit, workers)
    kept = served.settled()
    duration = step.base_seconds + np.array(before)[served.first + served.batch] - np.array(before)[served.first]
    later_stages = (step.pipeline_stages - 1) * own
    waited: NDArray[np.float64] = (served.wait_seconds + duration + later_stages)[kept]
    return waited


def _decode_point(step: StepModel, lengths: Lengths, rate: float) -> Point:
    """One decode worker: its TTFT is the way from an arrived cache to the next token, nothing where there is none."""
    if not lengths.decode_steps:
        nothing = Latency(mean=0.0, p50=0.0, p90=0.0, p95=0.0, p99=0.0)
        return Point(requests_per_second=rate, concurrency=0.0, ttft=nothing, itl=nothing, end_to_end=nothing)
    return poisson.predict(step, _decode_lengths(lengths), rate)


def _decode_lengths(lengths: Lengths) -> Lengths:
    """The same requests with the cache of their prompt there; the last token of it is computed for what follows."""
    return replace(lengths, uncached_input_tokens=min(1.0, lengths.uncached_input_tokens))


def _prefill_rate(step: StepModel, lengths: Lengths, scheduler: Scheduler) -> float:
    """Largest rate of one prefill worker: every step full of prompts."""
    prompts = _prompts_per_step(lengths, scheduler)
    return prompts / (step.base_seconds + prompts * _own_prefill(step, lengths))


def _own_prefill(step: StepModel, lengths: Lengths) -> float:
    return float(step.prefill_seconds(lengths.uncached_input_tokens, lengths.cached_input_tokens))


def _prompts_per_step(lengths: Lengths, scheduler: Scheduler) -> int:
    return max(1, int(scheduler.tokens_per_step // max(1.0, lengths.uncached_input_tokens)))


def _enough_prefill(step: StepModel, lengths: Lengths, rate: float) -> int:
    """Workers with which nearly no prompt waits: the mean number of prompts at work, and five standard deviations."""
    busy = rate * (step.base_seconds + _own_prefill(step, lengths))
    return math.ceil(busy + 5 * math.sqrt(busy) + 1)


def _alone_rate(step: StepModel, lengths: Lengths) -> float:
    """Requests a second that a decode worker completes one after the other."""
    return 1 / (max(1.0, lengths.decode_steps) * float(step.decode_seconds(1.0, lengths.context_tokens)))
