"""A pod takes minutes to be ready: what is expected by then is asked for now, once the forecast has earned it."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from firsttoken_operator.domain import Outcome, Reason, Value
from tests.operator.decide.builders import POLICY, SIZED, TICK_SECONDS, Fleet, metrics

pytestmark = pytest.mark.slow


PERIOD = 3600.0
LEAD = 600.0
"""Seconds that a new pod needs."""


def sawtooth(seconds: float) -> float:
    """Rate that goes from 50 to 150 requests a second within half an hour and back, again and again."""
    phase = (seconds % PERIOD) / PERIOD
    return 50 + 200 * (phase if phase < 0.5 else 1 - phase)


@pytest.fixture(scope="module")
def memory() -> Fleet:
    """Memory after a day and a quarter of it."""
    fleet = Fleet(replicas=40, resource_changes={"time_to_ready_seconds": LEAD}, epoch_seconds=0.0)
    for tick in range(round(30 * 3600 / TICK_SECONDS)):
        fleet.tick(metrics(sawtooth(tick * TICK_SECONDS)), apply=False)
    return fleet


def climbing(of: Fleet) -> Fleet:
    """The same memory in the middle of a climb, at the size that the load of now needs."""
    fleet = replace(of)
    for tick in range(60):
        fleet.tick(metrics(sawtooth(tick * TICK_SECONDS)), apply=False)
    return fleet


def test_a_climb_that_was_learned_is_answered_ahead(memory: Fleet) -> None:
    fleet = climbing(memory)
    now = sawtooth(900)
    fleet.replicas = math.ceil(now / 5)
    decision = fleet.tick(metrics(now))

    assert decision.forecast_method != "Persistence"
    assert decision.forecast_requests_per_second is not None
    assert decision.forecast_requests_per_second > 1.05 * now
    assert (decision.outcome, decision.reason) == (Outcome.UP, Reason.DEMAND_EXPECTED)
    assert "expected" in decision.message


def test_without_history_the_load_stays_what_it_is() -> None:
    fleet = Fleet(replicas=20, resource_changes={"time_to_ready_seconds": LEAD})
    decision = fleet.tick(metrics(95))

    assert (decision.to_replicas, decision.forecast_method) == (20, "Persistence")


def test_an_expectation_never_hides_a_load_that_is_there(memory: Fleet) -> None:
    fleet = climbing(memory)
    fleet.replicas = 40
    decisions = [fleet.tick(metrics(250), apply=False) for _ in range(3)]

    assert all(d.to_replicas >= 50 for d in decisions[1:])


def test_a_backlog_comes_on_top_of_what_is_expected(memory: Fleet) -> None:
    plain, queued = climbing(memory), climbing(memory)
    with_queue = queued.tick(metrics(100, waiting=Value(600)), apply=False).recommended
    without = plain.tick(metrics(100), apply=False).recommended

    assert with_queue is not None
    assert without is not None
    assert with_queue >= without + 600 / POLICY.backlog_drain_seconds / 5 - 1


def test_the_longer_pods_take_the_more_is_expected(memory: Fleet) -> None:
    expected = []
    for lead in (60.0, 300.0, 600.0):
        fleet = climbing(memory)
        fleet.resource_changes = {"time_to_ready_seconds": lead}
        decision = fleet.tick(metrics(100), apply=False)
        assert decision.forecast_requests_per_second is not None
        expected.append(decision.forecast_requests_per_second)

    assert all(shorter <= longer for shorter, longer in pairwise(expected))
    assert SIZED.table.replicas_for(expected[-1]) > SIZED.table.replicas_for(expected[0])
