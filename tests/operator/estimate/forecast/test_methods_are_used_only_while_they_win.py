"""A method is used for what it predicted, never for what it is."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest

from firsttoken_operator.estimate.forecast import Forecast, Method, Observation
from firsttoken_operator.estimate.forecast.season import SeasonState
from tests.operator.estimate.forecast.series import (
    MONDAY,
    TICK_SECONDS,
    WINDOW_SECONDS,
    by_time,
    constant,
    follow,
    observe,
    predict,
    ratio,
    rise,
    said,
)

pytestmark = pytest.mark.slow


HORIZON_SECONDS = 615.0
DAY = 86400.0


def daily(seconds: float) -> float:
    """Quiet nights, steep mornings, busy days."""
    hour = seconds % DAY / 3600.0
    return 10.0 + 50.0 * math.exp(-(((hour - 13.0) / 3.0) ** 2))


def used(answers: list[Forecast]) -> Counter[Method]:
    return Counter(answer.method for answer in answers)


def test_the_season_is_used_when_it_has_proven_itself() -> None:
    answers = said(by_time(daily, days=4, seed=1), horizon_seconds=HORIZON_SECONDS)
    first_day, last_day = answers[:5600], answers[-5600:]

    assert not any(answer.method in (Method.SEASON, Method.SEASON_TREND) for answer in first_day)
    assert used(last_day)[Method.SEASON] + used(last_day)[Method.SEASON_TREND] > 0.8 * len(last_day)

    morning = last_day[round(8.5 * 240) : round(10.5 * 240)]
    assert all(answer.peak_per_second > 1.05 * answer.level_per_second for answer in morning)


def test_in_the_morning_the_peak_is_closer_to_what_comes_than_the_level() -> None:
    answers = said(by_time(daily, days=4, seed=2), horizon_seconds=HORIZON_SECONDS)
    by_peak = by_level = 0.0
    for tick in range(3 * 5760 + 8 * 240, 3 * 5760 + 11 * 240):
        comes = daily((tick + 3) * TICK_SECONDS + HORIZON_SECONDS)
        by_peak += abs(answers[tick].peak_per_second - comes)
        by_level += abs(answers[tick].level_per_second - comes)

    assert by_peak < 0.5 * by_level


def test_a_day_that_is_not_like_the_others_ends_the_trust() -> None:
    state = follow(by_time(daily, days=4, seed=3), horizon_seconds=HORIZON_SECONDS)
    assert predict(state, MONDAY + 4 * DAY, HORIZON_SECONDS).method is not Method.PERSISTENCE

    flat = constant(10.0, hours=36, seed=4)
    methods = []
    for tick, rate in enumerate(flat):
        now = MONDAY + 4 * DAY + tick * TICK_SECONDS
        state = observe(state, Observation(now, rate, WINDOW_SECONDS, HORIZON_SECONDS))
        methods.append(predict(state, now, HORIZON_SECONDS).method)

    assert Method.SEASON not in methods[-960:]
    assert Method.SEASON_TREND not in methods[-960:]


@pytest.mark.parametrize("rate", [2.0, 40.0])
def test_noise_alone_leaves_persistence(rate: float) -> None:
    answers = said(constant(rate, hours=60, seed=5), horizon_seconds=195.0)

    assert used(answers)[Method.PERSISTENCE] > 0.9 * len(answers)


def test_nothing_but_persistence_before_twenty_horizons() -> None:
    ramp = by_time(lambda seconds: 20.0 + seconds / 100.0, days=0.2, seed=6)
    answers = said(ramp, horizon_seconds=HORIZON_SECONDS)
    early = round(20 * HORIZON_SECONDS / TICK_SECONDS)

    assert used(answers[:early]) == {Method.PERSISTENCE: early}


def test_a_steady_ramp_is_extrapolated() -> None:
    def waves(seconds: float) -> float:
        return 100.0 + 80.0 * math.sin(2.0 * math.pi * seconds / 5400.0)

    answers = said(by_time(waves, days=1, seed=7), horizon_seconds=195.0)

    assert used(answers[-2880:])[Method.TREND] > 0.8 * 2880


def test_another_horizon_keeps_what_was_learned() -> None:
    state = follow(by_time(daily, days=4, seed=8), horizon_seconds=HORIZON_SECONDS)
    now = MONDAY + 4 * DAY
    after = observe(state, Observation(now, 10.0, WINDOW_SECONDS, 75.0))

    assert after.score.scores == state.score.scores
    assert predict(after, now, 75.0).method == predict(state, now, 75.0).method
    assert predict(state, now, 75.0).deviation_per_second <= predict(state, now, HORIZON_SECONDS).deviation_per_second


def test_the_deviation_is_the_size_of_the_errors() -> None:
    answers = said(by_time(daily, days=3.5, seed=9), horizon_seconds=HORIZON_SECONDS)
    within = []
    for tick in range(2 * 5760, len(answers) - 60):
        # Observation `tick` ends at the end of interval tick + 3.
        true = max(daily((tick + 3 + step) * TICK_SECONDS) for step in (0, 10, 20, 30, 41))
        within.append(abs(answers[tick].peak_per_second - true) <= 2.0 * answers[tick].deviation_per_second)

    assert sum(within) / len(within) > 0.85


def test_an_hour_seen_once_is_no_season() -> None:
    once = follow(by_time(daily, days=1.02, seed=10))

    assert ratio(once.season, MONDAY + 9 * 3600.0, MONDAY + 10 * 3600.0) is None


def test_weekends_are_learned_apart_from_weekdays() -> None:
    weekday = tuple(3.0 if hour >= 9 else 1.0 for hour in range(24))
    week = weekday * 5 + (1.0,) * 48
    season = SeasonState(day=weekday, day_seen=(20,) * 24, week=week, week_seen=(4,) * 168)
    monday = rise(season, MONDAY + 8.5 * 3600.0, 3600.0)
    saturday = rise(season, MONDAY + 5 * DAY + 8.5 * 3600.0, 3600.0)
    assert monday is not None
    assert saturday is not None

    assert saturday < 0.5 * monday

    young = replace(season, week_seen=(1,) * 168)
    assert rise(young, MONDAY + 5 * DAY + 8.5 * 3600.0, 3600.0) == pytest.approx(monday)
