"""The SLA allows a share of late requests: what bursts spent of it is saved on full replicas, and by patience."""

from __future__ import annotations

import pytest

from firsttoken_operator.domain import Outcome
from firsttoken_operator.estimate.memory import Calibration
from firsttoken_operator.estimate.tail_capacity import (
    BUDGET_SECONDS,
    BUDGET_SHARE,
    LONGEST_WAIT_SECONDS,
    MOST_PATIENCE,
    OVERSPENT,
    patience,
    spent_budgets,
)
from firsttoken_sizing.workload import Limit, Percentile, Sla
from tests.operator.decide.builders import SLA, TICK_SECONDS, Fleet, late, metrics
from tests.operator.decide.test_scale_down_is_strict import first_change

ALLOWED = 0.05


def having_spent(share: float) -> Calibration:
    """A day with this share of late requests."""
    return Calibration(late_requests=share * 1e6, judged_requests=1e6)


def test_nothing_counted_is_neither_saved_nor_overspent() -> None:
    assert spent_budgets(Calibration(), SLA) == 1


def test_what_is_spent_grows_with_what_is_late_and_is_one_at_what_is_aimed_at() -> None:
    spent = [spent_budgets(having_spent(share), SLA) for share in (0.0, 0.01, BUDGET_SHARE * ALLOWED, 0.2)]

    assert spent == sorted(spent)
    assert spent[0] == pytest.approx(0, abs=0.01)
    assert spent[2] == pytest.approx(1, rel=0.01)


def test_what_no_replica_helps_is_not_spent() -> None:
    fleet = Fleet(replicas=20)
    fleet.tick(metrics(50))
    fleet.teach(Calibration(floor_share=0.04, floor_requests=1e4))
    for _ in range(100):
        fleet.tick(metrics(95, ttft=late(0.04)), apply=False)

    assert fleet.known.calibration.late_requests == 0
    assert fleet.known.calibration.judged_requests > 0


def test_a_day_that_has_spent_too_much_is_judged_harder_on_full_replicas() -> None:
    factors = []
    for share in (0.0, 0.05, 0.2):
        fleet = Fleet(replicas=20)
        fleet.run(metrics(98, ttft=late(ALLOWED)), LONGEST_WAIT_SECONDS)
        fleet.replicas = 20
        fleet.teach(having_spent(share))
        for _ in range(40):
            fleet.tick(metrics(98, ttft=late(0.04)), apply=False)
        factors.append(fleet.known.capacity_factor)

    assert factors == sorted(factors, reverse=True)
    assert factors[0] > 1 > factors[-1]


def test_a_bad_day_is_forgotten_in_time() -> None:
    fleet = Fleet(replicas=20)
    fleet.tick(metrics(95, ttft=late(0.0)))
    fleet.teach(having_spent(0.5))
    before = spent_budgets(fleet.known.calibration, SLA)
    for _ in range(round(2 * BUDGET_SECONDS / TICK_SECONDS)):
        fleet.tick(metrics(60, ttft=late(0.0)), apply=False)

    assert spent_budgets(fleet.known.calibration, SLA) < before / 5


@pytest.mark.parametrize("share", [0.0, 0.05, 1.0])
def test_patience_is_between_one_window_and_its_most(share: float) -> None:
    assert 1 <= patience(having_spent(share), SLA) <= MOST_PATIENCE


def test_an_sla_without_a_share_that_may_be_late_needs_no_patience() -> None:
    assert patience(having_spent(1.0), Sla(end_to_end=Limit(5000, Percentile.P95))) == 1


def test_an_overspent_budget_keeps_a_size_for_longer() -> None:
    waited = []
    for spent in (0.0, 2 * OVERSPENT * ALLOWED):
        fleet = Fleet(replicas=20)
        for _ in range(80):
            fleet.tick(metrics(98, ttft=late(0.0)), apply=False)
            fleet.teach(having_spent(spent))
        seconds = first_change(fleet, metrics(30, ttft=late(0.0)), 7200)
        assert seconds is not None
        waited.append(seconds)

    assert waited[1] > 1.5 * waited[0]


def test_patience_keeps_no_fleet_from_growing() -> None:
    fleet = Fleet(replicas=20)
    fleet.tick(metrics(50, ttft=late(0.0)))
    fleet.teach(having_spent(1.0))

    assert fleet.tick(metrics(200, ttft=late(0.0))).outcome is Outcome.UP
