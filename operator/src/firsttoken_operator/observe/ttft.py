"""The SLA's percentile of TTFT from bucket rates, as an interval: buckets do not tell where inside them it lies.

Interpolating would invent a number (all requests at 290 ms read as P95 = 487 ms in the bucket .25-.5 of NIM 1.x). The
share that came after the limit is an interval too; only there an estimate is made, between bounds that stay visible.
Layouts that differ between pods are not merged: their sum is no distribution.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

from firsttoken_operator.domain import LateShare, TtftInterval
from firsttoken_operator.domain.measurement import LARGEST_VALUE
from firsttoken_operator.families import Signal
from firsttoken_operator.observe.bounds import ROUNDING
from firsttoken_operator.observe.collect import PodSample
from firsttoken_operator.observe.config import FirstTokenConfig
from firsttoken_sizing.workload import Limit, Percentile

UNLIMITED_PERCENTILE = Percentile.P95
"""Shown where the SLA has no limit on TTFT."""


def largest_layout(samples: Iterable[PodSample]) -> tuple[tuple[PodSample, ...], int]:
    """The pods of the bucket layout that saw most requests, and how many layouts there are."""
    groups: dict[tuple[float, ...], list[PodSample]] = defaultdict(list)
    for sample in samples:
        bounds = _layout(tuple(sample.buckets))
        if bounds and _rises([sample.buckets[bound] for bound in bounds]):
            groups[bounds].append(sample)
    if len(groups) < 2:
        return tuple(*groups.values()), len(groups)
    order = sorted(groups, key=lambda layout: (_requests(groups[layout]), len(groups[layout]), layout))
    return tuple(groups[order[-1]]), len(groups)


def interval(
    samples: Sequence[PodSample], limit: Limit | None, window_seconds: float, config: FirstTokenConfig
) -> TtftInterval | None:
    """The interval that holds the percentile of `limit` over pods of one layout; None where it cannot be told.

    The mean is exact (`_sum / _count`) and is the interval itself where the SLA is about the mean. Without a limit the
    percentile is `UNLIMITED_PERCENTILE` and nothing is late. Numbers beyond `LARGEST_VALUE` are a broken exporter's.
    """
    bounds = _layout(tuple(samples[0].buckets))
    rates = zip(*([sample.buckets[bound] for bound in bounds] for sample in samples), strict=True)
    cumulative = [window_seconds * sum(of_pods) for of_pods in rates]
    requests = cumulative[-1]
    sums = [sample.values.get(Signal.TTFT_SUM, math.nan) for sample in samples]
    counts = [sample.values.get(Signal.FIRST_TOKENS, math.nan) for sample in samples]
    # NB: a NaN fails the comparison.
    if requests < config.least_requests or not all(0 <= x < math.inf for x in (*sums, *counts)) or not sum(counts):
        return None
    mean_milliseconds = 1000 * sum(sums) / sum(counts)
    if max(mean_milliseconds, requests) > LARGEST_VALUE:
        return None
    share = (limit.percentile if limit else UNLIMITED_PERCENTILE).share
    if share is None:
        return TtftInterval(mean_milliseconds, mean_milliseconds, mean_milliseconds, requests)
    low, high = _bucket_of(share, bounds, cumulative)
    if 1000 * low > LARGEST_VALUE:
        return None
    late = late_share(bounds, cumulative, limit.milliseconds / 1000, config) if limit else None
    return TtftInterval(1000 * low, None if math.isinf(high) else 1000 * high, mean_milliseconds, requests, late)


def late_share(
    bounds_seconds: Sequence[float], cumulative: Sequence[float], limit_seconds: float, config: FirstTokenConfig
) -> LateShare | None:
    """Share of the requests above a limit, from a histogram; None where the numbers are no histogram or it is empty.

    `bounds_seconds` ascend and end with infinity; `cumulative` is the number of requests up to each of them (a rate
    times its window, fractions are fine). What is above the bucket that holds the limit is late for certain, what is
    in it may be. The estimate takes the survival function as exponential inside that bucket, as the tail of a queue's
    delay is (log-linear interpolation); above it, where none was seen, stands `thinnest_tail` of those in it, at most
    `least_late_requests`. A limit above the last finite bound has no bucket to interpolate in: all that is above that
    bound counts as late in the estimate.
    """
    if not _is_histogram(bounds_seconds, cumulative) or not 0 < limit_seconds < math.inf:
        return None
    total = cumulative[-1]
    at = bisect_left(bounds_seconds, limit_seconds * (1 - ROUNDING))
    bound = bounds_seconds[at]
    certain = _above(cumulative[at], total)
    if bound <= limit_seconds * (1 + ROUNDING):
        return LateShare(certain, certain, certain)
    possible = max(certain, _above(cumulative[at - 1], total) if at else 1.0)
    if math.isinf(bound) or possible == certain:
        return LateShare(certain, possible, possible)
    below = bounds_seconds[at - 1] if at else 0.0
    floor = min(possible, max(certain, min(config.least_late_requests / total, config.thinnest_tail * possible)))
    estimate = possible * (floor / possible) ** ((limit_seconds - below) / (bound - below))
    return LateShare(certain, min(possible, max(certain, estimate)), possible)


def _bucket_of(share: float, bounds: Sequence[float], cumulative: Sequence[float]) -> tuple[float, float]:
    """Bounds in seconds of the first bucket that reaches `share` of the requests."""
    needed = share * cumulative[-1] * (1 - ROUNDING)
    low = 0.0
    for bound, reached in zip(bounds, cumulative, strict=True):
        if reached >= needed:
            return low, bound
        low = bound
    return low, math.inf


def _above(cumulative: float, total: float) -> float:
    """Share above a bound; what is left over by rounding alone is none."""
    share = (total - cumulative) / total
    return share if share > ROUNDING else 0.0


def _requests(samples: Iterable[PodSample]) -> float:
    """Requests a second in the histograms: the bucket without an upper bound holds all."""
    return sum(sample.buckets[math.inf] for sample in samples)


@lru_cache(maxsize=64)
def _layout(bounds: tuple[float, ...]) -> tuple[float, ...]:
    """The bounds of a histogram, ascending; empty where they are none."""
    # NB: a NaN bound breaks sorting, and comes from a label that is no number. No wait is negative.
    return tuple(sorted(bounds)) if math.inf in bounds and all(bound >= 0 for bound in bounds) else ()


def _is_histogram(bounds: Sequence[float], cumulative: Sequence[float]) -> bool:
    """Tell whether there are requests, and as many bounds as counts, that ascend from 0 to infinity."""
    if len(bounds) != len(cumulative) or not bounds or bounds[-1] != math.inf or not bounds[0] >= 0:
        return False
    return all(map(operator.lt, bounds, bounds[1:])) and _rises(cumulative) and cumulative[-1] > 0


def _rises(cumulative: Sequence[float]) -> bool:
    """Tell whether counts are finite, not negative, and never fall by more than rounding."""
    low, slack = 0.0, 1 + ROUNDING
    for count in cumulative:
        # NB: a NaN fails every comparison; `low` is never negative.
        if not low <= count * slack:
            return False
        low = count
    return low < math.inf
