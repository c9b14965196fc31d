"""The fit behind the peak memory, on made-up batches and, where they are present, on the measured ones."""

from __future__ import annotations

from dataclasses import astuple, fields, replace
from pathlib import Path

import numpy as np
import pytest

from evaluation import memory
from firsttoken_sizing.engines.spec import PeakConstants
from firsttoken_sizing.engines.tensorrt_llm import PEAK_MEMORY

DATA = Path(__file__).resolve().parents[2].parent / "shared/data"


def batches(constants: PeakConstants, spread: float = 0.0) -> list[memory.Batch]:
    """Fifty configurations of eight batches with known constants; `spread` is a relative error of their peaks."""
    rng = np.random.default_rng(1)
    made = []
    for configuration in range(50):
        for _ in range(8):
            amounts = tuple(rng.uniform(0.1, 3, len(fields(PeakConstants))))
            peak = (10 + float(np.dot(amounts, astuple(constants)))) * (1 + spread * rng.standard_normal())
            made.append(memory.Batch((f"m{configuration}", "g", "FP16", 1), peak, 10.0, amounts))
    return made


def test_the_fit_finds_the_constants_that_made_the_batches() -> None:
    assert astuple(memory.fit(batches(PEAK_MEMORY))) == pytest.approx(astuple(PEAK_MEMORY), rel=0.01)


def test_a_few_batches_with_something_else_in_memory_do_not_move_the_fit() -> None:
    made = batches(PEAK_MEMORY, 0.01)
    made[:40] = [replace(batch, peak_gib=2 * batch.peak_gib) for batch in made[:40]]
    errors = memory.errors_percent(memory.fit(made), made[40:])

    assert float(np.median(np.abs(errors))) < 2


def needs_data() -> None:
    if not (DATA / memory.FILE).is_file():
        pytest.skip(f"{memory.FILE} is not in ../shared/data")


def test_the_shipped_constants_are_what_the_data_give() -> None:
    needs_data()

    assert astuple(memory.fit(memory.read(DATA))) == pytest.approx(astuple(PEAK_MEMORY), rel=1e-3)


def test_configurations_that_were_left_out_are_inside_the_goal() -> None:
    needs_data()
    (row,) = memory.rows(DATA)

    assert row.reached
    assert row.points > 2000
