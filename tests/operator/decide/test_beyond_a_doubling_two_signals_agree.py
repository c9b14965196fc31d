"""One signal doubles a fleet at most; what goes beyond that within a rate window needs a second witness."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.domain import Idle, Metrics, Outcome, Reason, Value
from tests.operator.decide.builders import POLICY, Fleet, late, lost, metrics


def steady(**changes: object) -> Fleet:
    fleet = Fleet(12, **changes)  # type: ignore[arg-type]
    fleet.run(metrics(50), 3600)
    return fleet


ABSURD = [
    metrics(50_000),
    metrics(50_000, gateway_arrivals=Value(50)),
    metrics(50, gateway_arrivals=Value(50_000)),
    metrics(50_000, gateway_arrivals=Idle()),
    metrics(50_000, waiting=Value(3)),
    metrics(50_000, ttft=late(0.09)),
    metrics(50_000, health=Reason.PARTIAL, arrivals=Value(1e6, coverage=0.1)),
]


@pytest.mark.slow
@pytest.mark.parametrize("absurd", ABSURD)
def test_one_absurd_sample_of_a_counter_doubles_at_most(absurd: Metrics) -> None:
    fleet = steady()
    before = fleet.replicas

    # As long as one sample is in a rate of 60 s.
    decisions = fleet.run(absurd, 60)
    fleet.run(metrics(50), 60)

    assert max(d.to_replicas for d in decisions) == 2 * before
    assert (decisions[-1].outcome, decisions[-1].limited_by) == (Outcome.STEADY, Reason.SCALE_UP_STEP)
    assert fleet.replicas == 2 * before


def test_a_gauge_that_is_absurd_for_two_ticks_doubles_at_most() -> None:
    fleet = steady()
    before = fleet.replicas
    fleet.run(metrics(50, waiting=Value(1e6)), 30)
    fleet.run(metrics(50), 120)

    assert fleet.replicas == 2 * before


def test_a_second_window_that_asks_for_as_much_is_a_witness() -> None:
    fleet = steady()
    before = fleet.replicas
    sizes = [fleet.tick(metrics(250)).to_replicas for _ in range(6)]

    assert sizes == [2 * before] * 4 + [min(4 * before, 50), 50]


def test_a_second_window_vouches_for_what_both_ask_for_and_no_more() -> None:
    fleet = steady()
    sizes = [fleet.tick(metrics(rate)).to_replicas for rate in [90.0] * 5 + [50_000.0] * 3]

    assert sizes[:5] == [18] * 5
    assert sizes[5:] == [36] * 3


def test_first_tokens_that_are_late_are_a_witness() -> None:
    fleet = steady()
    before = fleet.replicas
    sizes = [fleet.tick(metrics(250, ttft=late(0.1))).to_replicas for _ in range(3)]

    assert sizes[:2] == [2 * before, 4 * before]
    # 50 serve 250 requests/s; what is kept free after so many late ones comes on top.
    assert sizes[2] >= 50


def test_a_gateway_that_counts_as_much_is_a_witness() -> None:
    fleet = steady()
    fleet.run(metrics(250, gateway_arrivals=Value(250)), 45)

    assert fleet.replicas == 50


def test_a_small_fleet_grows_by_four_on_one_word() -> None:
    fleet = Fleet(2)

    assert [fleet.tick(metrics(100)).to_replicas for _ in range(6)] == [6, 6, 6, 6, 12, 20]


def test_what_was_declared_needs_no_witness() -> None:
    fleet = Fleet(5, policy=replace(POLICY, min_replicas=40))
    sizes = [fleet.tick(metrics(5)).to_replicas for _ in range(3)]

    assert sizes == [10, 20, 40]


def test_metrics_that_stay_lost_raise_to_what_was_declared_at_once() -> None:
    fleet = steady()
    fleet.run(lost(), 960)

    assert fleet.replicas == 40


def test_a_gateway_alone_wakes_up_four_replicas_and_then_the_rest() -> None:
    fleet = Fleet(0, policy=replace(POLICY, min_replicas=0))
    asleep = replace(lost(Reason.MISSING, Reason.NO_READY_PODS), gateway_arrivals=Value(50_000))
    sizes = [fleet.tick(asleep, ready=0, starting=fleet.replicas).to_replicas for _ in range(6)]

    assert sizes == [4, 4, 4, 4, 8, 16]


def test_pods_that_are_stuck_are_replaced_on_one_word() -> None:
    assert Fleet(30).tick(metrics(150), ready=24, stuck=6).to_replicas == 36
