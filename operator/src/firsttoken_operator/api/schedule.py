"""Declared schedule at an hour: windows of local wall-clock time, and the largest peak of those open.

Pure: nothing here reads a clock, so the operator, the sizing and a replay get the same answer for the same second. What
a schedule may contain is in `schedule_spec`; how far ahead of a window the fleet has to grow is not decided here.

Days and times are those that people at the place read off their clocks, across changes to and from summer time. A time
that clocks skip is the moment of the jump; of a time that they show twice a window begins with the first and ends with
the second, so that no minute that reads as inside is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.quantities import decimal
from firsttoken_operator.api.schedule_spec import ScheduleWindow, Weekday
from firsttoken_operator.domain.snapshot import Opening

DAY_SECONDS = 86_400
DAY_MINUTES = 1440
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_WEEK = tuple(Weekday)
_DAYS_BEHIND, _DAYS_AHEAD = 2, 1
"""A window that is open now began yesterday at the earliest; local dates differ from those of UTC by one at most."""
_DAYS_SHOWN = 9
"""A week from any time of a day, where local dates differ from those of UTC."""


@dataclass(frozen=True, slots=True)
class Window:
    """A time of the day, on some days of the week, that has a peak of its own.

    `weekdays`: on which it begins, 0 is Monday. `start_minutes`, `end_minutes`: of local wall-clock time since 00:00 of
    the day on which it begins; the end is above 1440 where it is on the next day.
    """

    zone: str
    weekdays: frozenset[int]
    start_minutes: int
    end_minutes: int
    peak_requests_per_second: float


Schedule = tuple[Window, ...]


def schedule_of(deployment: InferenceDeployment) -> Schedule:
    """The windows that `spec.traffic.schedule` declares, in its order; empty where there is none."""
    return tuple(_window(declared) for declared in deployment.spec.traffic.schedule)


def scheduled_peak(windows: Iterable[Window], epoch_seconds: float, horizon_seconds: float = 0.0) -> float | None:
    """Largest peak of the windows that are open at any time from now until the horizon, both included.

    `epoch_seconds`: now, since 1970-01-01T00:00 UTC (for a trace, the second of its start plus the trace's own). In
    requests per second; None where no window is open, which is not a peak of 0.
    """
    until = epoch_seconds + horizon_seconds
    first = math.floor(epoch_seconds / DAY_SECONDS) - _DAYS_BEHIND
    last = math.floor(until / DAY_SECONDS) + _DAYS_AHEAD
    peaks = (
        window.peak_requests_per_second
        for window in windows
        for day in range(_EPOCH_ORDINAL + first, _EPOCH_ORDINAL + last + 1)
        if (day - 1) % 7 in window.weekdays and _meets(window, day, epoch_seconds, until)  # ordinal 1 is a Monday
    )
    return max(peaks, default=None)


@lru_cache(maxsize=4096)
def coming_openings(windows: Schedule, day: int) -> tuple[Opening, ...]:
    """Openings of the windows that are not over at the beginning of a day, for the seven days after it and that one.

    `day`: days since 1970-01-01, UTC. Remembered, because that changes once a day.
    """
    begin, days = day * DAY_SECONDS, range(_EPOCH_ORDINAL + day - _DAYS_BEHIND, _EPOCH_ORDINAL + day + _DAYS_SHOWN)
    found = (
        Opening(
            *_open_between(window.zone, of, window.start_minutes, window.end_minutes), window.peak_requests_per_second
        )
        for window in windows
        for of in days
        if (of - 1) % 7 in window.weekdays
    )
    kept = (o for o in found if max(begin, o.opens_seconds) < o.closes_seconds)
    return tuple(sorted(kept, key=lambda o: (o.opens_seconds, o.closes_seconds, o.requests_per_second)))


def largest_peak(windows: Iterable[Window]) -> float | None:
    """Largest peak of all windows, open or not, in requests per second; None without a window."""
    return max((window.peak_requests_per_second for window in windows), default=None)


def _window(declared: ScheduleWindow) -> Window:
    start, end = _minutes(declared.start), _minutes(declared.end)
    return Window(
        zone=declared.time_zone,
        weekdays=frozenset(_WEEK.index(day) for day in declared.days or _WEEK),
        start_minutes=start,
        end_minutes=end if end > start else end + DAY_MINUTES,
        peak_requests_per_second=float(decimal(declared.peak_requests_per_second)),
    )


def _minutes(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * 60 + int(minutes)


def _meets(window: Window, day: int, begin_seconds: float, end_seconds: float) -> bool:
    """Tell whether the window of this day is open at any time in [begin, end]."""
    opens, closes = _open_between(window.zone, day, window.start_minutes, window.end_minutes)
    # NB: a window that lies inside a jump of the clock has no time at all.
    return opens < closes and opens <= end_seconds and begin_seconds < closes


@lru_cache(maxsize=16_384)
def _open_between(zone: str, day: int, start_minutes: int, end_minutes: int) -> tuple[float, float]:
    """Times at which the window of the day (a proleptic ordinal) opens and closes, seconds since the epoch.

    Remembered, because a thousand schedules are asked every few seconds and a window moves once a day.
    """
    rules: tzinfo = UTC if zone == "UTC" else ZoneInfo(zone)
    opens, closes = _wall_time(day, start_minutes), _wall_time(day, end_minutes)
    return _instant(opens, rules, fold=0), _instant(closes, rules, fold=1)


def _wall_time(day: int, minutes: int) -> datetime:
    return datetime.combine(date.fromordinal(day), time()) + timedelta(minutes=minutes)


def _instant(wall: datetime, rules: tzinfo, *, fold: int) -> float:
    """The second since the epoch at which clocks show `wall`; `fold` 0 is the first of two such, 1 the second."""
    shown = wall.replace(tzinfo=rules, fold=fold).timestamp()
    if datetime.fromtimestamp(shown, rules).replace(tzinfo=None) == wall:
        return shown
    # Skipped. PEP 495: the two folds then mean the offsets before and after the jump, which lies between the two.
    after, before = (wall.replace(tzinfo=rules, fold=fold).timestamp() for fold in (0, 1))
    while after - before > 1:
        middle = (before + after) // 2
        if datetime.fromtimestamp(middle, rules).replace(tzinfo=None) < wall:
            before = middle
        else:
            after = middle
    return after
