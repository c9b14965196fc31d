"""How long a start takes: what was measured, or the one default of operator and replay where no start was seen yet."""

from __future__ import annotations

UNKNOWN_TIME_TO_READY_SECONDS = 300.0
"""Of a deployment of which no start was seen yet."""


def ready_seconds(measured_seconds: float | None, time_scale: float = 1.0) -> float:
    """What a start takes: 90th percentile of the target's own pods, or what stands in where none was seen.

    Only what stands in is divided by the time scale: starts that were measured are as they are.
    """
    return UNKNOWN_TIME_TO_READY_SECONDS / time_scale if measured_seconds is None else measured_seconds


def lead_seconds(time_to_ready_seconds: float, tick_seconds: float) -> float:
    """How far ahead a decision must look: until a pod that is ordered at the next tick at the latest is ready."""
    return time_to_ready_seconds + tick_seconds
