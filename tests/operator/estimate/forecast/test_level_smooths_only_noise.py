"""The level averages as long as counting noise demands and no longer."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.estimate.forecast import Observation
from tests.fixtures.hypothesis_scale import examples
from tests.operator.estimate.forecast.series import (
    HORIZON_SECONDS,
    MONDAY,
    TICK_SECONDS,
    WINDOW_SECONDS,
    constant,
    follow,
    observe,
    predict,
    said,
)

pytestmark = pytest.mark.slow


rates = st.floats(0.05, 1e5)


@settings(max_examples=examples(50))
@given(rate=rates, ticks=st.integers(1, 60))
def test_a_rate_without_noise_is_the_level(rate: float, ticks: int) -> None:
    answer = said([rate] * ticks)[-1]

    assert answer.level_per_second == pytest.approx(rate)
    assert answer.peak_per_second == pytest.approx(rate)


@pytest.mark.parametrize("rate", [0.2, 1.0, 6.6, 45.0, 1000.0])
def test_a_noisy_constant_rate_is_found(rate: float) -> None:
    levels = [answer.level_per_second for answer in said(constant(rate, hours=6, seed=1))][240:]

    assert statistics.mean(levels) == pytest.approx(rate, rel=0.04)
    # A window of 60 s alone would have an error of (rate / 60) ** 0.5.
    assert statistics.pstdev(levels) < 0.8 * (rate / WINDOW_SECONDS) ** 0.5


def test_a_slow_rate_is_averaged_for_longer_than_a_fast_one() -> None:
    def share_of_noise_left(rate: float) -> float:
        levels = [answer.level_per_second for answer in said(constant(rate, hours=6, seed=2))][240:]
        return statistics.pstdev(levels) / math.sqrt(rate / WINDOW_SECONDS)

    assert share_of_noise_left(1.0) < 0.4 < share_of_noise_left(300.0)


@pytest.mark.parametrize("rate", [0.2, 1.0, 6.6, 45.0])
@pytest.mark.parametrize("seed", [3, 4])
def test_noise_moves_the_level_no_further_than_its_deviation_says(rate: float, seed: int) -> None:
    answers = said(constant(rate, hours=12, seed=seed))[60:]
    errors = [abs(answer.level_per_second - rate) / answer.deviation_per_second for answer in answers]

    assert max(errors) < 5.0
    assert sum(error < 2.0 for error in errors) > 0.9 * len(errors)


@settings(max_examples=examples(100))
@given(before=st.lists(rates, min_size=1, max_size=20), rate=st.floats(0.0, 1e6))
def test_the_level_ends_between_where_it_was_and_what_was_observed(before: list[float], rate: float) -> None:
    state = follow(before)
    now = MONDAY + len(before) * TICK_SECONDS
    was = predict(state, now, HORIZON_SECONDS).level_per_second
    state = observe(state, Observation(now, rate, WINDOW_SECONDS, HORIZON_SECONDS))

    low, high = sorted((was, rate))
    assert low * (1 - 1e-9) <= predict(state, now, HORIZON_SECONDS).level_per_second <= high * (1 + 1e-9)


@settings(max_examples=examples(25))
@given(rate=st.floats(0.1, 300.0), seed=st.integers(0, 10**6))
def test_ten_times_the_rate_is_followed_within_two_ticks(rate: float, seed: int) -> None:
    state = follow(constant(rate, hours=0.5, seed=seed))
    now = MONDAY + 3600.0
    for tick in range(2):
        state = observe(state, Observation(now + tick * TICK_SECONDS, 10.0 * rate, WINDOW_SECONDS, HORIZON_SECONDS))

    assert predict(state, now, HORIZON_SECONDS).level_per_second == pytest.approx(10.0 * rate, rel=0.01)


def test_a_jump_down_is_followed_too() -> None:
    state = follow([*constant(45.0, hours=1), 4.5, 4.5])

    assert predict(state, MONDAY + 3600.0, HORIZON_SECONDS).level_per_second == pytest.approx(4.5)


def test_one_odd_window_within_reason_is_no_jump() -> None:
    """At 10 a second a window of 60 s has a deviation of 0.41; one look 4 deviations off moves the level little."""
    quiet = constant(10.0, hours=2, seed=5)
    state = follow([*quiet, 10.0, 11.6])

    assert predict(state, MONDAY, HORIZON_SECONDS).level_per_second < 10.7


@pytest.mark.parametrize(("dispersion", "low", "high"), [(1.0, 0.75, 1.25), (5.0, 3.5, 6.5), (15.0, 10.0, 20.0)])
def test_dispersion_is_measured_and_not_assumed(dispersion: float, low: float, high: float) -> None:
    answer = said(constant(20.0, hours=24, seed=6, dispersion=dispersion))[-1]

    assert low < answer.dispersion < high


def test_more_dispersed_requests_are_averaged_for_longer() -> None:
    def deviation(dispersion: float) -> float:
        levels = [each.level_per_second for each in said(constant(20.0, hours=24, seed=7, dispersion=dispersion))]
        return statistics.pstdev(levels[2880:])

    assert deviation(15.0) < 0.6 * (15.0 * 20.0 / WINDOW_SECONDS) ** 0.5


def test_dispersion_learned_at_one_window_holds_at_another() -> None:
    state = follow(constant(20.0, hours=24, seed=8, dispersion=5.0))
    now = MONDAY + 90000.0
    state = observe(state, Observation(now, 20.0, 300.0, HORIZON_SECONDS))

    assert 3.5 < predict(state, now, HORIZON_SECONDS).dispersion < 6.5
