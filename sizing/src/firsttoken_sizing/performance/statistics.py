"""Statistics of a latency, from samples to those that an SLA names; and the largest load that keeps one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.profile import Latency, Point
from firsttoken_sizing.rounding import NOISE

_QUANTILES = np.array([0.5, 0.9, 0.95, 0.99])


def latency_of(samples: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Latency:
    """Mean and percentiles of samples (any unit), with weights >= 0 where samples do not count alike."""
    if weights is None:
        values = np.quantile(samples, _QUANTILES)
        mean = float(samples.mean())
    else:
        order = np.argsort(samples)
        cumulative = np.cumsum(weights[order])
        # Nine of ten equal samples are 90 % of them, whatever the rounding of their sum says.
        values = samples[order][np.searchsorted(cumulative, (_QUANTILES - NOISE) * cumulative[-1])]
        mean = float(np.average(samples, weights=weights))
    p50, p90, p95, p99 = (float(v) for v in values)
    return Latency(mean=mean, p50=p50, p90=p90, p95=p95, p99=p99)


def largest(keeps: Callable[[float], bool], highest: float, bisections: int) -> float:
    """The largest value in [0, highest] that is known to keep, by bisection; 0 where none was found."""
    if keeps(highest):
        return highest
    low, high = 0.0, highest
    for _ in range(bisections):
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def open_point(
    rate: float, ttft_s: NDArray[np.float64], itl_s: NDArray[np.float64], end_to_end_s: NDArray[np.float64]
) -> Point:
    """The operating point of samples, one entry a request, at a rate (requests a second) that is kept up with."""
    return Point(
        requests_per_second=rate,
        offered_requests_per_second=rate,
        concurrency=rate * float(end_to_end_s.mean()),
        ttft=latency_of(1000 * ttft_s),
        itl=latency_of(1000 * itl_s),
        end_to_end=latency_of(1000 * end_to_end_s),
    )
