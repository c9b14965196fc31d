"""The three things that a forecast does: observe, predict, learn from history.

Total: an observation that is not a finite, sensible number is refused quietly, as if it had not been made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import exp, isfinite, sqrt

from firsttoken_operator.estimate.forecast import level as levels
from firsttoken_operator.estimate.forecast import noise as noises
from firsttoken_operator.estimate.forecast import score as scores
from firsttoken_operator.estimate.forecast import season as seasons
from firsttoken_operator.estimate.forecast import trend as trends
from firsttoken_operator.estimate.forecast.state import (
    Forecast,
    ForecastState,
    LevelState,
    Method,
    Observation,
    Pending,
    SeasonState,
    TrendState,
)

LARGEST_RATE = 1e9
"""Requests a second; more is an error of whoever measured."""
LARGEST_EPOCH = 1e11
"""Seconds; three thousand years."""
LEAST_SPAN = 1.0
LARGEST_SPAN = 86400.0
"""Seconds; no window or horizon is shorter than a second or longer than a day."""
LEAST_ELAPSED = 0.1
"""Seconds; an observation sooner after the last says nothing new."""
LARGEST_GROWTH = 1.0986
"""No method predicts more than three times the level (natural logarithm)."""
UNSEEN_IN_HINDSIGHT = 0.5
"""Share of the filtered level's variance that smoothing leaves: 1 / (2 - gain) in the steady state of a local level."""
LARGEST_CLIMB = 1.28
"""What a jump adds to the trend at most, as a multiple of the level before it."""
PRIOR_HORIZONS = 5.0
"""Independent horizons that the derived deviation is worth beside the measured one."""


def observe(state: ForecastState | None, at: Observation) -> ForecastState:
    """The state after one observation.

    Refused, and the state returned as it is: what is not finite, a negative rate, one above 1e9, a window or a horizon
    under a second or over a day, and a moment already observed. Where the clock was set back, nothing is learned now,
    but from the next tick on. After a gap of more than ten windows the level starts anew; season and scores stay.
    """
    state = state or ForecastState()
    if not _sensible(at):
        return state
    before = state.level
    now = at.epoch_seconds
    if before is not None and now < before.at_seconds + LEAST_ELAPSED:
        return state if now >= before.at_seconds else _set_back(state, before, now)
    level = levels.follow(before, now, at.rate_per_second, at.window_seconds)
    stands_for = levels.stands_for(before, now, at.window_seconds)
    season = seasons.follow(state.season, now, at.rate_per_second, at.window_seconds, stands_for)
    trend = TrendState()
    score = state.score
    if before is not None:
        tie, climbed = 0.0, None
        if level.since_seconds == before.since_seconds:
            tie, climbed = before.variance / levels.variance_at(before, now), level
        elif level.rate > before.rate > 0.0 and now - before.at_seconds <= levels.GAP_WINDOWS * at.window_seconds:
            # NB: a jump counts as a climb of no more than chance could hide; without any, more load would be expected
            # to become less.
            climbed = replace(level, rate=min(level.rate, LARGEST_CLIMB * before.rate))
        if climbed is not None:
            trend = trends.follow(state.trend, before, climbed, seasons.ratio(season, before.at_seconds, now) or 0.0)
        score = scores.follow(score, before.at_seconds, now, level.rate, tie)
    if scores.due(score, now, at.horizon_seconds):
        predictions = _predictions(level, trend, season, now, at.horizon_seconds)
        scale = max(level.rate, 1.0 / at.window_seconds)
        score = scores.remember(score, Pending(now, at.horizon_seconds, scale, predictions), level.rate)
    return ForecastState(state.samples + 1, level, trend, season, score)


def predict(state: ForecastState | None, epoch_seconds: float, horizon_seconds: float) -> Forecast:
    """What to expect from `epoch_seconds` until `horizon_seconds` later; without observations, `samples` is 0.

    A horizon that is no number is 0. A state is not too old to be asked: the level stays, the deviation grows.
    """
    if state is None or state.level is None:
        return Forecast(0.0, 0.0, 0.0, Method.PERSISTENCE, 1.0, 0)
    level = state.level
    now = level.at_seconds
    if isfinite(epoch_seconds):
        now = min(max(epoch_seconds, now), now + LARGEST_SPAN)
    horizon = min(max(horizon_seconds, 0.0), LARGEST_SPAN) if isfinite(horizon_seconds) else 0.0
    method = scores.winner(state.score)
    order = tuple(Method).index(method)
    peak = _predictions(level, state.trend, state.season, now, horizon)[order]
    if peak < 0.0:
        method, order, peak = Method.PERSISTENCE, 0, level.rate
    derived = levels.variance_at(level, now + horizon)
    one = state.score.scores[order]
    measured = one.square * horizon * one.weight / one.seconds if one.seconds > 0.0 else 0.0
    hindsight = one.weight * UNSEEN_IN_HINDSIGHT * level.variance
    total = PRIOR_HORIZONS * derived + measured * level.rate * level.rate + hindsight
    deviation = sqrt(max(total / (PRIOR_HORIZONS + one.weight), level.variance))
    dispersion, _ = noises.estimate(level.noise, level.window_seconds)
    return Forecast(level.rate, peak, deviation, method, dispersion, state.samples)


def learn(points: Iterable[tuple[float, float]], horizon_seconds: float, window_seconds: float) -> ForecastState:
    """The state after a history of (epoch_seconds, rate_per_second) in order; what is not there is not zero.

    Each rate is a mean over the `window_seconds` that end at its time. Points more than ten windows apart teach no
    season: ask for a window about as long as the step. Methods are scored where the step is
    at most half the horizon.
    """
    state = ForecastState()
    for epoch_seconds, rate in points:
        state = observe(state, Observation(epoch_seconds, rate, window_seconds, horizon_seconds))
    return ForecastState(state.samples, None, TrendState(), state.season, scores.forget_pending(state.score))


def _predictions(
    level: LevelState, trend: TrendState, season: SeasonState, now: float, horizon_seconds: float
) -> tuple[float, ...]:
    """The largest rate within the horizon by each `Method`, in their order; -1.0 where it has nothing to say."""
    grown = trends.growth(trend.slope, horizon_seconds)
    usual = seasons.rise(season, now, horizon_seconds)
    plain = level.rate * exp(min(max(grown, 0.0), LARGEST_GROWTH))
    if usual is None:
        return level.rate, plain, -1.0, -1.0
    both = usual + trends.growth(trend.beyond_season, horizon_seconds)
    return (
        level.rate,
        plain,
        level.rate * exp(min(usual, LARGEST_GROWTH)),
        level.rate * exp(min(max(both, 0.0), LARGEST_GROWTH)),
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


def _sensible(at: Observation) -> bool:
    return (
        0.0 <= at.rate_per_second <= LARGEST_RATE
        and abs(at.epoch_seconds) <= LARGEST_EPOCH
        and LEAST_SPAN <= at.window_seconds <= LARGEST_SPAN
        and LEAST_SPAN <= at.horizon_seconds <= LARGEST_SPAN
    )
