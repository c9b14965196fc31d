"""The SLA's percentile of TTFT from bucket rates, as an interval: buckets do not tell where inside them it lies.

Interpolating would invent a number (all requests at 290 ms read as P95 = 487 ms in the bucket .25-.5 of NIM 1.x).
Layouts that differ between pods are not merged: their sum is no distribution.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from firsttoken_operator.domain import TtftInterval
from firsttoken_operator.observe.collect import PodSample
from firsttoken_operator.observe.families import Signal
from firsttoken_sizing.workload import Percentile

MINIMUM_REQUESTS = 20
"""With fewer requests in the window a tail percentile says nothing."""

SHARES = {Percentile.P50: 0.50, Percentile.P90: 0.90, Percentile.P95: 0.95, Percentile.P99: 0.99}

ROUNDING = 1e-9
"""Relative error of summed floats: a share that is met up to rounding is met."""


def largest_layout(samples: Iterable[PodSample]) -> tuple[tuple[PodSample, ...], int]:
    """The pods of the bucket layout that saw most requests, and how many layouts there are."""
    groups: dict[tuple[float, ...], list[PodSample]] = defaultdict(list)
    for sample in samples:
        if _usable(sample.buckets):
            groups[tuple(sorted(sample.buckets))].append(sample)
    if not groups:
        return (), 0
    order = sorted(groups, key=lambda layout: (_requests(groups[layout]), len(groups[layout]), layout))
    return tuple(groups[order[-1]]), len(groups)


def interval(samples: Sequence[PodSample], percentile: Percentile, window_seconds: float) -> TtftInterval | None:
    """The interval that holds the percentile over pods of one layout; None where it cannot be told.

    The mean is exact (`_sum / _count`) and is the interval itself where the SLA is about the mean.
    """
    requests = _requests(samples) * window_seconds
    sums = [sample.values.get(Signal.TTFT_SUM, math.nan) for sample in samples]
    counts = [sample.values.get(Signal.FIRST_TOKENS, math.nan) for sample in samples]
    if requests < MINIMUM_REQUESTS or not all(math.isfinite(x) and x >= 0 for x in (*sums, *counts)) or not sum(counts):
        return None
    mean = 1000 * sum(sums) / sum(counts)
    if percentile is Percentile.MEAN:
        return TtftInterval(mean, mean, mean, requests)
    low, high = _bucket_of(SHARES[percentile], samples)
    return TtftInterval(1000 * low, None if math.isinf(high) else 1000 * high, mean, requests)


def _bucket_of(share: float, samples: Sequence[PodSample]) -> tuple[float, float]:
    """Bounds in seconds of the first bucket that reaches `share` of the requests."""
    bounds = sorted(samples[0].buckets)
    needed = share * sum(sample.buckets[bounds[-1]] for sample in samples) * (1 - ROUNDING)
    low = 0.0
    for bound in bounds:
        if sum(sample.buckets[bound] for sample in samples) >= needed:
            return low, bound
        low = bound
    return low, math.inf


def _requests(samples: Iterable[PodSample]) -> float:
    """Requests a second in the histograms: the bucket without an upper bound holds all."""
    return sum(sample.buckets[math.inf] for sample in samples)


def _usable(buckets: Mapping[float, float]) -> bool:
    """Whether buckets are a histogram: finite rates >= 0 that end in +Inf and never fall."""
    if math.inf not in buckets or not all(math.isfinite(rate) and rate >= 0 for rate in buckets.values()):
        return False
    # NB: a NaN bound breaks sorting, and comes from a label that is no number.
    if any(math.isnan(bound) for bound in buckets):
        return False
    rates = [buckets[bound] for bound in sorted(buckets)]
    return all(low <= high * (1 + ROUNDING) for low, high in itertools.pairwise(rates))
