"""The weight of one tick in an exponential average."""

from __future__ import annotations

import math


def weight_of(interval_seconds: float, time_constant_seconds: float) -> float:
    """Weigh what a tick measured, `interval_seconds` after the last one; the time constant is at least that."""
    return 1 - math.exp(-interval_seconds / max(time_constant_seconds, interval_seconds)) if interval_seconds else 0.0
