"""Ticks that come early make the law neither faster nor more forgetful: what is measured counts for its own time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.domain import Metrics, Outcome, Sized, Value
from tests.operator.decide.builders import SIZED, TICK_SECONDS, Fleet, idle, late, lost, metrics, running, worked_table

EARLY_SECONDS = TICK_SECONDS / 3
TABLE = worked_table()
WORKED: Sized = replace(SIZED, table=TABLE)
LENGTHS = {"input_tokens": Value(4000.0), "output_tokens": Value(300.0)}


def after(seen: Metrics, seconds: float, interval_seconds: float) -> Fleet:
    fleet = Fleet(10, sized=WORKED, interval_seconds=interval_seconds)
    for _ in range(round(seconds / interval_seconds)):
        fleet.tick(seen, apply=False)
    return fleet


SEEN = {
    "slow replicas": metrics(30.0, running=Value(running(TABLE, 30.0, 10, 1.4))),
    "longer requests": metrics(30.0, **LENGTHS),
    "late first tokens": metrics(45.0, ttft=late(0.04)),
    "a quiet night": idle(),
}


@pytest.mark.parametrize("seen", SEEN.values(), ids=SEEN)
def test_an_hour_is_learned_alike(seen: Metrics) -> None:
    due, early = (after(seen, 3600, interval).known for interval in (TICK_SECONDS, EARLY_SECONDS))
    learned, sooner = due.calibration, early.calibration

    assert sooner.speed.seconds == pytest.approx(learned.speed.seconds, abs=TICK_SECONDS)
    assert sooner.speed.log_speed == pytest.approx(learned.speed.log_speed, abs=0.01)
    assert sooner.budget.requests == pytest.approx(learned.budget.requests, rel=0.02)
    assert sooner.budget.violations == pytest.approx(learned.budget.violations, rel=0.02)
    assert sooner.irreducible.share == pytest.approx(learned.irreducible.share, rel=0.1)
    assert sooner.tail.slow_correction == pytest.approx(learned.tail.slow_correction, rel=0.05)
    assert early.demand.request_cost == pytest.approx(due.demand.request_cost, rel=0.01)
    assert (early.miss_rate or 0.0) == pytest.approx(due.miss_rate or 0.0, rel=0.02)


def test_two_minutes_of_other_lengths_are_learned_alike() -> None:
    costs = []
    for interval in (TICK_SECONDS, EARLY_SECONDS):
        fleet = after(metrics(30.0, input_tokens=Value(3000.0), output_tokens=Value(201.0)), 600, interval)
        for _ in range(round(120 / interval)):
            fleet.tick(metrics(30.0, **LENGTHS), apply=False)
        costs.append(fleet.known.demand.request_cost)

    assert costs[1] == pytest.approx(costs[0], rel=0.03)


def test_one_absurd_sample_doubles_at_most_however_often_it_is_looked_at() -> None:
    fleet = Fleet(12, interval_seconds=EARLY_SECONDS)
    fleet.run(metrics(50), 3600)
    before = fleet.replicas
    fleet.run(metrics(50_000), 60)
    fleet.run(metrics(50), 60)

    assert fleet.replicas == 2 * before


def test_what_an_interval_may_double_is_doubled_once_within_half_of_it() -> None:
    fleet = Fleet(12)
    fleet.run(metrics(50), 3600)
    before = fleet.replicas
    fleet.interval_seconds = EARLY_SECONDS
    sizes = [fleet.tick(metrics(250, ttft=late(0.2))).to_replicas for _ in range(3)]

    assert sizes == [2 * before, 2 * before, 4 * before]


def test_nothing_is_lowered_sooner() -> None:
    lowered = {}
    for interval in (TICK_SECONDS, EARLY_SECONDS):
        fleet = Fleet(12, interval_seconds=interval)
        fleet.run(metrics(50), 900)
        began = fleet.now_seconds
        while fleet.tick(metrics(20)).outcome is not Outcome.DOWN:
            assert fleet.now_seconds < began + 3600
        lowered[interval] = fleet.now_seconds - interval - began

    assert lowered[EARLY_SECONDS] >= lowered[TICK_SECONDS] - TICK_SECONDS


@pytest.mark.parametrize("load", [12.0, 50.0, 180.0])
@pytest.mark.parametrize("changes", [{}, LENGTHS, {"waiting": Value(40.0)}])
def test_arrivals_beyond_what_a_decision_names_are_raised_for(load: float, changes: dict[str, Value]) -> None:
    fleet = Fleet(4, sized=WORKED)
    decided = fleet.run(metrics(load, **changes), 3600)[-1]
    raising = decided.raising_requests_per_second

    assert raising is not None
    assert raising > load, "what is there already is no reason"
    fleet.interval_seconds = EARLY_SECONDS
    assert fleet.tick(metrics(1.02 * raising, **changes)).outcome is Outcome.UP


def test_one_that_would_not_be_raised_names_no_arrivals() -> None:
    full = Fleet(59)
    full.run(metrics(290), 600)
    blind = Fleet(12)
    blind.run(lost(), 60)

    assert full.tick(metrics(400)).raising_requests_per_second is None, "its upper bound"
    assert blind.tick(lost()).raising_requests_per_second is None
