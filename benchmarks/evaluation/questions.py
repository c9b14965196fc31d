"""Sizing questions: how much does one replica carry inside an SLA, for lengths that were left out?

Every workload of nim_dli.csv under a limit on mean TTFT, mean ITL or mean E2E, and under none. The model answers with
the concurrency that carries most while its latency stays inside the limit less a margin. The answer is compared with
the best measured point inside the limit, and broken where the latency measured at its concurrency is more than 5 % over
it. Two readings of "measured":

* the course's: a concurrency that was measured, for the answer and for the best;
* any concurrency, with the measured curve interpolated (log-linear), as the product does between points.

Left out are the lengths asked about, from the fit and from the choice of the margin. Where neither side finds a point
the two agree that nothing does; a refusal although a point was measured counts as 100 % capacity error, and an answer
although none was measured inside the limit as broken where its own point is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from evaluation.folds import Fold, folds
from evaluation.row import Figure, Row, absolute_errors
from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.closed_loop import predict
from firsttoken_sizing.performance.measured import interpolate
from firsttoken_sizing.profile import Latency, Point

LIMITS_MILLISECONDS: tuple[tuple[str, float], ...] = (
    *(("ttft", limit) for limit in (200, 300, 500, 1000, 2000)),
    *(("itl", limit) for limit in (10, 20, 30, 50)),
    *(("end_to_end", limit) for limit in (2000, 5000, 10000, 20000)),
    ("none", float("inf")),
)
MARGINS = (0.0, 0.025, 0.05, 0.075, 0.1, 0.15)
CAPACITY_GOAL_PERCENT, BROKEN_GOAL_PERCENT = 6.0, 5.0
PEER = "AIConfigurator 0.12: 86 %; 58 %"
_BROKEN = 1.05
_PER_GAP = 4


@dataclass(frozen=True, slots=True)
class Curve:
    """One workload: measured points and the model's at the same concurrencies."""

    fold: Fold
    measured: tuple[Point, ...]
    predicted: tuple[Point, ...]

    @property
    def lengths(self) -> tuple[float, float]:
        """The lengths that the model has not seen."""
        return self.fold.tested.input_tokens, self.fold.tested.output_tokens


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of one question."""

    capacity_error_percent: float
    """Error in the requests a second; -100 for a refusal although a point was measured; NaN where none was."""
    broken: bool


def rows(data: Path) -> list[Row]:
    """Capacity error and broken answers, in both readings of what was measured."""
    course, between = (_figures(_curves(data, per_gap)) for per_gap in (1, _PER_GAP))
    left_out = "the workload asked about"
    margin = f"margin {100 * PARAMETERS.capacity.latency_margin:g} %"
    return [
        Row(f"sizing questions, measured concurrencies, {margin}", left_out, *course, PEER),
        Row(f"sizing questions, any concurrency, {margin}", left_out, *between, PEER),
    ]


def answers(curve: Curve, margin: float) -> Iterator[Answer]:
    """The answers to every question about one workload; none where both sides say that nothing is inside."""
    for metric, limit in LIMITS_MILLISECONDS:
        inside = [i for i, p in enumerate(curve.predicted) if _mean(p, metric) <= limit * (1 - margin)]
        best = max((p.requests_per_second for p in curve.measured if _mean(p, metric) <= limit), default=None)
        if inside:
            chosen = max(inside, key=lambda i: curve.predicted[i].requests_per_second)
            capacity = curve.predicted[chosen].requests_per_second
            error = float("nan") if best is None else 100 * (capacity / best - 1)
            yield Answer(error, _mean(curve.measured[chosen], metric) > _BROKEN * limit)
        elif best is not None:
            yield Answer(-100.0, broken=False)


def margin_without(curves: Sequence[Curve], lengths: tuple[float, float]) -> float:
    """The smallest margin with few enough broken answers about all other lengths."""
    others = [c for c in curves if c.lengths != lengths]
    return next((m for m in MARGINS if _broken_percent(others, m) < BROKEN_GOAL_PERCENT), MARGINS[-1])


def _figures(curves: Sequence[Curve]) -> tuple[int, tuple[Figure, ...]]:
    given = [answer for curve in curves for answer in answers(curve, PARAMETERS.capacity.latency_margin)]
    chosen = [answer for curve in curves for answer in answers(curve, margin_without(curves, curve.lengths))]
    median, mean = absolute_errors(_known(given), median=CAPACITY_GOAL_PERCENT)
    return len(given), (
        Figure("capacity error, median", median.value, median.goal),
        Figure("capacity error, mean", mean.value),
        Figure("broken", _share(given), BROKEN_GOAL_PERCENT),
        Figure("broken, margin chosen by the other lengths", _share(chosen), BROKEN_GOAL_PERCENT),
    )


def _known(given: Sequence[Answer]) -> list[float]:
    return [a.capacity_error_percent for a in given if not np.isnan(a.capacity_error_percent)]


def _share(given: Sequence[Answer]) -> float:
    return 100 * sum(a.broken for a in given) / len(given)


def _broken_percent(curves: Sequence[Curve], margin: float) -> float:
    return _share([answer for curve in curves for answer in answers(curve, margin)])


def _mean(point: Point, metric: str) -> float:
    if metric == "none":
        return 0.0
    latency: Latency = getattr(point, metric)
    return float("inf") if latency.mean is None else latency.mean


@cache
def _curves(data: Path, per_gap: int) -> tuple[Curve, ...]:
    """Every workload, at the measured concurrencies or with `per_gap` - 1 whole ones between each two."""
    return tuple(_curve(fold, per_gap) for fold in folds(data))


def _curve(fold: Fold, per_gap: int) -> Curve:
    measured = fold.points if per_gap == 1 else interpolate(fold.points, per_gap)
    scheduler = Scheduler()
    # NB: a concurrency between two measured ones need not be whole, and the model's must be.
    near = [max(1, round(p.concurrency or 1.0)) for p in measured]
    return Curve(fold, tuple(measured), tuple(predict(fold.step, fold.lengths, c, scheduler) for c in near))
