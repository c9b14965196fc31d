from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_sizing.profile import Point
from firsttoken_sizing.step.bands import Regime, band_percent, bend_percent, prior_regime, spread_percent

difficulties = st.floats(0, 1e3)


@given(regime=st.sampled_from(Regime), one=difficulties, other=difficulties, mixture=st.booleans())
def test_a_harder_answer_never_has_a_narrower_band(regime: Regime, one: float, other: float, mixture: bool) -> None:
    easy, hard = (band_percent(regime, d, mixture_of_experts=mixture) for d in sorted((one, other)))

    assert 0 < easy <= hard


@pytest.mark.parametrize("mixture", [False, True])
def test_less_knowledge_means_a_wider_band(mixture: bool) -> None:
    order = (Regime.MEASURED, Regime.FITTED, Regime.EXTRAPOLATED, Regime.SIBLING, Regime.RELATED)
    widths = [band_percent(regime, 0.0, mixture_of_experts=mixture) for regime in order]

    assert all(narrow < wide for narrow, wide in pairwise(widths))
    assert band_percent(Regime.PRIOR, mixture_of_experts=mixture) > band_percent(Regime.SIBLING)


@pytest.mark.parametrize("is_collected", [False, True])
def test_mixtures_of_experts_are_harder_to_tell_by_physics_and_like_others_once_measured(is_collected: bool) -> None:
    def band(regime: Regime, difficulty: float, mixture: bool) -> float:
        return band_percent(regime, difficulty, is_collected=is_collected, mixture_of_experts=mixture)

    assert band(Regime.SIBLING, 0.0, True) > band(Regime.SIBLING, 0.0, False)
    assert band(Regime.FITTED, 3.0, True) == band(Regime.FITTED, 3.0, False)


@pytest.mark.parametrize("regime", [Regime.FITTED, Regime.ONE_WORKLOAD, Regime.SIBLING])
def test_points_of_many_runs_scatter_more_than_those_of_one(regime: Regime) -> None:
    assert band_percent(regime, 3.0, is_collected=True) > band_percent(regime, 3.0)


def test_fits_that_agree_have_no_spread_and_others_that_of_their_ratios() -> None:
    assert spread_percent(5.0, [5.0, 5.0]) == 0
    assert spread_percent(5.0, [5.0 * math.exp(0.03), 5.0 * math.exp(-0.04)]) == pytest.approx(
        math.sqrt((3**2 + 4**2) / 2)
    )
    with pytest.raises(ValueError, match="without one of the workloads"):
        spread_percent(5.0, [])


def curve(concurrency: float, fixed: float, per_request: float) -> Point:
    return Point(requests_per_second=concurrency / (fixed + per_request * concurrency), concurrency=concurrency)


@given(low=st.floats(1, 100), factor=st.floats(1.01, 3), share=st.floats(0.01, 100))
def test_a_curve_lies_above_its_chord_by_about_as_much_as_it_bends(low: float, factor: float, share: float) -> None:
    """Interpolation of the closed loop's round, `a + b*c`, is off by less than the bend."""
    below, above = (curve(c, 1.0, share / 100) for c in (low, low * factor))
    middle = curve(math.sqrt(low * low * factor), 1.0, share / 100)

    chord = math.sqrt(below.requests_per_second * above.requests_per_second)

    assert chord <= middle.requests_per_second * (1 + 1e-9)
    assert 100 * math.log(middle.requests_per_second / chord) <= bend_percent(below, above) + 1e-9


def test_a_straight_line_does_not_bend() -> None:
    assert bend_percent(Point(1.0, 1.0), Point(8.0, 8.0)) == pytest.approx(0)
    assert bend_percent(Point(9.0, 50.0), Point(9.0, 100.0)) == 0
    assert bend_percent(Point(9.0, 50.0), Point(8.0, 100.0)) == 0
    assert bend_percent(Point(9.0, 50.0), Point(9.0, 50.0)) == 0
    with pytest.raises(ValueError, match="concurrency"):
        bend_percent(Point(9.0), Point(9.0, 50.0))


def test_the_regime_of_physics_is_what_its_constants_know() -> None:
    assert prior_regime(knows_both=True, knows_one=True) is Regime.SIBLING
    assert prior_regime(knows_both=False, knows_one=True) is Regime.RELATED
    assert prior_regime(knows_both=False, knows_one=False) is Regime.PRIOR
