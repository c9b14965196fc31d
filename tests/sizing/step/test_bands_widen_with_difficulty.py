from __future__ import annotations

import json
import math
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_sizing.band import Band
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.step.bands import AnswerKind, Banded, Regime, difficulty_of_fit, prior_regime, spread, times_of

kinds = st.builds(
    AnswerKind, st.sampled_from([r for r in Regime if r is not Regime.MEASURED]), st.booleans(), st.booleans()
)
bands = st.builds(Band, st.floats(0.01, 1), st.floats(1, 100))
difficulties = st.floats(0.01, 5)
KNOWN = {"calibrated": True, "like_measured": True, "knows_both": True, "knows_model": True, "knows_gpu": True}


@given(kind=kinds, quantity=st.sampled_from(Banded), one=difficulties, other=difficulties)
def test_a_harder_answer_never_has_a_narrower_band(
    kind: AnswerKind, quantity: Banded, one: float, other: float
) -> None:
    easy, hard = (times_of(kind, quantity, difficulty) for difficulty in sorted((one, other)))

    assert hard.low <= easy.low <= 1 <= easy.high <= hard.high


@pytest.mark.parametrize("quantity", Banded)
@pytest.mark.parametrize("collected", [False, True])
@pytest.mark.parametrize("mixture", [False, True])
def test_every_kind_of_answer_has_a_band_of_every_quantity(quantity: Banded, collected: bool, mixture: bool) -> None:
    for regime in Regime:
        if regime is Regime.MEASURED and quantity is Banded.CAPACITY_IN_TTFT:
            continue  # A measured capacity repeats alike whatever stops it.
        band = times_of(AnswerKind(regime, collected, mixture), quantity)

        assert 0 < band.low <= 1 <= band.high
        assert band.high / band.low > 1


def test_the_file_tells_what_each_class_reached_on_what_was_left_out() -> None:
    text = files("firsttoken_sizing.step").joinpath("data", "bands.json").read_text(encoding="utf-8")

    for entry in json.loads(text)["bands"]:
        assert 88 <= entry["coveragePercent"] <= 93
        assert entry["low"] <= 0 <= entry["high"]
        assert entry["groups"] > 1


def test_fits_that_agree_have_no_spread_and_others_that_of_their_ratios() -> None:
    assert spread(5.0, [5.0, 5.0]) == 0
    assert spread(5.0, [5.0 * math.exp(0.03), 5.0 * math.exp(-0.04)]) == pytest.approx(
        math.sqrt((0.03**2 + 0.04**2) / 2)
    )
    with pytest.raises(ValueError, match="without one of the workloads"):
        spread(5.0, [])


def test_a_fit_is_harder_where_its_own_points_scatter_and_where_fits_disagree() -> None:
    easiest = PARAMETERS.bands.easiest

    assert difficulty_of_fit(0.0, 0.0) == easiest
    assert difficulty_of_fit(3.0, 0.08) == pytest.approx(easiest + math.hypot(0.06, 0.08))


def test_the_regime_of_physics_is_what_its_constants_know() -> None:
    assert prior_regime(**KNOWN) is Regime.SIBLING
    assert prior_regime(**KNOWN | {"knows_both": False}) is Regime.GPU_KNOWN
    assert prior_regime(**KNOWN | {"knows_both": False, "knows_gpu": False}) is Regime.MODEL_KNOWN
    assert prior_regime(**KNOWN | {"like_measured": False}) is Regime.MODEL_KNOWN
    nothing = dict.fromkeys(KNOWN, False)
    assert prior_regime(**nothing | {"calibrated": True}) is Regime.PRIOR
    assert prior_regime(**nothing) is Regime.OTHER_RELEASE


@given(band=bands, factor=st.floats(1, 10))
def test_an_error_on_top_widens_both_sides(band: Band, factor: float) -> None:
    wider, least = band.widened(factor), band.at_least(factor)

    assert wider.low <= least.low * (1 + 1e-9)
    assert least.low <= band.low * (1 + 1e-9)
    assert band.high <= least.high * (1 + 1e-9)
    assert least.high <= wider.high * (1 + 1e-9)
    assert min(1 / least.low, least.high) >= factor * (1 - 1e-9)


@given(band=bands)
def test_a_rate_is_as_uncertain_as_its_times_the_other_way_around(band: Band) -> None:
    assert band.inverse.low == pytest.approx(1 / band.high)
    assert band.inverse.inverse.high == pytest.approx(band.high)


def test_a_band_is_told_in_percent_of_the_answer() -> None:
    assert Band(0.88, 1.2).text == "-12 to +20 %"
    assert Band(0.88, 1.2).percent == pytest.approx(20)
    assert Band(0.7, 1.2).percent == pytest.approx(30)
