"""When a decision is made, on the clocks that it may read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick, seconds."""

    clock_seconds: float
    """The logical clock of the memory, which never jumps."""
    interval_seconds: float
    epoch_seconds: float
    """The wall clock, which may jump; read for hours and days of the week only."""
