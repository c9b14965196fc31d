from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2].parent / "shared/data"


@pytest.fixture(scope="module", autouse=True)
def _data() -> None:
    if not (DATA / "nim_dli.csv").is_file():
        pytest.skip("needs ../shared/data/nim_dli.csv")


def test_every_goal_is_reached() -> None:
    from evaluation.questions import rows

    found = rows(DATA)

    assert [row.points for row in found] == [559, 559]
    assert [row.what for row in found if not row.reached] == []


def test_a_model_that_is_right_makes_no_error_and_one_that_is_too_fast_breaks_limits() -> None:
    """The judge itself: the measured points as predictions, and points that promise half of the latency."""
    from evaluation.folds import folds
    from evaluation.questions import Curve, answers
    from firsttoken_sizing.profile import Latency, Point

    fold = folds(DATA)[0]

    def scaled(point: Point, factor: float) -> Point:
        def times(latency: Latency) -> Latency:
            return Latency(mean=factor * (latency.mean or 0.0))

        return replace(point, ttft=times(point.ttft), itl=times(point.itl), end_to_end=times(point.end_to_end))

    right = list(answers(Curve(fold, fold.points, fold.points), 0.0))
    too_fast = list(answers(Curve(fold, fold.points, tuple(scaled(p, 0.5) for p in fold.points)), 0.0))
    too_slow = list(answers(Curve(fold, fold.points, tuple(scaled(p, 1e3) for p in fold.points)), 0.0))

    assert [(a.capacity_error_percent, a.broken) for a in right] == [(0.0, False)] * len(right)
    assert sum(a.broken for a in too_fast) > len(too_fast) / 3
    assert [a.capacity_error_percent for a in too_slow].count(-100.0) == len(right) - 1
