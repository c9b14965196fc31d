"""Figures of the status: how many digits they have, and when a new one is worth a write. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

from firsttoken_operator.api.quantities import MAX_INTEGER

HYSTERESIS = 0.1
"""A figure that moved by no larger share of the one shown is no news."""


def two_digits(value: float) -> float:
    """Round to two significant digits (83.2 -> 83, 0.4567 -> 0.46)."""
    return 0.0 if value <= 0 else round(value, 1 - math.floor(math.log10(value)))


def rounded(value: float) -> int:
    """A whole number of two digits."""
    return min(round(two_digits(value)), MAX_INTEGER)


def steady(
    before: int | None, now: float | None, hysteresis: float = HYSTERESIS, whole: Callable[[float], int] = round
) -> int | None:
    """The value to show: the one shown before while the new one is within `hysteresis` of it."""
    if now is None or (before is not None and abs(now - before) <= hysteresis * before):
        return before
    return whole(now)
