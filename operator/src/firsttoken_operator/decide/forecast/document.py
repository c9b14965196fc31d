"""A forecast's state as a JSON document and back.

Total: a document that is broken, of another version, or holds a number that no state can hold gives an empty state,
because a forecast that starts anew is only less sharp. Nothing is repaired: half a state may contradict itself.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from math import isfinite
from typing import Any

from firsttoken_operator.decide.forecast.state import (
    ForecastState,
    LevelState,
    Method,
    NoiseState,
    Pending,
    Score,
    ScoreState,
    SeasonState,
    TrendState,
)

VERSION = 1
_SCORE = tuple(each.name for each in fields(Score))
LARGEST = 1e30
"""No sum in a state comes near."""
LEAST = 1e-30
"""Nor does what is divided by."""


def to_document(state: ForecastState) -> dict[str, Any]:
    """Mappings, lists and numbers only, as `json.dumps` takes them."""
    return {"version": VERSION, **asdict(state)}


def from_document(document: object) -> ForecastState:
    """The state that `to_document` wrote, equal to the original; an empty one where it cannot be."""
    try:
        return _state(document)
    except (KeyError, TypeError, ValueError, OverflowError):
        return ForecastState()


def _state(document: Any) -> ForecastState:
    if document["version"] != VERSION:
        raise ValueError("version")
    level = document["level"]
    trend = document["trend"]
    return ForecastState(
        samples=_whole(document["samples"]),
        level=None if level is None else _level(level),
        trend=TrendState(_number(trend["slope"]), _number(trend["beyond_season"])),
        season=_season(document["season"]),
        score=_score(document["score"]),
    )


def _level(document: Any) -> LevelState:
    noise = document["noise"]
    return LevelState(
        at_seconds=_number(document["at_seconds"]),
        since_seconds=_number(document["since_seconds"]),
        window_seconds=_positive(document["window_seconds"]),
        rate=_natural(document["rate"]),
        variance=_positive(document["variance"]),
        direction=_whole(document["direction"], -1, 1),
        noise=NoiseState(
            weight=_positive(noise["weight"]),
            rate=_positive(noise["rate"]),
            near=_natural(noise["near"]),
            far=_natural(noise["far"]),
            blocks=tuple(_natural(each) for each in noise["blocks"]),
            block_seconds=_number(noise["block_seconds"]),
        ),
    )


def _season(document: Any) -> SeasonState:
    return SeasonState(
        hour=_whole(document["hour"], -(10**9), 10**9),
        total=_natural(document["total"]),
        seconds=_natural(document["seconds"]),
        day=tuple(_number(each) for each in _of_length(document["day"], 24)),
        day_seen=tuple(_whole(each) for each in _of_length(document["day_seen"], 24)),
        week=tuple(_number(each) for each in _of_length(document["week"], 168)),
        week_seen=tuple(_whole(each) for each in _of_length(document["week_seen"], 168)),
    )


def _score(document: Any) -> ScoreState:
    scores = _of_length(document["scores"], len(Method))
    return ScoreState(
        path=tuple((_number(at), _natural(rate), _natural(tie)) for at, rate, tie in document["path"]),
        pending=tuple(_pending(each) for each in document["pending"]),
        scored_seconds=_number(document["scored_seconds"]),
        scores=tuple(Score(*(_natural(each[name]) for name in _SCORE)) for each in scores),
    )


def _pending(document: Any) -> Pending:
    predictions = _of_length(document["predictions"], len(Method))
    return Pending(
        start_seconds=_number(document["start_seconds"]),
        horizon_seconds=_positive(document["horizon_seconds"]),
        scale=_positive(document["scale"]),
        predictions=tuple(_number(each) for each in predictions),
    )


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("not a number")
    if not isfinite(value) or abs(value) > LARGEST:
        raise ValueError("not a number that a state can hold")
    return float(value)


def _natural(value: Any) -> float:
    number = _number(value)
    if number < 0.0:
        raise ValueError("negative")
    return number


def _positive(value: Any) -> float:
    number = _number(value)
    if number < LEAST:
        raise ValueError("not positive")
    return number


def _whole(value: Any, least: int = 0, most: int = 10**15) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError("not a whole number in range")
    return value


def _of_length(values: Any, length: int) -> Any:
    if len(values) != length:
        raise ValueError("length")
    return values
