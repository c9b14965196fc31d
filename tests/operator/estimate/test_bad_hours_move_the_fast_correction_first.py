"""Jumps move the fast correction; what they leave over moves the slow one."""

from __future__ import annotations

import math

import pytest

from firsttoken_operator.estimate import DEFAULT, Calibration
from firsttoken_operator.estimate.replica_speed import ReplicaSpeed
from firsttoken_operator.estimate.tail_capacity import TailCapacity
from tests.operator.decide.builders import TICK_SECONDS, Fleet, late, metrics
from tests.operator.estimate.reading import WAIT_SECONDS, factor, speed

pytestmark = pytest.mark.slow


REPLICAS, CAPACITY = 20, 5.0
MANY, NONE = 0.3, 0.0
LEARNED = 100.0
"""Hours of full replicas after which little is new."""


def after(share: float, seconds: float, utilization: float = 1.0, known: Calibration | None = None) -> Calibration:
    """Calibration after so long with replicas that are full to this share of what they are taken to carry."""
    fleet = Fleet(replicas=REPLICAS)
    for _ in range(round(WAIT_SECONDS / TICK_SECONDS) + 1):
        fleet.tick(metrics(0.7 * REPLICAS * CAPACITY, ttft=late(0.02)), apply=False)
    fleet.calibrate(Calibration(tail=TailCapacity(hours=LEARNED)) if known is None else known)
    for _ in range(round(seconds / TICK_SECONDS)):
        load = utilization * fleet.capacity_factor * REPLICAS * CAPACITY
        fleet.tick(metrics(load, ttft=late(share)), apply=False)
    return fleet.known.calibration


def test_a_bad_quarter_of_an_hour_is_gone_after_good_hours() -> None:
    bad = after(MANY, 300)
    good = after(NONE, 4 * 3600, 0.9, bad)

    assert factor(bad) < 0.95
    assert bad.tail.slow_correction == 1
    assert factor(good) == pytest.approx(1, abs=0.01)


def test_what_goes_on_is_learned() -> None:
    known = after(MANY, 3600)

    assert known.tail.fast_correction == DEFAULT.tail_capacity.least_fast_correction
    assert known.tail.slow_correction < 0.9


def test_a_row_of_bad_windows_moves_the_slow_correction_less() -> None:
    fresh, old = after(MANY, 900, known=Calibration()), after(MANY, 900)

    assert factor(fresh) < factor(old), "at first every update is learned in full"


@pytest.mark.parametrize("utilization", [0.8, 0.9])
def test_replicas_that_are_not_full_do_not_show_more_than_was_learned(utilization: float) -> None:
    assert factor(after(NONE, 6 * 3600, utilization)) == 1


def test_full_ones_without_a_violation_do() -> None:
    assert after(NONE, 6 * 3600, 1.05).tail.slow_correction > 1.02


@pytest.mark.parametrize("slow_speed", [0.66, 0.6, 0.5])
def test_a_bad_hour_on_slow_replicas_does_not_make_them_better(slow_speed: float) -> None:
    log_speed = math.log(slow_speed) - DEFAULT.replica_speed.model_error
    slow = Calibration(ReplicaSpeed(log_speed, 1e9), TailCapacity(hours=LEARNED))
    known = after(MANY, 3600, known=slow)

    assert speed(known) == pytest.approx(slow_speed, rel=1e-3)
    assert known.tail.slow_correction <= 1


def test_the_fast_correction_comes_back_sooner_than_the_slow_one() -> None:
    fast = after(NONE, 2 * 3600, 0.9, Calibration(tail=TailCapacity(fast_correction=0.8, hours=LEARNED)))
    slow = after(NONE, 2 * 3600, 0.9, Calibration(tail=TailCapacity(slow_correction=0.8, hours=LEARNED)))

    assert factor(fast) > 0.95
    assert 0.8 < factor(slow) < factor(fast) - 0.05
