"""Calendar of a trace: the wall clock behind its seconds, and the windows that the resource declares on it.

A trace counts its own seconds. Windows of a schedule and the days of a week are on clocks, so a replay needs to know
when the trace began; where that is not known, it begins with a week.
"""

from __future__ import annotations

from dataclasses import dataclass

from firsttoken_operator.api.schedule import Schedule, largest_peak, scheduled_peak

MONDAY_EPOCH_SECONDS = 1_794_787_200.0
"""2026-11-16T00:00 UTC, a Monday: with weeks of winter time before and after it in the zones that have one."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """`start_epoch_seconds`: second 0 of the trace, since 1970-01-01T00:00 UTC; `windows`: what is declared."""

    start_epoch_seconds: float = MONDAY_EPOCH_SECONDS
    windows: Schedule = ()

    def epoch_seconds(self, now_seconds: float) -> float:
        """The wall clock at this second of the trace."""
        return self.start_epoch_seconds + now_seconds

    def scheduled_peak(self, now_seconds: float, lead_seconds: float) -> float | None:
        """Largest declared peak from now until `lead_seconds` later, requests a second; None: no window is open."""
        return scheduled_peak(self.windows, self.epoch_seconds(now_seconds), lead_seconds) if self.windows else None

    @property
    def largest_peak(self) -> float | None:
        """Largest peak of all windows, open or not; None without a window."""
        return largest_peak(self.windows)
