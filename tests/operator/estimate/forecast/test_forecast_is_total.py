"""Whatever is observed, nothing raises, nothing that is not a number gets in, and what is said makes sense."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.estimate.forecast import Forecast, ForecastState, Method, Observation
from tests.fixtures.hypothesis_scale import examples
from tests.operator.estimate.forecast.series import (
    HORIZON_SECONDS,
    MONDAY,
    WINDOW_SECONDS,
    constant,
    follow,
    learn,
    observe,
    observed,
    predict,
)

numbers = st.one_of(
    st.floats(),
    st.floats(0.0, 100.0),
    st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 0.0, 5e-324, 1e-300, 1e9, 1e308]),
)
moments = st.one_of(numbers, st.floats(MONDAY, MONDAY + 3000.0), st.integers(0, 300).map(lambda n: MONDAY + 15.0 * n))
spans = st.one_of(numbers, st.sampled_from([1.0, 60.0, 195.0, 900.0, 86400.0]))
observations = st.builds(Observation, moments, numbers, spans, spans)


def check(answer: Forecast) -> None:
    """Check what holds for each forecast."""
    values = (answer.level_per_second, answer.peak_per_second, answer.deviation_per_second, answer.dispersion)
    assert all(math.isfinite(value) and value >= 0.0 for value in values)
    assert answer.peak_per_second >= answer.level_per_second
    assert answer.peak_per_second <= 3.001 * answer.level_per_second
    assert answer.dispersion > 0.0
    assert answer.samples >= 0


@settings(max_examples=examples(150))
@given(st.lists(observations, max_size=40), moments, spans)
def test_any_numbers_are_answered(given_: list[Observation], now: float, horizon_seconds: float) -> None:
    state: ForecastState | None = None
    for each in given_:
        state = observe(state, each)
        check(predict(state, each.epoch_seconds, each.horizon_seconds))
    check(predict(state, now, horizon_seconds))
    if state is not None:
        json.dumps(asdict(state), allow_nan=False)  # raises where a number is none


@pytest.mark.parametrize(
    "refused",
    [
        Observation(MONDAY + 9000.0, math.nan, WINDOW_SECONDS, HORIZON_SECONDS),
        Observation(MONDAY + 9000.0, math.inf, WINDOW_SECONDS, HORIZON_SECONDS),
        Observation(MONDAY + 9000.0, -1.0, WINDOW_SECONDS, HORIZON_SECONDS),
        Observation(MONDAY + 9000.0, 1e308, WINDOW_SECONDS, HORIZON_SECONDS),
        Observation(math.nan, 5.0, WINDOW_SECONDS, HORIZON_SECONDS),
        Observation(math.inf, 5.0, WINDOW_SECONDS, HORIZON_SECONDS),
        Observation(MONDAY + 9000.0, 5.0, 0.0, HORIZON_SECONDS),
        Observation(MONDAY + 9000.0, 5.0, math.nan, HORIZON_SECONDS),
        Observation(MONDAY + 9000.0, 5.0, WINDOW_SECONDS, -195.0),
        Observation(MONDAY + 9000.0, 5.0, WINDOW_SECONDS, math.inf),
    ],
    ids=str,
)
def test_what_is_not_a_sensible_number_was_not_observed(refused: Observation) -> None:
    state = follow(constant(5.0, hours=1))

    assert observe(state, refused) == state
    assert observe(None, refused) == ForecastState()


def test_nothing_observed_is_said_to_be_nothing() -> None:
    nothing = Forecast(0.0, 0.0, 0.0, Method.PERSISTENCE, 1.0, 0)

    assert predict(None, MONDAY, HORIZON_SECONDS) == nothing
    assert predict(ForecastState(), MONDAY, HORIZON_SECONDS) == nothing
    assert predict(learn([], HORIZON_SECONDS, WINDOW_SECONDS), MONDAY, HORIZON_SECONDS) == nothing


def test_no_load_at_all_is_a_rate_of_zero() -> None:
    answer = predict(follow([0.0] * 500), MONDAY + 7500.0, HORIZON_SECONDS)

    assert (answer.level_per_second, answer.peak_per_second) == (0.0, 0.0)
    assert answer.samples == 500
    assert answer.deviation_per_second < 1.0 / WINDOW_SECONDS


@settings(max_examples=examples(50))
@given(st.permutations([(MONDAY + 15.0 * tick, 5.0) for tick in range(40)]))
def test_observations_in_any_order_of_one_rate_are_that_rate(points: list[tuple[float, float]]) -> None:
    answer = predict(observed(points), MONDAY + 600.0, HORIZON_SECONDS)

    assert answer.level_per_second == pytest.approx(5.0)
    assert 1 <= answer.samples <= 40
