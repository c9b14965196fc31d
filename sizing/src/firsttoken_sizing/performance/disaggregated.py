"""Prefill/decode disaggregation: prompts on one pool of workers, decoding on another, the KV cache sent between them.

Prompts no longer stall the tokens of others, so ITL has a limit of its own, and each pool has the parallelism that
suits it; in return the pools cannot lend each other time, and TTFT gains a transfer. Here: the latencies of given pools
under Poisson arrivals; `disaggregated_search` finds the fewest GPUs.

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

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.catalog.gpus import Gpu
from firsttoken_sizing.catalog.interconnect import transfer
from firsttoken_sizing.catalog.models import Model
from firsttoken_sizing.engines.memory import largest_kv_share
from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.performance import poisson
from firsttoken_sizing.performance.batch_service import drawn_multiples, poisson_arrivals, serve
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.statistics import open_point
from firsttoken_sizing.profile import ConfigurationKey, Latency, Point
from firsttoken_sizing.step.model import StepModel

_SEED = 20240504
_REQUESTS = 8192


@dataclass(frozen=True, slots=True)
class Worker:
    """One kind of worker, for either pool: its configuration, its step model, and the token budget of its prefill."""

    key: ConfigurationKey
    step: StepModel
    scheduler: Scheduler

    @property
    def gpus(self) -> int:
        """GPUs of one worker."""
        return self.key.gpus_per_replica


def kv_transfer_seconds(
    model: Model,
    gpu: Gpu,
    *,
    input_tokens: float,
    prefill_ways: int,
    decode_ways: int,
    gpus_per_server: int,
    same_server: bool = False,
    kv_width: float = 1.0,
) -> float:
    """Time of the KV cache of one prompt from a prefill to a decode worker.

    `..._ways`: GPUs that share the attention of a request, all of a worker or those of one of its groups. Every one of
    them in the decode worker gets the share that it will hold (1/ways; heads replicated beyond their number; an MLA
    cache whole), and those of the prefill worker send them all at the same time: `latency + kv bytes * the largest
    part of one adapter / bandwidth`. Without `same_server` over the network adapter of each GPU. `kv_width`: width of
    the numbers in the cache over 16 bits.
    """
    link = transfer(gpu, same_server=same_server, gpus_per_server=gpus_per_server)
    received = largest_kv_share(model, decode_ways)
    busiest = received * max(1.0, decode_ways / prefill_ways)
    return link.seconds(model.kv_bytes(input_tokens) * kv_width * busiest)


def predict_disaggregated(
    prefill: Worker,
    decode: Worker,
    lengths: Lengths,
    rate: float,
    *,
    prefill_workers: int,
    decode_workers: int,
    transfer_seconds: float,
) -> Point:
    """The operating point of the whole deployment at `rate` requests a second (> 0, below what each pool sustains)."""
    waited = prefill_seconds(prefill, lengths, rate, prefill_workers)
    return through(waited, transfer_seconds, decode_point(decode.step, lengths, rate / decode_workers), lengths, rate)


def through(
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


def prefill_seconds(worker: Worker, lengths: Lengths, rate: float, workers: int) -> NDArray[np.float64]:
    """Time from arrival to the end of the prefill, of each simulated request, at `rate` of all `workers`."""
    step, scheduler = worker.step, worker.scheduler
    limit = _prompts_per_step(lengths, scheduler)
    prompts = drawn_multiples(lengths.input_spread, _REQUESTS, _SEED)
    own = step.prefill_seconds(prompts * lengths.uncached_input_tokens, prompts * lengths.cached_input_tokens)
    before = np.concatenate(([0.0], np.cumsum(own))).tolist()

    def busy(first: int, count: int) -> float:
        return float(step.base_seconds + before[first + count] - before[first])

    served = serve(poisson_arrivals(rate, _REQUESTS), busy, limit, workers)
    kept = served.settled()
    duration = step.base_seconds + np.array(before)[served.first + served.batch] - np.array(before)[served.first]
    later_stages = step.further_prefills * own
    waited: NDArray[np.float64] = (served.wait_seconds + duration + later_stages)[kept]
    return waited


def decode_point(step: StepModel, lengths: Lengths, rate: float) -> Point:
    """One decode worker: its TTFT is the way from an arrived cache to the next token, nothing where there is none."""
    if not lengths.decode_steps:
        nothing = Latency(mean=0.0, p50=0.0, p90=0.0, p95=0.0, p99=0.0)
        return Point(requests_per_second=rate, concurrency=0.0, ttft=nothing, itl=nothing, end_to_end=nothing)
    return poisson.predict(step, decode_lengths(lengths), rate)


def decode_lengths(lengths: Lengths) -> Lengths:
    """The same requests with the cache of their prompt there; the last token of it is computed for what follows."""
    return replace(lengths, uncached_input_tokens=min(1.0, lengths.uncached_input_tokens))


def prefill_rate(worker: Worker, lengths: Lengths) -> float:
    """Largest rate (requests a second) of one prefill worker: every step full of prompts."""
    prompts = _prompts_per_step(lengths, worker.scheduler)
    return prompts / (prompts * alone_seconds(worker, lengths) - (prompts - 1) * worker.step.base_seconds)


def alone_seconds(worker: Worker, lengths: Lengths) -> float:
    """Time of a step with one mean prompt in it."""
    own = worker.step.prefill_seconds(lengths.uncached_input_tokens, lengths.cached_input_tokens)
    return float(worker.step.base_seconds + own)


def _prompts_per_step(lengths: Lengths, scheduler: Scheduler) -> int:
    return max(1, int(scheduler.tokens_per_step // max(1.0, lengths.uncached_input_tokens)))
