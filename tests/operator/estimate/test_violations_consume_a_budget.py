"""The SLA allows a share of late requests: what bursts consumed of it is saved on full replicas, and sizes are kept."""

from __future__ import annotations

import pytest

from firsttoken_operator.domain import Outcome
from firsttoken_operator.estimate import DEFAULT, Calibration
from firsttoken_operator.estimate.error_budget import ErrorBudget
from firsttoken_operator.estimate.irreducible_misses import IrreducibleMisses
from firsttoken_sizing.workload import Limit, Percentile, Sla
from tests.operator.decide.builders import TICK_SECONDS, Fleet, late, metrics
from tests.operator.decide.test_scale_down_is_strict import first_change
from tests.operator.estimate.reading import WAIT_SECONDS, consumed, windows

pytestmark = pytest.mark.slow


ALLOWED = 0.05
LAW = DEFAULT.error_budget


def having_consumed(share: float) -> Calibration:
    """A day with this share of late requests."""
    return Calibration(budget=ErrorBudget(share * 1e6, 1e6))


def test_nothing_counted_is_on_target() -> None:
    assert consumed(Calibration()) == 1


def test_consumption_grows_with_what_is_late_and_is_one_at_the_set_point() -> None:
    budgets = [consumed(having_consumed(share)) for share in (0.0, 0.01, LAW.set_point_share * ALLOWED, 0.2)]

    assert budgets == sorted(budgets)
    assert budgets[0] == pytest.approx(0, abs=0.01)
    assert budgets[2] == pytest.approx(1, rel=0.01)


def test_what_is_irreducible_consumes_nothing() -> None:
    fleet = Fleet(replicas=20)
    fleet.tick(metrics(50))
    fleet.calibrate(Calibration(irreducible=IrreducibleMisses(0.04, 1e4)))
    for _ in range(100):
        fleet.tick(metrics(95, ttft=late(0.04)), apply=False)

    assert fleet.known.calibration.budget.violations == 0
    assert fleet.known.calibration.budget.requests > 0


def test_a_day_that_has_consumed_too_much_is_judged_harder_on_full_replicas() -> None:
    factors = []
    for share in (0.0, 0.05, 0.2):
        fleet = Fleet(replicas=20)
        fleet.run(metrics(98, ttft=late(ALLOWED)), WAIT_SECONDS)
        fleet.replicas = 20
        fleet.calibrate(having_consumed(share))
        for _ in range(40):
            fleet.tick(metrics(98, ttft=late(0.04)), apply=False)
        factors.append(fleet.capacity_factor)

    assert factors == sorted(factors, reverse=True)
    assert factors[0] > 1 > factors[-1]


def test_a_bad_day_is_forgotten_in_time() -> None:
    fleet = Fleet(replicas=20)
    fleet.tick(metrics(95, ttft=late(0.0)))
    fleet.calibrate(having_consumed(0.5))
    before = consumed(fleet.known.calibration)
    for _ in range(round(2 * LAW.memory_seconds / TICK_SECONDS)):
        fleet.tick(metrics(60, ttft=late(0.0)), apply=False)

    assert consumed(fleet.known.calibration) < before / 5


@pytest.mark.parametrize("share", [0.0, 0.05, 1.0])
def test_a_size_is_kept_for_one_window_and_up_to_the_most(share: float) -> None:
    assert 1 <= windows(having_consumed(share)) <= LAW.most_window_multiplier


def test_an_sla_without_a_share_that_may_be_late_keeps_a_size_for_one_window() -> None:
    assert windows(having_consumed(1.0), Sla(end_to_end=Limit(5000, Percentile.P95))) == 1


def test_a_consumed_budget_keeps_a_size_for_longer() -> None:
    waited = []
    for share in (0.0, 2 * LAW.longer_hold_budgets * ALLOWED):
        fleet = Fleet(replicas=20)
        for _ in range(80):
            fleet.tick(metrics(98, ttft=late(0.0)), apply=False)
            fleet.calibrate(having_consumed(share))
        seconds = first_change(fleet, metrics(30, ttft=late(0.0)), 7200)
        assert seconds is not None
        waited.append(seconds)

    assert waited[1] > 1.5 * waited[0]


def test_a_consumed_budget_keeps_no_fleet_from_growing() -> None:
    fleet = Fleet(replicas=20)
    fleet.tick(metrics(50, ttft=late(0.0)))
    fleet.calibrate(having_consumed(1.0))

    assert fleet.tick(metrics(200, ttft=late(0.0))).outcome is Outcome.UP
