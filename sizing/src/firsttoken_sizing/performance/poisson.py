"""Poisson: performance of one replica with requests arriving at random at a given rate. The load model of production.

The "gated step chain" of docs/design/sizing.md, in parts of one idea each:

* `second_moments`: means and variances of the load, exact while the batch limit does not bind;
* `population`: how many requests run at once, or wait for a slot;
* `prefill`: the chain of steps at that batch, which gives TTFT;
* `decode`: how long the rest takes, given that batch.

This module puts them together into latencies, and searches the largest rate inside an SLA. Deterministic (fixed seed).
Requests arrive independently of each other: bursts of a trace are for the simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.decode import decode_times
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.line import is_straight
from firsttoken_sizing.performance.population import population
from firsttoken_sizing.performance.prefill import first_tokens, prompts, step_tokens
from firsttoken_sizing.performance.routing import Splitter
from firsttoken_sizing.performance.second_moments import moments
from firsttoken_sizing.performance.statistics import largest, latency_of
from firsttoken_sizing.profile import Latency, Point
from firsttoken_sizing.rounding import floor
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Routing

Floats = NDArray[np.float64]

_SEED = 20240502
_CHAINS = 1024
_BISECTIONS = 12
_WHOLE_PROMPTS = Scheduler()


def saturation_rate(step: StepModel, lengths: Lengths, scheduler: Scheduler = _WHOLE_PROMPTS) -> float:
    """Largest stable rate (requests a second) of one replica: the throughput with `batch_limit` requests running."""
    queue = prompts(step, lengths)
    batch = batch_limit(step, lengths, scheduler)
    steps = lengths.mean_decode_steps
    if not steps:
        return batch / (batch * queue.mean_seconds + step.decode_seconds(0.0, 0.0))
    decode = step.decode_seconds(batch, batch * lengths.running_context_tokens)
    return batch / (batch * queue.mean_seconds + steps * decode)


def batch_limit(step: StepModel, lengths: Lengths, scheduler: Scheduler = _WHOLE_PROMPTS) -> float:
    """Most requests that decode at once (at least 1), or that are prefilled at once where one token is all they make.

    `max_batch`, or fewer where the token budget of a step computes no more prompts than that number completes: B
    requests of o decode steps complete `B / o` a step, so `B <= budget * o / l`.
    """
    queue = prompts(step, lengths)
    steps = lengths.mean_decode_steps
    budget = float(step_tokens(lengths, scheduler, np.zeros(1))[0])
    if not steps:
        return max(1.0, min(step.max_batch, budget / queue.mean_tokens))
    # A chunked budget is shared with the decoding sequences: B * l / o <= budget - B.
    taken = queue.mean_tokens / steps + (1.0 if scheduler.chunked_prefill else 0.0)
    return max(1.0, min(float(step.max_batch), budget / taken))


def predict(
    step: StepModel,
    lengths: Lengths,
    rate: float,
    scheduler: Scheduler = _WHOLE_PROMPTS,
    replicas: int = 1,
    routing: Routing = Routing.RANDOM,
) -> Point:
    """The operating point of one replica, with every latency percentile.

    `rate`: requests a second that reach this one replica (> 0, below `saturation_rate`), one of `replicas` equal ones
    behind `routing`.
    """
    splitter = Splitter(replicas, routing)
    rng = np.random.default_rng(_SEED)
    known = moments(step, lengths, rate, splitter)
    saturation = saturation_rate(step, lengths, scheduler)
    limit = floor(batch_limit(step, lengths, scheduler))
    variability = splitter.queue_variability(_work_variation(step, lengths))
    people = population(_decode_ratios(step, lengths, rate, limit), known, rate / saturation, variability)

    # One chain a stratum of time: much less noise than free draws, for the same work.
    present = people.quantiles((np.arange(_CHAINS) + 0.5) / _CHAINS)
    running = np.minimum(present, limit)
    decode = step.decode_seconds(running, running * lengths.running_context_tokens)
    if known.load_deviation > 1:
        deviation = (known.load_deviation - 1) * (decode - decode.mean())
        decode = np.maximum(step.decode_seconds(np.zeros(1), np.zeros(1)), decode + deviation)
    first = first_tokens(step, lengths, rate, scheduler, splitter, running, decode, rng)
    for_a_slot = np.maximum(0.0, present + 1 - limit) / saturation + scheduler.steps_ahead * decode
    first = replace(first, seconds=first.seconds + for_a_slot[first.chain])
    ttft = latency_of(1000 * first.seconds, first.weights)
    # Decode times have little noise: half of the samples are enough for them.
    first = first.every(2)
    mean_running = _mean_running(step, lengths, rate, scheduler, running, splitter)
    steps, total = decode_times(step, lengths, rate, known, running, mean_running, limit, first, rng)
    return Point(
        requests_per_second=rate,
        offered_requests_per_second=rate,
        concurrency=rate * float(np.average(first.seconds + total, weights=first.weights)),
        ttft=ttft,
        itl=_inter_token(total, steps, first.weights),
        end_to_end=latency_of(1000 * (first.seconds + total), first.weights),
    )


def capacity(
    step: StepModel,
    lengths: Lengths,
    meets: Callable[[Point], bool],
    scheduler: Scheduler = _WHOLE_PROMPTS,
    replicas: int = 1,
    routing: Routing = Routing.RANDOM,
) -> float:
    """Largest rate (requests a second) of one replica whose operating point `meets` the SLA; 0 where none does.

    By bisection, never above `max_utilization` of the stable rate. NB: every search asks at the same rates, so a looser
    SLA, which says yes wherever a tighter one does, never ends lower.
    """
    highest = PARAMETERS.capacity.max_utilization * saturation_rate(step, lengths, scheduler)
    return largest(lambda rate: meets(predict(step, lengths, rate, scheduler, replicas, routing)), highest, _BISECTIONS)


def _decode_ratios(step: StepModel, lengths: Lengths, rate: float, limit: int) -> Floats:
    """Arrivals over departures of an engine that decodes 1 to `limit` requests, while prefill takes its mean share."""
    running = np.arange(1.0, limit + 1)
    token_seconds = step.decode_seconds(running, running * lengths.running_context_tokens)
    token_seconds /= 1 - rate * prompts(step, lengths).mean_seconds
    return rate * lengths.mean_decode_steps * token_seconds / running


def _mean_running(
    step: StepModel, lengths: Lengths, rate: float, scheduler: Scheduler, running: Floats, splitter: Splitter
) -> float:
    """Mean number of requests that decode, for Little's law.

    Behind a router that evens out arrivals a batch of a few requests varies less than the law of `population` can: its
    mean then drifts. It lies between that of a request alone and that of a replica alone, which varies more.
    """
    mean = float(running.mean())
    if splitter.pooled == 1 or is_straight(step):
        return mean
    limit = floor(batch_limit(step, lengths, scheduler))
    known = moments(step, lengths, rate, Splitter())
    load, variability = rate / saturation_rate(step, lengths, scheduler), Splitter().queue_variability(0.0)
    alone = population(_decode_ratios(step, lengths, rate, limit), known, load, variability)
    most = float(alone.probability @ np.minimum(np.arange(len(alone.probability)), limit))
    least = rate * lengths.mean_decode_steps * float(step.decode_seconds(1.0, lengths.running_context_tokens))
    return max(min(mean, most), min(least, most))


def _inter_token(total: Floats, steps: Floats, weights: Floats) -> Latency:
    """ITL of the requests that make more than one token; 0 where none does."""
    some = steps > 0
    if not some.any():
        return latency_of(np.zeros(1))
    return latency_of(1000 * total[some] / steps[some], weights[some])


def _work_variation(step: StepModel, lengths: Lengths) -> float:
    """Squared coefficient of variation of the engine time that a request takes while every slot is taken."""
    if lengths.is_fixed:
        return 0.0
    queue = prompts(step, lengths)
    batch = float(step.max_batch)
    token = step.decode_seconds(batch, batch * lengths.running_context_tokens) / batch
    shares, multiples = np.array(lengths.output_spread.shares), np.array(lengths.output_spread.multiples)
    decode = token * lengths.decode_steps
    decode_variance = decode**2 * float(shares @ (multiples - 1) ** 2)
    return (queue.variance_seconds + decode_variance) / (queue.mean_seconds + decode) ** 2
