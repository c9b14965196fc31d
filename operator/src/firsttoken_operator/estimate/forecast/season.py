"""Movement of the rate by the hour: profiles of the day and of the week, learned as hourly means.

Only ratios are used: how the rate moves from now until the horizon relative to now, so the profile needs no scale and a
growing service needs no correction. Hours, not minutes: finer bins learn the noise of single days. Over 615 s on the
Azure week of `benchmarks/forecast.py`, applied to the true rate, the error relative to persistence was 0.92 with bins
of an hour, 0.95 with 30 minutes and 1.00 with 10. Hours are those of UTC; where clocks change, forgetting learns the
new hour within two weeks, and `score` rules the season out until then.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log

from firsttoken_operator.estimate.forecast_config import SeasonConfig

HOUR = 3600.0
"""Seconds."""
WEEKDAY_SHIFT = 3
"""The epoch began on a Thursday: hour 0 of the week is Monday's first."""


@dataclass(frozen=True, slots=True)
class SeasonState:
    """Profiles of the rate by hour: natural logarithms of hourly means, one profile of a day and one of a week."""

    hour: int = 0
    """The hour now being observed, counted from the epoch."""
    total: float = 0.0
    """Rates observed in it times the seconds that they stand for."""
    seconds: float = 0.0
    """Those seconds."""
    day: tuple[float, ...] = (0.0,) * 24
    day_seen: tuple[int, ...] = (0,) * 24
    """Days on which each was seen; 0: its logarithm means nothing."""
    week: tuple[float, ...] = (0.0,) * 168
    week_seen: tuple[int, ...] = (0,) * 168


def follow(
    season: SeasonState,
    at_seconds: float,
    rate: float,
    window_seconds: float,
    elapsed_seconds: float,
    config: SeasonConfig,
) -> SeasonState:
    """The profiles after one observation; an hour is learned when the next begins.

    `elapsed_seconds` is how long the observation stands for. An hour that was observed for less than half is no hour.
    """
    hour = floor((at_seconds - window_seconds / 2.0) / HOUR)
    total, seconds = rate * elapsed_seconds, elapsed_seconds
    if hour == season.hour:
        total += season.total
        seconds += season.seconds
    day, day_seen, week, week_seen = season.day, season.day_seen, season.week, season.week_seen
    if hour != season.hour and season.seconds >= config.least_observed_seconds:
        mean = log(max(season.total / season.seconds, config.least_rate_per_second))
        day, day_seen = _learned(day, day_seen, season.hour % 24, mean, config.newest_day_weight, config)
        week, week_seen = _learned(week, week_seen, _of_week(season.hour), mean, config.newest_week_weight, config)
    return SeasonState(hour, total, seconds, day, day_seen, week, week_seen)


def forget_hour(season: SeasonState) -> SeasonState:
    """The profiles without the hour now being observed, which a clock that was set back would count twice."""
    return SeasonState(0, 0.0, 0.0, season.day, season.day_seen, season.week, season.week_seen)


def ratio(season: SeasonState, from_seconds: float, to_seconds: float, config: SeasonConfig) -> float | None:
    """Log ratio of the usual rate at `to_seconds` to that at `from_seconds`; None: not seen on enough days.

    Hourly means stand at the middle of their hours, straight lines between them.
    """
    if to_seconds <= from_seconds:
        return 0.0
    total = 0.0
    at = from_seconds / HOUR - 0.5
    end = to_seconds / HOUR - 0.5
    while at < end:
        hour = floor(at)
        until = min(hour + 1.0, end)
        step = _step(season, hour, config)
        if step is None:
            return None
        total += step * (until - at)
        at = until
    return total


def rise(season: SeasonState, from_seconds: float, horizon_seconds: float, config: SeasonConfig) -> float | None:
    """Largest log ratio from `from_seconds` to any time within the horizon (at least 0); None as in `ratio`."""
    middle = (floor(from_seconds / HOUR - 0.5) + 1.5) * HOUR
    end = ratio(season, from_seconds, from_seconds + horizon_seconds, config)
    if end is None or middle >= from_seconds + horizon_seconds:
        return None if end is None else max(end, 0.0)
    return max(end, ratio(season, from_seconds, middle, config) or 0.0, 0.0)


def _step(season: SeasonState, hour: int, config: SeasonConfig) -> float | None:
    """Log ratio of one hour to the one before, that of the week drawn towards that of the day."""
    first, second = hour % 24, (hour + 1) % 24
    if min(season.day_seen[first], season.day_seen[second]) < config.least_days:
        return None
    daily = season.day[second] - season.day[first]
    first, second = _of_week(hour), _of_week(hour + 1)
    seen = min(season.week_seen[first], season.week_seen[second])
    if seen < config.least_days:
        return daily
    weekly = season.week[second] - season.week[first]
    return daily + (weekly - daily) * seen / (seen + config.prior_weeks)


def _of_week(hour: int) -> int:
    return (hour + 24 * WEEKDAY_SHIFT) % 168


def _learned(
    profile: tuple[float, ...], seen: tuple[int, ...], at: int, mean: float, newest: float, config: SeasonConfig
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    count = min(seen[at] + 1, config.most_days)
    value = profile[at] + max(1.0 / count, newest) * (mean - profile[at])
    return (*profile[:at], value, *profile[at + 1 :]), (*seen[:at], count, *seen[at + 1 :])
