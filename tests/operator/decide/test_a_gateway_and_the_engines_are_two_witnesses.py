"""A gateway counts what comes, the engines what they got: the larger counts, and a contradiction lowers nothing."""

from __future__ import annotations

import pytest

from firsttoken_operator.domain import Idle, Measurement, Missing, Reason, Value
from tests.operator.decide.builders import Fleet, idle, metrics
from tests.operator.decide.test_scale_down_is_strict import settled


def test_the_gateway_counts_where_it_saw_more() -> None:
    assert Fleet(replicas=16).tick(metrics(75, gateway_arrivals=Value(150))).to_replicas == 30


def test_the_engines_count_where_they_got_more() -> None:
    assert Fleet(replicas=16).tick(metrics(150, gateway_arrivals=Value(75))).to_replicas == 30


@pytest.mark.parametrize("gateway", [Idle(), Missing(Reason.NO_SERIES), Value(0)])
def test_a_gateway_that_saw_nothing_hides_no_request(gateway: Measurement) -> None:
    assert Fleet(replicas=16).tick(metrics(150, gateway_arrivals=gateway)).to_replicas == 30


def test_a_gateway_that_is_not_seen_keeps_no_replica() -> None:
    fleet = settled()
    fleet.run(metrics(50, gateway_arrivals=Missing(Reason.STALE)), 345)

    assert fleet.replicas == 30


@pytest.mark.parametrize("gateway", [0.5, 5.0, 50.0])
def test_idle_engines_behind_a_busy_gateway_lower_nothing(gateway: float) -> None:
    fleet = settled()
    fleet.run(idle(gateway_arrivals=Value(gateway)), 3600)

    assert fleet.replicas == 40


def test_idle_engines_behind_a_busier_gateway_raise() -> None:
    assert Fleet(replicas=16).tick(idle(gateway_arrivals=Value(150))).to_replicas == 30


def test_an_idle_gateway_in_front_of_idle_engines_lowers() -> None:
    fleet = settled()
    fleet.run(idle(gateway_arrivals=Idle()), 345)

    assert fleet.replicas == 30


def test_engines_that_cannot_be_seen_are_not_replaced_by_a_gateway_that_can() -> None:
    fleet = settled()
    fleet.run(metrics(50, health=Reason.MISSING, gateway_arrivals=Value(50)), 850)

    assert fleet.replicas == 40
