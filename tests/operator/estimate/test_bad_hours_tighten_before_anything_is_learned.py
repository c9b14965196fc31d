"""Jumps take some of the capacity for now; what they leave unexplained changes what a replica is taken to carry."""

from __future__ import annotations

import math

import pytest

from firsttoken_operator.estimate.memory import MODEL_ERROR, Calibration
from firsttoken_operator.estimate.tail_capacity import LONGEST_WAIT_SECONDS, MOST_TIGHTENED
from tests.operator.decide.builders import TICK_SECONDS, Fleet, late, metrics

REPLICAS, CAPACITY = 20, 5.0
MANY, NONE = 0.3, 0.0
LEARNED = 100.0
"""Hours of full replicas after which little is new."""


def after(share: float, seconds: float, fill: float = 1.0, known: Calibration | None = None) -> Calibration:
    """What is known after so long with replicas that are full to this share of what they are taken to carry."""
    fleet = Fleet(replicas=REPLICAS)
    for _ in range(round(LONGEST_WAIT_SECONDS / TICK_SECONDS) + 1):
        fleet.tick(metrics(0.7 * REPLICAS * CAPACITY, ttft=late(0.02)), apply=False)
    fleet.teach(Calibration(hours=LEARNED) if known is None else known)
    for _ in range(round(seconds / TICK_SECONDS)):
        load = fill * fleet.known.capacity_factor * REPLICAS * CAPACITY
        fleet.tick(metrics(load, ttft=late(share)), apply=False)
    return fleet.known.calibration


def test_a_bad_quarter_of_an_hour_is_gone_after_good_hours() -> None:
    bad = after(MANY, 300)
    good = after(NONE, 4 * 3600, 0.9, bad)

    assert bad.factor < 0.95
    assert bad.tail_factor == 1
    assert good.factor == pytest.approx(1, abs=0.01)


def test_what_goes_on_is_learned() -> None:
    known = after(MANY, 3600)

    assert known.tightened == MOST_TIGHTENED
    assert known.tail_factor < 0.9


def test_a_row_of_bad_windows_is_learned_more_slowly_than_it_tightens() -> None:
    fresh, old = after(MANY, 900, known=Calibration()), after(MANY, 900)

    assert fresh.factor < old.factor, "at first every lesson is learned in full"


@pytest.mark.parametrize("fill", [0.8, 0.9])
def test_replicas_that_are_not_full_do_not_show_more_than_was_learned(fill: float) -> None:
    assert after(NONE, 6 * 3600, fill).factor == 1


def test_full_ones_without_anybody_late_do() -> None:
    assert after(NONE, 6 * 3600, 1.05).tail_factor > 1.02


@pytest.mark.parametrize("speed", [0.66, 0.6, 0.5])
def test_a_bad_hour_on_slow_replicas_does_not_make_them_better(speed: float) -> None:
    slow = Calibration(hours=LEARNED, log_speed=math.log(speed) - MODEL_ERROR, speed_ticks=1e9)
    known = after(MANY, 3600, known=slow)

    assert known.speed == pytest.approx(speed, rel=1e-3)
    assert known.tail_factor <= 1


def test_what_jumps_took_comes_back_sooner_than_what_was_learned() -> None:
    tightened = after(NONE, 2 * 3600, 0.9, Calibration(tightened=0.8, hours=LEARNED))
    learned = after(NONE, 2 * 3600, 0.9, Calibration(tail_factor=0.8, hours=LEARNED))

    assert tightened.factor > 0.95
    assert 0.8 < learned.factor < tightened.factor - 0.05
