"""Times of the control loop: how it ticks, when a decision is made, how long a start takes."""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN_TIME_TO_READY_SECONDS = 300.0
"""Time to ready of a deployment of which no start was seen yet."""


UNKNOWN_TIME_TO_WAKE_SECONDS = 30.0
"""Time that a sleeping pod takes to answer, where none of its deployment was woken yet: an engine that copies its
weights back from memory takes seconds, and is seen to do so by the next scrape."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of the control loop in seconds of the wall clock: already divided by `scale`."""

    scale: float
    tick_seconds: float
    scrape_interval_seconds: float
    rate_window_seconds: float
    scale_down_limit_window_seconds: float
    foreign_write_window_seconds: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Time of a decision, on the clocks that it may read; seconds."""

    clock_seconds: float
    """The logical clock of the memory, which never jumps."""
    interval_seconds: float
    """Time from one tick to the next at the latest."""
    epoch_seconds: float
    """The wall clock, which may jump; read for hours and days of the week only."""
    elapsed_seconds: float
    """Time since the tick before, which may have come early: what was measured counts for so long."""


def ready_seconds(measured_seconds: float | None, time_scale: float = 1.0) -> float:
    """Time of a start: 90th percentile of the target's own pods, or what stands in where none was seen.

    Only what stands in is divided by the time scale: starts that were measured are as they are.
    """
    return UNKNOWN_TIME_TO_READY_SECONDS / time_scale if measured_seconds is None else measured_seconds


def lead_seconds(time_to_ready_seconds: float, tick_seconds: float) -> float:
    """Time that a decision looks ahead: until a pod that is ordered at the next tick at the latest is ready."""
    return time_to_ready_seconds + tick_seconds
