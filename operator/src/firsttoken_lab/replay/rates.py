"""What Prometheus makes of the samples that a range selector finds: `rate` and `deriv`, of many series at once.

All series were sampled at the same times, at least twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_NEAR = 1.1
"""An edge of the range within so many mean intervals of the first or last sample counts as covered."""


def rate(at_seconds: Sequence[float], first: Floats, last: Floats, begin_seconds: float, end_seconds: float) -> Floats:
    """Increase a second from begin to end of counters that were never reset; `first`, `last`: their outer samples.

    As `rate()` does it, the increase is extended to the edges of the range where they are near, by half an interval
    where they are not, and never to before the moment at which a counter would have been 0.
    """
    covered = at_seconds[-1] - at_seconds[0]
    interval = covered / (len(at_seconds) - 1)
    before, after = (
        gap if gap < _NEAR * interval else interval / 2
        for gap in (at_seconds[0] - begin_seconds, end_seconds - at_seconds[-1])
    )
    increase = last - first
    extended = increase * (1 + after / covered) + np.minimum(increase * (before / covered), first)
    rates: Floats = extended / (end_seconds - begin_seconds)
    return rates


def deriv(at_seconds: Sequence[float], samples: Sequence[Floats]) -> Floats:
    """Least-squares slope a second of gauges, as `deriv()`."""
    mean = sum(at_seconds) / len(at_seconds)
    from_mean = np.array([at - mean for at in at_seconds])
    weights = from_mean / from_mean.dot(from_mean)
    slopes: Floats = weights.dot(np.array(samples).reshape(len(weights), -1)).reshape(samples[0].shape)
    return slopes
