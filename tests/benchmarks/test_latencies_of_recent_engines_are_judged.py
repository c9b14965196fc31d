"""Latencies at a concurrency are judged by what the product says without the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation import latencies
from evaluation.curves import silicon_curves

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def test_every_point_of_a_curve_is_held_against_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    if not DATA.is_dir():
        pytest.skip("../shared/data is not here")
    few = silicon_curves(DATA)[:2]
    monkeypatch.setattr(latencies, "silicon_curves", lambda _: few)

    rows = latencies.rows(DATA)

    assert {row.what.partition(" at a")[0].rpartition(" ")[2] for row in rows} == {"TTFT", "ITL", "E2E"}
    assert sum(row.points for row in rows if "E2E" in row.what) == sum(len(curve.points) for curve in few)
    assert all(row.figures[0].value < 100 for row in rows if "E2E" in row.what)
