from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import pytest

from evaluation import poisson
from firsttoken_sizing.step.shipped import shipped_step


@pytest.mark.parametrize(
    ("cells", "every", "p95", "p99"),
    [(poisson.in_flight, 9, 4.0, 7.5), (poisson.chunked, 9, 6.0, 11.0), (poisson.spread_lengths, 5, 6.0, 11.0)],
    ids=["in-flight", "chunked", "spread"],
)
def test_a_part_of_the_grid_is_near_the_goals(
    cells: Callable[[], Iterator[poisson.Comparison]], every: int, p95: float, p99: float
) -> None:
    # The medians of few cells move: the goals (4 and 7.5 %) are for the whole grid, which benchmarks/accuracy.py runs.
    errors = poisson.errors_percent(islice(cells(), 1, None, every))

    assert np.median(np.abs(errors["TTFT", "p95"])) <= p95
    assert np.median(np.abs(errors["TTFT", "p99"])) <= p99
    assert np.median(np.abs(errors["E2E", "p95"])) <= 4


def test_nothing_that_is_reported_was_looked_at() -> None:
    assert len(poisson.steps()) >= 7
    shipped = {shipped_step(key) for key in poisson.CHOSEN_ON}
    assert None not in shipped
    assert not {fit.model.base_seconds for fit in shipped if fit} & {s.base_seconds for s in poisson.steps()}
