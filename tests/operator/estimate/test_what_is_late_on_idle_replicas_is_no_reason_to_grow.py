"""Some prompts are late at any load: their own prefill takes too long, and no number of replicas shortens that."""

from __future__ import annotations

import pytest

from firsttoken_operator.estimate import Calibration
from firsttoken_operator.estimate.irreducible_misses import IrreducibleMisses
from tests.operator.decide.builders import Fleet, late, metrics
from tests.operator.estimate.reading import WAIT_SECONDS

pytestmark = pytest.mark.slow


QUIET, FULL = 15.0, 95.0
"""Requests a second on twenty replicas of five."""


@pytest.mark.parametrize("share", [0.08, 0.3, 1.0])
def test_an_idle_fleet_stays_however_many_are_late(share: float) -> None:
    fleet = Fleet(replicas=20)
    decisions = fleet.run(metrics(QUIET, ttft=late(share)), 3600)

    assert max(d.to_replicas for d in decisions) == 20


def test_what_is_irreducible_is_no_miss_on_full_replicas() -> None:
    factors = []
    for share in (0.04, 0.0):
        fleet = Fleet(replicas=20)
        fleet.tick(metrics(QUIET, ttft=late(share)), apply=False)
        fleet.calibrate(Calibration(irreducible=IrreducibleMisses(share, 1e4)))
        for _ in range(480):
            fleet.tick(metrics(FULL, ttft=late(0.049)), apply=False)
        factors.append(fleet.capacity_factor)

    assert factors[0] > 1.02 * factors[1]


def test_what_is_irreducible_is_the_mean_of_what_idle_replicas_showed() -> None:
    fleet = Fleet(replicas=20)
    for share in (0.02, 0.04) * 2000:
        fleet.tick(metrics(QUIET, ttft=late(share)), apply=False)

    assert fleet.known.calibration.irreducible.share == pytest.approx(0.03, rel=0.1)


def test_full_replicas_say_nothing_of_it() -> None:
    fleet = Fleet(replicas=20)
    for _ in range(480):
        fleet.tick(metrics(FULL, ttft=late(0.04)), apply=False)

    assert fleet.known.calibration.irreducible.share == 0


def test_idle_replicas_that_are_always_late_may_be_given_back() -> None:
    fleet = Fleet(replicas=20)
    for _ in range(round(WAIT_SECONDS / 15) + 60):
        fleet.tick(metrics(QUIET, ttft=late(0.08)), apply=False)
    fleet.run(metrics(QUIET, ttft=late(0.08)), 1800)

    assert fleet.replicas < 20
