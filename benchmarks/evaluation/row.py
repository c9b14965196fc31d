"""One line of the accuracy table: figures with the goals that they are held against."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure and its goal: at most `goal`, or at least with `at_least`; None where there is none."""

    name: str
    value: float
    goal: float | None = None
    at_least: bool = False
    unit: str = "%"

    @property
    def reached(self) -> bool:
        """True where the goal holds; NaN reaches none."""
        if self.goal is None:
            return True
        return self.value >= self.goal if self.at_least else self.value <= self.goal


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a table: what was predicted, what the fit was without, over how many points, and what a peer reaches."""

    what: str
    left_out: str
    points: int
    figures: tuple[Figure, ...]
    peer: str = "-"
    """Figure that a peer reaches, as published or as found before."""
    peer_metric: str = ""
    """Key of `peers.aiconfigurator_errors` that is the same for AIConfigurator, where it is run beside."""

    @property
    def reached(self) -> bool:
        """True where every goal holds."""
        return all(figure.reached for figure in self.figures)


def absolute_errors(
    errors_percent: Iterable[float], *, median: float | None = None, mean: float | None = None
) -> tuple[Figure, Figure]:
    """Median and mean of absolute errors (percent) with their goals."""
    errors = np.abs(np.fromiter(errors_percent, dtype=float))
    return Figure("median", float(np.median(errors)), median), Figure("mean", float(np.mean(errors)), mean)
