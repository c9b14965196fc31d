"""Choice of a method: each one's predictions are remembered and compared with what then came.

A method other than persistence is used only while its mean absolute error is lower than that of persistence over the
same times by a margin, over enough horizons.

What came is the largest rate within the horizon, seen in hindsight: the filtered levels smoothed backwards from the
horizon's end (Rauch, Tung and Striebel, AIAA Journal 3, 1965; Durbin and Koopman 2012, ch. 4).
NB: not the largest filtered level. A filter lags and wanders, and methods would be praised for predicting that: on the
shared traces a trend then seems 10 % better than persistence where against the true rate it is 2 % better.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import exp

from firsttoken_operator.estimate.forecast_config import ScoreConfig


class Method(StrEnum):
    """Method by which the largest rate within the horizon was predicted."""

    PERSISTENCE = "Persistence"
    """The rate stays what it is."""
    TREND = "Trend"
    """Growth that goes on as it does now, less and less."""
    SEASON = "Season"
    """Rate that moves as it moved at this time of the day on other days."""
    SEASON_TREND = "SeasonTrend"
    """Rate that moves as on other days, and what it grew beyond that goes on, less and less."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Predictions made at `start_seconds` of the largest rate until `horizon_seconds` later, not yet scored."""

    start_seconds: float
    horizon_seconds: float
    scale: float
    """Divisor of errors: the level then, at least one request in a window."""
    predictions: tuple[float, ...]
    """Predictions in the order of `Method`; negative: the method had nothing to say."""


@dataclass(frozen=True, slots=True)
class Score:
    """Comparison of one method with persistence: exponentially forgotten sums over the same times.

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
    """Observations since the oldest of them: time, filtered rate, and how strongly the one before is tied to it."""
    pending: tuple[Pending, ...] = ()
    scored_seconds: float = 0.0
    """Time of the last comparison."""
    scores: tuple[Score, ...] = (Score(), Score(), Score(), Score())
    """Scores in the order of `Method`."""


def follow(
    score: ScoreState, before_seconds: float, at_seconds: float, level: float, tie: float, config: ScoreConfig
) -> ScoreState:
    """The scoreboard after the level at `at_seconds`; what has reached its horizon is scored.

    `tie` is the smoother's gain between the level before and this one: 0 where the level was started anew.
    """
    gap = at_seconds - before_seconds
    waiting: list[Pending] = []
    ready: list[Pending] = []
    for each in score.pending:
        if gap <= config.most_gap_horizons * each.horizon_seconds:
            (ready if at_seconds > each.start_seconds + each.horizon_seconds else waiting).append(each)
    path = (*score.path, (at_seconds, level, tie))[-config.most_observations :]
    if not ready:
        return ScoreState(path, tuple(waiting), score.scored_seconds, score.scores)
    scores, scored_seconds = score.scores, score.scored_seconds
    for each in ready:
        if path[0][0] > each.start_seconds:
            continue
        keep = exp(-max(at_seconds - scored_seconds, 0.0) / config.memory_seconds)
        scored_seconds = at_seconds
        came = _largest(path, each)
        base = _error(each.predictions[0], came, each, config)
        scores = tuple(
            _compared(one, keep, predicted, came, base, each, config)
            for one, predicted in zip(scores, each.predictions, strict=True)
        )
    oldest = waiting[0].start_seconds if waiting else at_seconds
    path = tuple(point for point in path if point[0] >= oldest)
    return ScoreState(path, tuple(waiting), scored_seconds, scores)


def due(score: ScoreState, at_seconds: float, horizon_seconds: float, config: ScoreConfig) -> bool:
    """Tell whether it is time to remember another prediction."""
    stride = config.stride_horizons * horizon_seconds
    return not score.pending or at_seconds - score.pending[-1].start_seconds >= stride


def remember(score: ScoreState, new: Pending, level: float, config: ScoreConfig) -> ScoreState:
    """The scoreboard with one more prediction that waits, made at this level."""
    path = score.path or ((new.start_seconds, level, 0.0),)
    return ScoreState(path, (*score.pending[1 - config.most_pending :], new), score.scored_seconds, score.scores)


def forget_pending(score: ScoreState) -> ScoreState:
    """The scoreboard without what waits: its times mean nothing any more."""
    return ScoreState((), (), score.scored_seconds, score.scores)


def winner(score: ScoreState, config: ScoreConfig) -> Method:
    """The method with the lowest error relative to persistence, where that is proven, else persistence."""
    best, lowest = Method.PERSISTENCE, 1.0 - config.margin
    for method, one in zip(Method, score.scores, strict=True):
        if one.weight >= config.least_horizons and one.error < lowest * one.persistence:
            best, lowest = method, one.error / one.persistence
    return best


def _largest(path: tuple[tuple[float, float, float], ...], pending: Pending) -> float:
    """The largest smoothed rate from the start of the prediction until its horizon."""
    _, smoothed, tie = path[-1]
    largest = 0.0
    end = pending.start_seconds + pending.horizon_seconds
    for at_seconds, level, earlier in reversed(path[:-1]):
        smoothed = level + tie * (smoothed - level)
        tie = earlier
        if at_seconds < pending.start_seconds:
            break
        if at_seconds <= end and smoothed > largest:
            largest = smoothed
    return largest


def _error(predicted: float, came: float, pending: Pending, config: ScoreConfig) -> float:
    return min(abs(predicted - came) / pending.scale, config.most_error)


def _compared(
    one: Score, keep: float, predicted: float, came: float, base: float, pending: Pending, config: ScoreConfig
) -> Score:
    if predicted < 0.0:
        return Score(one.weight * keep, one.error * keep, one.persistence * keep, one.square * keep, one.seconds * keep)
    error, stride = _error(predicted, came, pending, config), config.stride_horizons
    return Score(
        one.weight * keep + stride,
        one.error * keep + stride * error,
        one.persistence * keep + stride * base,
        one.square * keep + stride * error * error,
        one.seconds * keep + stride * pending.horizon_seconds,
    )
