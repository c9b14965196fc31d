"""Findings of `benchmarks/evaluation/offline.py` stay as good as they were; run where the data folder is."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.offline import rows
from evaluation.row import Row

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Row]:
    if not DATA.is_dir():
        pytest.skip("../shared/data is not here")
    return {(row.what, row.left_out): row for row in rows(DATA)}


@pytest.mark.parametrize(
    ("what", "left_out", "median", "points"),
    [
        ("static batches, E2E", "batches but 1, 8, 64", 5, 1400),
        ("static batches, TTFT", "batches but 1, 8, 64", 6, 1400),
        ("static batches, E2E", "the configuration", 20, 2100),
        ("offline in FP16, TensorRT-LLM 0.17, output tokens/s", "shipped", 30, 40),
        ("offline in FP8, TensorRT-LLM 0.17, output tokens/s", "shipped", 30, 200),
        ("offline, experts, TensorRT-LLM 1.x in published layouts, output tokens/s", "shipped", 27, 80),
        ("offline, dense, TensorRT-LLM 1.x in published layouts, output tokens/s", "shipped", 10, 14),
    ],
)
def test_static_and_offline_runs_are_predicted(
    found: dict[tuple[str, str], Row], what: str, left_out: str, median: float, points: int
) -> None:
    row = found[what, left_out]

    assert row.points >= points
    assert row.figures[0].name == "median"
    assert row.figures[0].value < median
