"""Which method to believe: each one's predictions are remembered and compared with what then came.

A method other than persistence is used only while its mean absolute error is lower than that of persistence over the
same times by a margin, over enough horizons.

What came is the largest rate within the horizon, seen in hindsight: the filtered levels smoothed backwards from the
horizon's end (Rauch, Tung and Striebel, AIAA Journal 3, 1965; Durbin and Koopman 2012, ch. 4).
NB: not the largest filtered level. A filter lags and wanders, and methods would be praised for predicting that: on the
shared traces a trend then seems 10 % better than persistence where against the true rate it is 2 % better.
"""

from __future__ import annotations

from math import exp

from firsttoken_operator.estimate.forecast.state import Method, Pending, Score, ScoreState

MEMORY_SECONDS = 86400.0
"""A comparison counts 1/e after this time."""
STRIDE = 0.25
"""A prediction is remembered every so many horizons."""
LEAST_WEIGHT = 20.0
"""Independent horizons before a method may be used."""
MARGIN = 0.03
"""How much lower its error must be, as a share of that of persistence."""
MOST_PENDING = 8
"""More wait only where the horizon shrinks; the oldest are forgotten."""
LONGEST_PATH = 256
"""Observations that are kept: 64 minutes at a tick of 15 s; longer horizons are not scored, and persistence is used."""
MAX_GAP = 0.5
"""A prediction is not scored where the rate was not observed for longer than this share of its horizon."""

LARGEST_ERROR = 2.0
"""Relative; one jump to ten times the rate would else be all that a day's deviation shows."""


def follow(score: ScoreState, before_seconds: float, at_seconds: float, level: float, tie: float) -> ScoreState:
    """The scoreboard after the level at `at_seconds`; what has reached its horizon is scored.

    `tie` is the smoother's gain between the level before and this one: 0 where the level was started anew.
    """
    gap = at_seconds - before_seconds
    waiting: list[Pending] = []
    ready: list[Pending] = []
    for each in score.pending:
        if gap <= MAX_GAP * each.horizon_seconds:
            (ready if at_seconds > each.start_seconds + each.horizon_seconds else waiting).append(each)
    path = (*score.path, (at_seconds, level, tie))[-LONGEST_PATH:]
    if not ready:
        return ScoreState(path, tuple(waiting), score.scored_seconds, score.scores)
    scores, scored_seconds = score.scores, score.scored_seconds
    for each in ready:
        if path[0][0] > each.start_seconds:
            continue
        keep = exp(-max(at_seconds - scored_seconds, 0.0) / MEMORY_SECONDS)
        scored_seconds = at_seconds
        came = _largest(path, each)
        base = _error(each.predictions[0], came, each)
        scores = tuple(
            _compared(one, keep, predicted, came, base, each)
            for one, predicted in zip(scores, each.predictions, strict=True)
        )
    oldest = waiting[0].start_seconds if waiting else at_seconds
    path = tuple(point for point in path if point[0] >= oldest)
    return ScoreState(path, tuple(waiting), scored_seconds, scores)


def due(score: ScoreState, at_seconds: float, horizon_seconds: float) -> bool:
    """Whether it is time to remember another prediction."""
    return not score.pending or at_seconds - score.pending[-1].start_seconds >= STRIDE * horizon_seconds


def remember(score: ScoreState, new: Pending, level: float) -> ScoreState:
    """The scoreboard with one more prediction that waits, made at this level."""
    path = score.path or ((new.start_seconds, level, 0.0),)
    return ScoreState(path, (*score.pending[1 - MOST_PENDING :], new), score.scored_seconds, score.scores)


def forget_pending(score: ScoreState) -> ScoreState:
    """The scoreboard without what waits: its times mean nothing any more."""
    return ScoreState((), (), score.scored_seconds, score.scores)


def winner(score: ScoreState) -> Method:
    """The method with the lowest error relative to persistence, where that is proven, else persistence."""
    best, lowest = Method.PERSISTENCE, 1.0 - MARGIN
    for method, one in zip(Method, score.scores, strict=True):
        if one.weight >= LEAST_WEIGHT and one.error < lowest * one.persistence:
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


def _error(predicted: float, came: float, pending: Pending) -> float:
    return min(abs(predicted - came) / pending.scale, LARGEST_ERROR)


def _compared(one: Score, keep: float, predicted: float, came: float, base: float, pending: Pending) -> Score:
    if predicted < 0.0:
        return Score(one.weight * keep, one.error * keep, one.persistence * keep, one.square * keep, one.seconds * keep)
    error = _error(predicted, came, pending)
    return Score(
        one.weight * keep + STRIDE,
        one.error * keep + STRIDE * error,
        one.persistence * keep + STRIDE * base,
        one.square * keep + STRIDE * error * error,
        one.seconds * keep + STRIDE * pending.horizon_seconds,
    )
