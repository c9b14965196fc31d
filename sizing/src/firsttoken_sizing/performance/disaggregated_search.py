"""Fewest GPUs of two pools, for prefill and for decoding, whose latencies are those of `disaggregated`.

Each pool has one kind of worker, and the kinds may differ: prompts gain by GPUs that work together on them, decoding by
replicas that share little.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance import poisson
from firsttoken_sizing.performance.disaggregated import (
    Worker,
    alone_seconds,
    decode_lengths,
    decode_point,
    prefill_rate,
    prefill_seconds,
    through,
)
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import Point
from firsttoken_sizing.rounding import ceiling

MOST_WORKERS = 4096
"""Workers of one pool at most: a deployment that needs more is not one that this model is for."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Disaggregated:
    """Two pools that serve a rate inside the SLA."""

    prefill: Worker
    prefill_workers: int
    decode: Worker
    decode_workers: int
    transfer_seconds: float
    """Time of the KV cache of a prompt from one to the other."""
    point: Point
    """Operating point of both together, at that rate."""

    @property
    def gpus(self) -> int:
        """GPUs of both pools."""
        return self.prefill_workers * self.prefill.gpus + self.decode_workers * self.decode.gpus


def size_disaggregated(
    workers: Iterable[Worker],
    lengths: Lengths,
    rate: float,
    meets: Callable[[Point], bool],
    *,
    transfer_seconds: Callable[[Worker, Worker], float],
    fewer_than: int | None = None,
) -> Disaggregated | None:
    """The fewest GPUs whose operating point at `rate` (requests a second) `meets` the SLA; None where none does.

    `workers` are the kinds that a pool may have; of equally small answers the one with the kinds that come first.
    `transfer_seconds` of a prefill and a decode worker. `fewer_than`: only answers with fewer GPUs are looked for. No
    pool has more than `MOST_WORKERS`: a kind that needs more is left out before anything is simulated.

    Both pools stay below `max_utilization` of their largest rates. For each kind and number of decode workers, from the
    fewest on, the fewest prefill workers of each kind that do; it ends where no prefill pool is small enough to beat
    the best so far. More workers of either kind never worsen a latency, so each search is a bisection.
    """
    kinds = tuple(workers)
    pools = tuple(pool for kind in kinds if (pool := _prefill_pool(kind, lengths, rate)).fewest <= MOST_WORKERS)
    best: Disaggregated | None = None

    def left(gpus: int) -> float:
        """Most GPUs that a prefill pool may have beside so many that decode."""
        most = best.gpus if best else fewer_than
        return math.inf if most is None else most - 1 - gpus

    def judge(pool: _PrefillPool, decode: Worker, decoded: Point) -> Callable[[Floats], bool]:
        """Tell of the times of a prefill pool whether they keep the SLA beside this decoding."""
        seconds = transfer_seconds(pool.kind, decode)
        return lambda waited: meets(through(waited, seconds, decoded, lengths, rate))

    for decode in kinds:
        counts = _decode_workers(decode, lengths, rate)
        if not counts or not pools:
            continue
        lightest = decode_point(decode.step, lengths, rate / counts[-1])
        able = [pool for pool in pools if judge(pool, decode, lightest)(pool.waited(pool.most))]
        for count in counts:
            gpus = count * decode.gpus
            possible = [pool for pool in able if pool.fewest * pool.kind.gpus <= left(gpus)]
            if not possible:
                break
            decoded = decode_point(decode.step, lengths, rate / count)
            for pool in possible:
                found = pool.fewest_that(judge(pool, decode, decoded), left(gpus))
                if found is not None:
                    seconds = transfer_seconds(pool.kind, decode)
                    point = through(pool.waited(found), seconds, decoded, lengths, rate)
                    best = Disaggregated(pool.kind, found, decode, count, seconds, point)
    return best


@dataclass(frozen=True, slots=True)
class _PrefillPool:
    """A prefill pool of one kind of worker, at one rate."""

    kind: Worker
    fewest: int
    most: int
    """With so many practically no prompt waits."""
    waited: Callable[[int], Floats]
    """Times from arrival to the end of the prefill with so many workers, seconds."""

    def fewest_that(self, keeps: Callable[[Floats], bool], gpus: float) -> int | None:
        """Fewest workers, of at most so many GPUs, whose times keep the SLA; None where they do not."""
        most = self.most if gpus == math.inf else min(self.most, int(gpus) // self.kind.gpus)
        if most < self.fewest or not keeps(self.waited(self.most)):
            return None
        return _fewest(lambda workers: keeps(self.waited(workers)), self.fewest, most)


def _prefill_pool(kind: Worker, lengths: Lengths, rate: float) -> _PrefillPool:
    fewest = _fewest_for(rate, prefill_rate(kind, lengths))
    # The mean number of prompts at work, and five standard deviations.
    busy = rate * alone_seconds(kind, lengths)
    most = min(MOST_WORKERS, 2 * fewest + math.ceil(busy + 5 * math.sqrt(busy) + 1))
    return _PrefillPool(kind, fewest, most, cache(lambda workers: prefill_seconds(kind, lengths, rate, workers)))


def _decode_workers(kind: Worker, lengths: Lengths, rate: float) -> list[int]:
    """Numbers of decode workers: from the fewest that are stable to nearly one request each, which more do not help.

    None where the fewest are too many.
    """
    count = _fewest_for(rate, poisson.saturation_rate(kind.step, decode_lengths(lengths)))
    if count > MOST_WORKERS:
        return []
    enough = min(MOST_WORKERS, 2 * rate / _alone_rate(kind, lengths))
    counts = [count]
    while count < enough:
        # One more at a time while few; a fleet of hundreds is not searched one by one.
        count = min(MOST_WORKERS, count + max(1, count // 16))
        counts.append(count)
    return counts


def _fewest_for(rate: float, most: float) -> int:
    """Workers for a rate of which one sustains `most`."""
    return max(1, ceiling(rate / (PARAMETERS.capacity.max_utilization * most)))


def _fewest(enough: Callable[[int], bool], least: int, most: int) -> int | None:
    """The smallest number in [least, most] that is enough, where more is never less so; None where `most` is not."""
    low, high = least, least
    while not enough(high):
        if high == most:
            return None
        low, high = high + 1, min(most, 2 * high)
    return bisect_left(range(high), True, low, high, key=enough)


def _alone_rate(kind: Worker, lengths: Lengths) -> float:
    """Requests a second that a decode worker completes one after the other."""
    return 1 / (max(1.0, lengths.decode_steps) * float(kind.step.decode_seconds(1.0, lengths.context_tokens)))
