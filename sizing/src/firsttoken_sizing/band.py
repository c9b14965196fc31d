"""Band: factors on an answer between which nine of ten measurements lie."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Band:
    """Factors on what an answer says of a rate or a time."""

    low: float
    """Above 0, at most 1."""
    high: float
    """At least 1."""

    @property
    def percent(self) -> float:
        """Distance to the farther end, in percent of the answer."""
        return 100 * max(1 - self.low, self.high - 1)

    @property
    def text(self) -> str:
        """`-12 to +20 %`."""
        return f"{100 * (self.low - 1):+.2g} to {100 * (self.high - 1):+.2g} %"

    @property
    def inverse(self) -> Band:
        """Band of a rate whose times have this one, or the other way around."""
        return Band(1 / self.high, 1 / self.low)

    def widened(self, factor: float) -> Band:
        """The same with an independent error of `factor` (>= 1) on top: root of squares of the logarithms."""
        return self._with(math.hypot, math.log(factor))

    def at_least(self, factor: float) -> Band:
        """The same, on both sides no nearer to 1 than by `factor` (>= 1)."""
        return self._with(max, math.log(factor))

    def _with(self, joined: Callable[[float, float], float], log: float) -> Band:
        return Band(math.exp(-joined(-math.log(self.low), log)), math.exp(joined(math.log(self.high), log)))
