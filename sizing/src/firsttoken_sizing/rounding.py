"""Whole numbers of computed ones: where a quotient is whole but for rounding, rounding must not decide.

The last bit of an exponential differs from one processor to the next; replicas, batch slots and engine steps must not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NOISE = 1e-9
"""One part in 10^9: far more than the rounding of a sum of thousands, and far less than what counts."""


def ceiling(value: float) -> int:
    """Smallest whole number that is not below `value` by more than noise."""
    return math.ceil(value - NOISE * max(1.0, abs(value)))


def ceilings(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """`ceiling` of each."""
    # NB: without numpy, which light modules that import this one do not wait for.
    return -(-(values - NOISE * (1.0 + abs(values))) // 1.0)


def floor(value: float) -> int:
    """Largest whole number that is not above `value` by more than noise."""
    return math.floor(value + NOISE * max(1.0, abs(value)))
