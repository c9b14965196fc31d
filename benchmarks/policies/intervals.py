"""Means over seeds with their 95 % intervals, and ratios that are paired by seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """`mean` +- `half_width`; None where one value says nothing of the spread."""

    mean: float
    half_width: float | None
    count: int


def interval(values: Sequence[float]) -> Interval:
    """Student's t interval of the mean; at least one value."""
    mean, count = statistics.fmean(values), len(values)
    if count < 2:
        return Interval(mean, None, count)
    from scipy.stats import t  # NB: imported here, it takes longer than all other imports

    quantile = float(t.ppf((1 + CONFIDENCE) / 2, count - 1))
    return Interval(mean, quantile * statistics.stdev(values) / math.sqrt(count), count)


def over_percent(values: Mapping[int, float], reference: Mapping[int, float]) -> Interval | None:
    """Excess of `values` over `reference`, in percent, seed by seed; None where they share no seed."""
    shared = sorted(values.keys() & reference.keys())
    if not shared:
        return None
    return interval([100 * (values[seed] / reference[seed] - 1) for seed in shared])
