"""Latencies of a closed loop for lengths that were left out: TTFT, ITL and E2E of nim_dli.csv.

Left out are the lengths from the fit of the step model, and from the choice of the two constants that the split of E2E
into TTFT and ITL has: the hand-over time of the front end and the prompt tokens of a step. They are chosen again for
each pair of lengths, by the median error of TTFT over all others. Overload windows (X * E2E / c < 0.9) are left out;
runs that queue for KV memory are in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from evaluation.folds import Fold, batch_limit, folds, lengths_of, sound_points
from evaluation.row import Row, absolute_errors
from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.performance.closed_loop import BenchmarkClients, predict
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import Point
from firsttoken_sizing.step.model import StepModel

HANDOVERS_SECONDS = (0.001, 0.0025, 0.004)
STEP_TOKENS = (16384, 32768, 65536)
_CHOSEN_BY = (5, 50, 150)
"""Concurrencies that the constants are chosen by: every part of the curve, in a third of the time."""


@dataclass(frozen=True, slots=True)
class Constants:
    """Facts that the split is given besides the step model."""

    handover_seconds: float
    step_tokens: int

    def predict(self, step: StepModel, lengths: Lengths, concurrency: float) -> Point:
        """The operating point with these constants."""
        clients = BenchmarkClients(handover_seconds=self.handover_seconds)
        return predict(step, lengths, round(concurrency), Scheduler(self.step_tokens), clients)


def rows(data: Path) -> list[Row]:
    """TTFT, ITL and E2E."""
    errors: dict[str, list[float]] = defaultdict(list)
    for fold in folds(data):
        constants = chosen_without(data, fold.tested.input_tokens, fold.tested.output_tokens)
        for point in fold.points:
            predicted = constants.predict(fold.step, fold.lengths, point.concurrency or 1.0)
            errors["TTFT"].append(_error(predicted.ttft.mean, point.ttft.mean))
            errors["ITL"].append(_error(predicted.itl.mean, point.itl.mean))
            errors["E2E"].append(_error(predicted.end_to_end.mean, point.end_to_end.mean))
    goals = {"TTFT": (12.0, 20.0, "69/64 %"), "ITL": (5.0, 7.0, "21/22 %"), "E2E": (4.5, 6.5, "24/24 %")}
    return [
        Row(
            what=f"nim_dli.csv, {metric}, closed loop",
            left_out="one workload (pair of lengths)",
            points=len(errors[metric]),
            figures=absolute_errors(errors[metric], median=median, mean=mean),
            peer=f"AIConfigurator 0.12: {peer}",
            peer_metric=metric,
        )
        for metric, (median, mean, peer) in goals.items()
    ]


@cache
def chosen_without(data: Path, input_tokens: float, output_tokens: float) -> Constants:
    """The constants with the least median error of TTFT over all other lengths, by step models fitted without these."""
    others = [
        f for f in folds(data) if (f.tested.input_tokens, f.tested.output_tokens) == (input_tokens, output_tokens)
    ]
    cases = list(_cases(others))
    choices = [Constants(*both) for both in product(HANDOVERS_SECONDS, STEP_TOKENS)]
    return min(choices, key=lambda constants: _median_error(constants, cases))


def _cases(others: Iterable[Fold]) -> Iterator[tuple[StepModel, Lengths, Point]]:
    for fold in others:
        for profile in fold.known:
            lengths = lengths_of(profile)
            step = replace(fold.step, max_batch=batch_limit(fold.key, lengths))
            for point in sound_points(profile):
                if point.concurrency in _CHOSEN_BY:
                    yield step, lengths, point


def _median_error(constants: Constants, cases: Iterable[tuple[StepModel, Lengths, Point]]) -> float:
    errors = [
        abs(_error(constants.predict(step, lengths, point.concurrency or 1.0).ttft.mean, point.ttft.mean))
        for step, lengths, point in cases
    ]
    return float(np.median(errors))


def _error(predicted: float | None, measured: float | None) -> float:
    """Signed error in percent; NaN where the benchmark did not report it."""
    if predicted is None or measured is None:
        return float("nan")
    return 100 * (predicted / measured - 1)
