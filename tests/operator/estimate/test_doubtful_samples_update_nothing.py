"""A wrong update costs an outage, or a fleet for days: what could be chance, or not of this fleet, updates nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.domain import LateShare, Missing, Outcome, Reason, TtftInterval, Value
from firsttoken_operator.estimate import DEFAULT
from tests.operator.decide.builders import (
    POLICY,
    SIZED,
    TICK_SECONDS,
    Fleet,
    idle,
    late,
    lost,
    metrics,
    running,
    worked_table,
)
from tests.operator.estimate.reading import consumed, speed, used, windows

pytestmark = pytest.mark.slow


QUIET, FULL = 15.0, 95.0
"""Requests a second on twenty replicas of five."""
HOUR = 3600.0
IN_DOUBT = TtftInterval(250, 500, 280, 1000, LateShare(0.0, 0.22, 1.0))
"""All in one bucket that holds the limit of 300 ms."""


def watched(fleet: Fleet, seconds: float, **signals: object) -> Fleet:
    for _ in range(round(seconds / TICK_SECONDS)):
        fleet.tick(metrics(FULL, **signals), apply=False)
    return fleet


@pytest.mark.parametrize("idle_seconds", [TICK_SECONDS, 240.0])
def test_one_bad_moment_of_an_idle_fleet_makes_no_late_request_acceptable(idle_seconds: float) -> None:
    fleet = Fleet(replicas=20)
    fleet.run(metrics(QUIET), 1800)
    fleet.replicas = 20
    for _ in range(round(idle_seconds / TICK_SECONDS)):
        fleet.tick(metrics(QUIET, ttft=late(0.4)), apply=False)
    watched(fleet, 8 * HOUR, ttft=late(0.12))

    assert fleet.capacity_factor < 1


def test_a_gateway_that_counts_retries_makes_no_replica_look_fast() -> None:
    table = worked_table()
    fleet = Fleet(replicas=20, sized=replace(SIZED, table=table))
    inside = running(table, 80.0, 20)
    for _ in range(240):
        fleet.tick(metrics(80, running=Value(inside), gateway_arrivals=Value(160)), apply=False)

    assert speed(fleet.known.calibration) == pytest.approx(1.0, abs=0.05)


def test_a_histogram_that_cannot_tell_takes_no_capacity_away_and_adds_no_replica() -> None:
    fleet = Fleet(replicas=20)
    watched(fleet, 8 * HOUR, ttft=IN_DOUBT)

    assert fleet.capacity_factor >= 1
    assert fleet.tick(metrics(65.0, ttft=IN_DOUBT)).to_replicas == 20


def test_a_quiet_week_forgets_what_was_consumed() -> None:
    fleet = Fleet(replicas=20)
    watched(fleet, 1200, ttft=late(0.5))
    before = consumed(fleet.known.calibration)
    few = TtftInterval(60, 100, 80, 10, LateShare(0.0, 0.0, 0.0))
    for _ in range(round(8 * DEFAULT.error_budget.memory_seconds / TICK_SECONDS)):
        fleet.tick(metrics(0.2, ttft=few), apply=False)

    known = fleet.known.calibration
    assert before > 3
    assert (windows(known), used(known)) == (1.0, pytest.approx(1.0, abs=0.05))


def test_a_fleet_that_was_woken_up_in_an_outage_is_not_raised_to_the_declared_peak_at_once() -> None:
    fleet = Fleet(replicas=0, policy=replace(POLICY, min_replicas=0))
    unheard = replace(lost(), gateway_arrivals=Missing(Reason.SOURCE_UNREACHABLE))
    woken = fleet.run(unheard, POLICY.metrics_loss_grace_seconds + 60, ready=0)

    assert {decision.to_replicas for decision in woken} == {0, 1}


def test_a_gateway_that_is_not_heard_keeps_the_last_replica_whatever_the_schedule_says() -> None:
    fleet = Fleet(replicas=1, policy=replace(POLICY, min_replicas=0))
    fleet.resource_changes = {"has_schedule": True}
    unheard = replace(idle(), gateway_arrivals=Missing(Reason.SOURCE_UNREACHABLE))
    decisions = fleet.run(unheard, 1800)

    assert all(decision.outcome is not Outcome.DOWN for decision in decisions)
