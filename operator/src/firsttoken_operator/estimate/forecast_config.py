"""Constants of the forecast, by its parts; `config` says what the words for their sources mean."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseConfig:
    """Constants of `forecast.noise`: counting noise and movement of the rate, told apart."""

    far_lag_windows: int = 5
    """The longer of two lags. Chosen."""
    memory_windows: float = 360.0
    """Windows after which a pair counts 1/e: 6 h at 60 s, long enough to see a thousandth of a rate move. Chosen."""
    prior_windows: float = 10.0
    """Prior weight of the two below. Chosen."""
    prior_dispersion: float = 1.0
    """Variance-to-mean ratio of a window's requests. Chosen: that of Poisson arrivals."""
    prior_movement_per_second: float = 0.02**2 / 60.0
    """Relative variance: 2 % in a minute, 15 % in an hour. Chosen."""
    least_dispersion: float = 0.1
    """Variance-to-mean ratio that the measured one does not fall below. Chosen: arrivals are hardly ever so even."""
    most_dispersion: float = 1000.0
    """Variance-to-mean ratio that the measured one does not exceed. Chosen."""
    least_movement_per_second: float = 0.01**2 / 60.0
    """1 % in a minute. Chosen: a filter must never stand still."""
    most_movement_per_second: float = 0.2**2 / 60.0
    """20 % in a minute. Chosen; faster ones are jumps."""
    outlier_variances: float = 16.0
    """Times what was expected that a squared difference counts at most; derived: 4 standard deviations."""
    least_step_windows: float = 0.999
    """Windows between two that are compared; derived: disjoint ones, but for rounding of the clock."""
    most_step_windows: float = 1.5
    """More, and they are no neighbors. Chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelConfig:
    """Constants of `forecast.level`: the filtered rate."""

    gap_windows: float = 10.0
    """Unobserved for longer, the level starts anew. Chosen."""
    suspicious_deviations: float = 3.5
    """Size of an innovation that, twice in a row in one direction, is a jump. Chosen: one in 2,000 by chance."""
    certain_deviations: float = 6.0
    """Size of an innovation that is a jump at once. Chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendConfig:
    """Constants of `forecast.trend`."""

    memory_seconds: float = 300.0
    """Time that the slope is an average over. Chosen; not tuned."""
    damping_seconds: float = 150.0
    """Time in which a slope fades to 1/e. Chosen; not tuned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeasonConfig:
    """Constants of `forecast.season`: hours of the day and of the week."""

    least_days: int = 2
    """Days that an hour must have been seen on before it is used. Chosen."""
    most_days: int = 1000
    """Days that are counted; more change nothing, since the newest has a least weight. Chosen."""
    newest_day_weight: float = 0.15
    """Weight at least: a day of ten days ago counts a fifth of it. Chosen."""
    newest_week_weight: float = 0.3
    """The same of the profile of the week. Chosen."""
    prior_weeks: float = 2.0
    """Prior weight of the day's profile beside the week's. Chosen."""
    least_observed_seconds: float = 1800.0
    """Observed time of an hour that is learned. Chosen: half of it."""
    least_rate_per_second: float = 1.0 / 3600.0
    """A quieter hour counts as one with a single request: ratios to nothing mean nothing. Derived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreConfig:
    """Constants of `forecast.score`: each method against persistence."""

    memory_seconds: float = 86400.0
    """Time after which a comparison counts 1/e. Chosen."""
    stride_horizons: float = 0.25
    """Horizons between two predictions that are remembered; one counts as so much of an independent one. Chosen."""
    least_horizons: float = 20.0
    """Independent ones before a method may be used. Chosen."""
    margin: float = 0.03
    """Share of the error of persistence, by which a method's must be lower. Chosen above the 2 %
    that a trend gains on the recorded weeks."""
    most_pending: int = 8
    """Predictions that wait; derived: 4 wait at a stride of 0.25, and more only where the horizon shrinks."""
    most_observations: int = 256
    """Observations that are kept: 64 minutes at 15 s. Longer horizons are not scored: persistence is used. Chosen for
    memory."""
    most_gap_horizons: float = 0.5
    """Horizons without an observation after which a prediction is not scored. Chosen."""
    most_error: float = 2.0
    """Relative; one jump to ten times the rate would else be all that a day's deviation shows. Chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastConfig:
    """Constants of `forecast`: its parts, and what it refuses."""

    noise: NoiseConfig = NoiseConfig()
    level: LevelConfig = LevelConfig()
    trend: TrendConfig = TrendConfig()
    season: SeasonConfig = SeasonConfig()
    score: ScoreConfig = ScoreConfig()
    most_rate_per_second: float = 1e9
    """More is a fault of the counters. Chosen."""
    most_epoch_seconds: float = 1e11
    """More is a fault of the clock. Chosen: three thousand years."""
    least_span_seconds: float = 1.0
    """Length of a window or a horizon; any shorter is refused. Chosen."""
    most_span_seconds: float = 86400.0
    """The same above: any longer is refused."""
    least_elapsed_seconds: float = 0.1
    """An observation sooner after the last says nothing new. Chosen."""
    most_growth: float = 1.0986
    """Natural logarithm; no method predicts more than three times the level. Chosen."""
    most_climb: float = 1.28
    """Growth that a jump adds to the trend at most, in levels before it. Chosen: what chance could hide."""
    hindsight_share: float = 0.5
    """Share of the filtered level's variance that smoothing leaves; derived: 1 / (2 - gain) in the steady state."""
    prior_horizons: float = 5.0
    """Prior weight of the derived deviation beside the measured one, in independent horizons. Chosen."""
