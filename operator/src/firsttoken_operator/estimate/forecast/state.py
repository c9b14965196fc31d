"""The values of the forecast: what is observed, what is remembered, what is predicted.

Everything is frozen and made of floats, ints and tuples, so that a state can be compared and copied.
Nothing is computed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Method(StrEnum):
    """How the largest rate within the horizon was predicted."""

    PERSISTENCE = "Persistence"
    """The rate stays what it is."""
    TREND = "Trend"
    """It goes on growing as it does now, less and less."""
    SEASON = "Season"
    """It moves as it moved at this time of the day on other days."""
    SEASON_TREND = "SeasonTrend"
    """It moves as on other days, and what it grew beyond that goes on, less and less."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The work-weighted arrival rate, requests a second, over the `window_seconds` that end at `epoch_seconds`.

    Requests are weighted by their work relative to the mean, so that one is about one: `dispersion` and the least rate
    that the filter tells from zero, one request in a window, rest on that. `horizon_seconds` is the time that a new
    replica needs now: how far ahead predictions will be scored.
    """

    epoch_seconds: float
    rate_per_second: float
    window_seconds: float
    horizon_seconds: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected between now and the horizon. `samples` 0: nothing was observed and all rates are 0."""

    level_per_second: float
    """The rate now with the counting noise removed."""
    peak_per_second: float
    """The largest such rate expected until the horizon; never below the level."""
    deviation_per_second: float
    """Root mean square error of `peak_per_second`: measured where it was scored, else derived from the noise."""
    method: Method
    dispersion: float
    """Variance-to-mean ratio of the requests counted in one window, as measured; 1 is Poisson."""
    samples: int
    """Observations so far."""


@dataclass(frozen=True, slots=True)
class NoiseState:
    """Exponentially forgotten sums over pairs of disjoint windows, each divided by the rate at the time."""

    weight: float
    rate: float
    """Sum of the rates, requests a second."""
    near: float
    """Sum of squared differences between neighbouring windows, over the rate."""
    far: float
    """The same between windows `noise.FAR` windows apart."""
    blocks: tuple[float, ...] = ()
    """Rates of the last disjoint windows, oldest first; emptied where the series is broken."""
    block_seconds: float = 0.0
    """When the last of them ended."""


@dataclass(frozen=True, slots=True)
class LevelState:
    """A local level: the filtered rate, its variance, and the noise that both rest on."""

    at_seconds: float
    since_seconds: float
    """When it was last started anew: at the first observation, after a gap, at a jump."""
    window_seconds: float
    rate: float
    variance: float
    """Of the error of `rate`, (requests a second) squared."""
    direction: int
    """+1 or -1 where the last innovation was suspiciously large, else 0."""
    noise: NoiseState


@dataclass(frozen=True, slots=True)
class TrendState:
    """Damped trends of the level, relative to it, a second."""

    slope: float = 0.0
    """Of the level."""
    beyond_season: float = 0.0
    """Of the level divided by the season."""


@dataclass(frozen=True, slots=True)
class SeasonState:
    """What the rate was by hour: natural logarithms of hourly means, one profile of a day and one of a week."""

    hour: int = 0
    """The hour now being observed, counted from the epoch."""
    total: float = 0.0
    """Rates observed in it times the seconds that they stand for."""
    seconds: float = 0.0
    """Those seconds."""
    day: tuple[float, ...] = (0.0,) * 24
    day_seen: tuple[int, ...] = (0,) * 24
    """On how many days each was seen; 0: its logarithm means nothing."""
    week: tuple[float, ...] = (0.0,) * 168
    week_seen: tuple[int, ...] = (0,) * 168


@dataclass(frozen=True, slots=True)
class Pending:
    """Predictions made at `start_seconds` of the largest rate until `horizon_seconds` later, not yet scored."""

    start_seconds: float
    horizon_seconds: float
    scale: float
    """What errors are divided by: the level then, at least one request in a window."""
    predictions: tuple[float, ...]
    """In the order of `Method`; negative: the method had nothing to say."""


@dataclass(frozen=True, slots=True)
class Score:
    """How one method did against persistence: exponentially forgotten sums over the same comparisons.

    Errors are relative to the level at which the prediction was made (`Pending.scale`).
    """

    weight: float = 0.0
    """Independent horizons: four predictions a quarter of a horizon apart count as one."""
    error: float = 0.0
    """Absolute errors."""
    persistence: float = 0.0
    """Absolute errors of persistence at the same times."""
    square: float = 0.0
    """Squared errors."""
    seconds: float = 0.0
    """Horizons."""


@dataclass(frozen=True, slots=True)
class ScoreState:
    """The scoreboard: predictions that wait for their horizon to pass, and one score a method."""

    path: tuple[tuple[float, float, float], ...] = ()
    """What came since the oldest of them: time, filtered rate, and how strongly the one before is tied to it."""
    pending: tuple[Pending, ...] = ()
    scored_seconds: float = 0.0
    """When the last comparison was made."""
    scores: tuple[Score, ...] = (Score(), Score(), Score(), Score())
    """In the order of `Method`."""


@dataclass(frozen=True, slots=True)
class ForecastState:
    """All that the forecast of one resource remembers."""

    samples: int = 0
    level: LevelState | None = None
    trend: TrendState = TrendState()
    season: SeasonState = SeasonState()
    score: ScoreState = ScoreState()
