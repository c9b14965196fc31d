"""The three things that a forecast does: observe, predict, learn from history.

Total: an observation that is not a finite, sensible number is refused quietly, as if it had not been made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import exp, isfinite, sqrt

from firsttoken_operator.estimate.forecast import level as levels
from firsttoken_operator.estimate.forecast import noise as noises
from firsttoken_operator.estimate.forecast import score as scores
from firsttoken_operator.estimate.forecast import season as seasons
from firsttoken_operator.estimate.forecast import trend as trends
from firsttoken_operator.estimate.forecast.level import LevelState
from firsttoken_operator.estimate.forecast.score import Method, Pending, ScoreState
from firsttoken_operator.estimate.forecast.season import SeasonState
from firsttoken_operator.estimate.forecast.trend import TrendState
from firsttoken_operator.estimate.forecast_config import ForecastConfig


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
    """Expectation between now and the horizon. `samples` 0: nothing was observed and all rates are 0."""

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
class ForecastState:
    """All that the forecast of one resource remembers."""

    samples: int = 0
    level: LevelState | None = None
    trend: TrendState = field(default_factory=TrendState)
    season: SeasonState = field(default_factory=SeasonState)
    score: ScoreState = field(default_factory=ScoreState)


def observe(state: ForecastState | None, at: Observation, config: ForecastConfig) -> ForecastState:
    """The state after one observation.

    Refused, and the state returned as it is: what is not finite, a negative rate, one above 1e9, a window or a horizon
    under a second or over a day, and a moment already observed. Where the clock was set back, nothing is learned now,
    but from the next tick on. After a gap of more than ten windows the level starts anew; season and scores stay.
    """
    state = state or ForecastState()
    if not _sensible(at, config):
        return state
    before = state.level
    now = at.epoch_seconds
    if before is not None and now < before.at_seconds + config.least_elapsed_seconds:
        return state if now >= before.at_seconds else _set_back(state, before, now)
    level = levels.follow(before, now, at.rate_per_second, at.window_seconds, config)
    stands_for = levels.stands_for(before, now, at.window_seconds, config)
    season = seasons.follow(state.season, now, at.rate_per_second, at.window_seconds, stands_for, config.season)
    trend = TrendState()
    score = state.score
    if before is not None:
        tie, climbed = 0.0, None
        if level.since_seconds == before.since_seconds:
            tie, climbed = before.variance / levels.variance_at(before, now, config), level
        elif level.rate > before.rate > 0.0 and now - before.at_seconds <= config.level.gap_windows * at.window_seconds:
            # NB: a jump counts as a climb of no more than chance could hide; without any, more load would be expected
            # to become less.
            climbed = replace(level, rate=min(level.rate, config.most_climb * before.rate))
        if climbed is not None:
            seasonal = seasons.ratio(season, before.at_seconds, now, config.season) or 0.0
            trend = trends.follow(state.trend, before, climbed, seasonal, config.trend)
        score = scores.follow(score, before.at_seconds, now, level.rate, tie, config.score)
    if scores.due(score, now, at.horizon_seconds, config.score):
        predictions = _predictions(level, trend, season, now, at.horizon_seconds, config)
        scale = max(level.rate, 1.0 / at.window_seconds)
        pending = Pending(now, at.horizon_seconds, scale, predictions)
        score = scores.remember(score, pending, level.rate, config.score)
    return ForecastState(state.samples + 1, level, trend, season, score)


def predict(
    state: ForecastState | None, epoch_seconds: float, horizon_seconds: float, config: ForecastConfig
) -> Forecast:
    """Predict from `epoch_seconds` until `horizon_seconds` later; without observations, `samples` is 0.

    A horizon that is no number is 0. A state is not too old to be asked: the level stays, the deviation grows.
    """
    if state is None or state.level is None:
        return Forecast(0.0, 0.0, 0.0, Method.PERSISTENCE, 1.0, 0)
    level = state.level
    now = level.at_seconds
    if isfinite(epoch_seconds):
        now = min(max(epoch_seconds, now), now + config.most_span_seconds)
    horizon = min(max(horizon_seconds, 0.0), config.most_span_seconds) if isfinite(horizon_seconds) else 0.0
    method = scores.winner(state.score, config.score)
    order = tuple(Method).index(method)
    peak = _predictions(level, state.trend, state.season, now, horizon, config)[order]
    if peak < 0.0:
        method, order, peak = Method.PERSISTENCE, 0, level.rate
    derived = levels.variance_at(level, now + horizon, config)
    one = state.score.scores[order]
    measured = one.square * horizon * one.weight / one.seconds if one.seconds > 0.0 else 0.0
    hindsight = one.weight * config.hindsight_share * level.variance
    total = config.prior_horizons * derived + measured * level.rate * level.rate + hindsight
    deviation = sqrt(max(total / (config.prior_horizons + one.weight), level.variance))
    dispersion, _ = noises.estimate(level.noise, level.window_seconds, config.noise)
    return Forecast(level.rate, peak, deviation, method, dispersion, state.samples)


def learn(
    points: Iterable[tuple[float, float]], horizon_seconds: float, window_seconds: float, config: ForecastConfig
) -> ForecastState:
    """The state after a history of (epoch_seconds, rate_per_second) in order; what is not there is not zero.

    Each rate is a mean over the `window_seconds` that end at its time. Points more than ten windows apart update no
    season: ask for a window about as long as the step. Methods are scored where the step is
    at most half the horizon.
    """
    state = ForecastState()
    for epoch_seconds, rate in points:
        state = observe(state, Observation(epoch_seconds, rate, window_seconds, horizon_seconds), config)
    return ForecastState(state.samples, None, TrendState(), state.season, scores.forget_pending(state.score))


def _predictions(
    level: LevelState,
    trend: TrendState,
    season: SeasonState,
    now: float,
    horizon_seconds: float,
    config: ForecastConfig,
) -> tuple[float, ...]:
    """The largest rate within the horizon by each `Method`, in their order; -1.0 where it has nothing to say."""
    grown = trends.growth(trend.slope, horizon_seconds, config.trend)
    usual = seasons.rise(season, now, horizon_seconds, config.season)
    plain = level.rate * exp(min(max(grown, 0.0), config.most_growth))
    if usual is None:
        return level.rate, plain, -1.0, -1.0
    both = usual + trends.growth(trend.beyond_season, horizon_seconds, config.trend)
    return (
        level.rate,
        plain,
        level.rate * exp(min(usual, config.most_growth)),
        level.rate * exp(min(max(both, 0.0), config.most_growth)),
    )


def _set_back(state: ForecastState, level: LevelState, now: float) -> ForecastState:
    """The clock jumped back: nothing is learned, but the next observation is later than this one again."""
    return ForecastState(
        state.samples,
        levels.moved(level, now),
        state.trend,
        seasons.forget_hour(state.season),
        scores.forget_pending(state.score),
    )


def _sensible(at: Observation, config: ForecastConfig) -> bool:
    return (
        0.0 <= at.rate_per_second <= config.most_rate_per_second
        and abs(at.epoch_seconds) <= config.most_epoch_seconds
        and config.least_span_seconds <= at.window_seconds <= config.most_span_seconds
        and config.least_span_seconds <= at.horizon_seconds <= config.most_span_seconds
    )
