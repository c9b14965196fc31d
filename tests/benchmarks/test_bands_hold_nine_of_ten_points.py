from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from firsttoken_sizing.step.bands import Regime

DATA = Path(__file__).resolve().parents[2].parent / "shared/data"


@pytest.fixture(scope="module")
def data() -> Path:
    if not (DATA / "nim_dli.csv").is_file() or not (DATA / "aic_silicon_agg.csv").is_file():
        pytest.skip("needs ../shared/data/nim_dli.csv and aic_silicon_agg.csv")
    return DATA


def test_nine_of_ten_of_what_was_left_out_lie_inside_the_shipped_bands(data: Path) -> None:
    """A part of the curves; `fit_bands.py --check` is the whole, and the file has the coverage of each class."""
    from evaluation.bands import inside
    from evaluation.capacity import LEFT_OUT, of_curve
    from evaluation.curves import nim_curves, silicon_curves

    of_nim = ("workload", "configuration", "release of the engine")
    answers = [answer for curve in nim_curves(data)[::9] for answer in of_curve(data, curve, of_nim)]
    answers += [answer for curve in silicon_curves(data)[::40] for answer in of_curve(data, curve, LEFT_OUT)]

    found = inside(answers)

    assert set(found) == set(Regime) - {Regime.MEASURED}
    # NB: few curves, of which one that is hard to tell is many points.
    assert 0.85 <= np.mean([held for by_regime in found.values() for held in by_regime]) <= 0.97
    assert min(np.mean(by_regime) for by_regime in found.values()) > 0.6


def test_a_quantile_does_not_see_the_configuration_that_it_is_judged_on() -> None:
    from evaluation.bands import HeldOut, judged

    rng = np.random.default_rng(1)
    easy = [HeldOut(f"g{i % 5}", float(e), 1.0, abs(float(e))) for i, e in enumerate(rng.normal(size=1000))]
    wild = [HeldOut("wild", 1000.0, 1.0, 1000.0) for _ in range(1000)]

    _, coverage, half_width = judged(easy + wild)

    assert coverage == pytest.approx(0.5, abs=0.05)
    assert half_width > 100
    level, alone, width = judged(easy)
    assert 0.944 < level < 0.956
    assert alone == pytest.approx(0.9, abs=0.03)
    assert width == pytest.approx(1.645, rel=0.15)


@pytest.mark.parametrize(("level", "expected"), [(0.5, 5.0), (0.9, 9.0), (0.99, 9.0)])
def test_a_conformal_quantile_counts_the_point_to_come(level: float, expected: float) -> None:
    from evaluation.bands import conformal_quantile

    assert conformal_quantile(np.arange(1.0, 10.0), level) == expected


def test_the_two_sides_are_apart_and_hold_no_error_at_all() -> None:
    from evaluation.bands import sides

    assert sides(np.array([-3.0, 0.1, 0.2, 0.3]), 0.5) == (0.0, 0.2)
    assert sides(np.array([0.5] * 9), 0.9) == (0.0, 0.5)
    assert sides(np.array([0.1, 0.2, 0.3, 3.0]), 0.7, even=True) == (-0.2, 0.2)


def test_difficulty_is_part_of_the_score() -> None:
    from evaluation.bands import HeldOut

    assert HeldOut("g", 0.06, 0.2, 0.06).score == pytest.approx(0.3)
    assert HeldOut("g", 0.06, 0.2, 0.06).half_width(-1.0, 2.0) == pytest.approx(0.3)


def test_the_residual_of_a_capacity_is_the_time_that_would_have_given_the_measured_one(data: Path) -> None:
    """With all steps so much longer `size` answers with what was measured, or jumps over it by one request."""
    from evaluation.bands import _capacities, _load_model
    from evaluation.capacity import of_curve
    from evaluation.curves import nim_curves
    from firsttoken_sizing.optimize.error_band import capacity_if, judged_sla

    answers = list(of_curve(data, nim_curves(data)[0], ("workload",)))
    points = [point for _, point in _capacities(answers)]

    assert len(points) == len(answers)
    for answer, point in zip(answers, points, strict=True):
        assert point.evaluation is not None
        assert point.question is not None
        load_model, truth = _load_model(point.question, point.evaluation), answer.asked.truth.requests_per_second
        above, below = (
            capacity_if(load_model, judged_sla(point.question), math.exp(point.times + shift))
            for shift in (-2e-4, 2e-4)
        )
        assert below <= truth * 1.001
        assert truth <= above * 1.001 or point.times < 0
