"""Gaps are not zero, and a clock that jumps is no news of the load."""

from __future__ import annotations

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
    by_time,
    constant,
    follow,
    learn,
    observe,
    observed,
    predict,
)


@settings(max_examples=examples(50))
@given(st.lists(st.floats(15.0, 7200.0), min_size=1, max_size=60))
def test_gaps_of_any_length_leave_a_constant_rate_what_it_is(gaps: list[float]) -> None:
    at, points = MONDAY, []
    for gap in gaps:
        at += gap
        points.append((at, 7.0))
    answer = predict(observed(points), at, HORIZON_SECONDS)

    assert answer.level_per_second == pytest.approx(7.0)
    assert answer.peak_per_second == pytest.approx(7.0)
    assert answer.samples == len(gaps)


def test_after_a_long_gap_the_level_starts_anew_and_the_rest_stays() -> None:
    state = follow(by_time(lambda s: 20.0 if s % 86400.0 < 43200.0 else 25.0, days=2))
    assert state.level is not None
    later = MONDAY + 2 * 86400.0 + 11 * WINDOW_SECONDS
    after = observe(state, Observation(later, 21.0, WINDOW_SECONDS, HORIZON_SECONDS))

    assert predict(after, later, HORIZON_SECONDS).level_per_second == 21.0
    assert after.score.scores == state.score.scores
    assert after.season.day == pytest.approx(state.season.day, abs=0.05)
    assert predict(after, later, HORIZON_SECONDS).dispersion == pytest.approx(
        predict(state, later, HORIZON_SECONDS).dispersion
    )


def test_a_short_gap_does_not_forget_the_level() -> None:
    state = follow(constant(1.0, hours=2, seed=1))
    later = MONDAY + 7200.0 + 9 * WINDOW_SECONDS
    was = predict(state, later, HORIZON_SECONDS).level_per_second
    after = observe(state, Observation(later, was + 0.2, WINDOW_SECONDS, HORIZON_SECONDS))

    assert was < predict(after, later, HORIZON_SECONDS).level_per_second < was + 0.2


def test_a_prediction_is_less_sure_the_longer_nothing_was_observed() -> None:
    state = follow(constant(5.0, hours=0.25))
    now = MONDAY + 900.0
    deviations = [predict(state, now + late, HORIZON_SECONDS).deviation_per_second for late in (0.0, 300.0, 3000.0)]

    assert deviations == sorted(deviations)
    assert deviations[0] < deviations[-1]


def test_nothing_is_learned_when_the_clock_jumps_back_and_then_it_goes_on() -> None:
    state = follow(constant(20.0, hours=2))
    now = MONDAY + 7200.0
    level = predict(state, now, HORIZON_SECONDS).level_per_second
    back = observe(state, Observation(now - 3600.0, 500.0, WINDOW_SECONDS, HORIZON_SECONDS))

    assert back.samples == state.samples
    assert predict(back, now - 3600.0, HORIZON_SECONDS).level_per_second == level

    after = follow([200.0, 200.0], back, start=now - 3600.0 + TICK_SECONDS)

    assert predict(after, now - 3600.0, HORIZON_SECONDS).level_per_second == pytest.approx(200.0)


def test_a_clock_that_swings_counts_no_hour_twice() -> None:
    state = follow(constant(20.0, hours=2))
    for turn in range(10):
        at = MONDAY + 7200.0 - 900.0 * (turn % 2)
        state = observe(state, Observation(at, 20.0, WINDOW_SECONDS, HORIZON_SECONDS))

    assert max(state.season.day_seen) <= 1


def test_the_same_moment_twice_is_observed_once() -> None:
    state = follow(constant(20.0, hours=1))
    assert state.level is not None

    again = Observation(state.level.at_seconds, 90.0, WINDOW_SECONDS, HORIZON_SECONDS)
    assert observe(state, again) == state


def test_history_in_long_steps_shows_the_season() -> None:
    points = [(MONDAY + 300.0 * n, 10.0 if ((n - 1) // 12) % 24 < 9 else 40.0) for n in range(1, 3 * 288)]
    state = learn(points, HORIZON_SECONDS, 300.0)

    assert min(state.season.day_seen) >= 2
    assert state.season.day[9] - state.season.day[8] == pytest.approx(1.386, abs=0.05)
