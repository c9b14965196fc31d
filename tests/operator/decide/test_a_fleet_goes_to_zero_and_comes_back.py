"""The last replica goes only where no request comes, for a window, and where something can call it back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.domain import Idle, Metrics, Missing, Outcome, Reason, ScalingMode, Value
from tests.operator.decide.builders import POLICY, Fleet, idle, lost, metrics

TO_ZERO = replace(POLICY, min_replicas=0)
NO_GATEWAY = Missing(Reason.NO_SERIES)
QUIET = idle(gateway_arrivals=Idle())
"""Proven idle, and a gateway that says the same."""


def scaled_to_zero(**changes: object) -> Metrics:
    """Metrics of a fleet without pods."""
    return replace(lost(cause=Reason.NO_READY_PODS), **({"gateway_arrivals": Idle()} | changes))  # type: ignore[arg-type]


def small(replicas: int = 2, **changes: object) -> Fleet:
    return Fleet(replicas=replicas, **({"policy": TO_ZERO} | changes))  # type: ignore[arg-type]


def test_an_idle_fleet_with_a_gateway_goes_to_zero() -> None:
    fleet = small()
    fleet.run(QUIET, 1800)

    assert fleet.replicas == 0


def test_an_idle_fleet_with_a_schedule_goes_to_zero() -> None:
    fleet = small(resource_changes={"has_schedule": True})
    fleet.run(idle(), 1800)

    assert fleet.replicas == 0


def test_without_a_signal_that_wakes_it_up_the_last_replica_stays() -> None:
    fleet = small()
    decisions = fleet.run(idle(gateway_arrivals=NO_GATEWAY), 3600)

    assert fleet.replicas == 1
    assert Reason.NO_WAKE_UP_SIGNAL in {d.limited_by for d in decisions}


def test_a_minimum_of_one_keeps_one() -> None:
    fleet = small(policy=replace(POLICY, min_replicas=1))
    fleet.run(QUIET, 3600)

    assert fleet.replicas == 1


def test_idleness_must_have_lasted_a_window() -> None:
    fleet = small(replicas=1)
    fleet.run(metrics(0.5, gateway_arrivals=Value(0.5)), 600)
    fleet.run(QUIET, POLICY.stabilization_seconds - 15)

    assert fleet.replicas == 1
    fleet.run(QUIET, 60)
    assert fleet.replicas == 0


@pytest.mark.parametrize(
    "doubt",
    [metrics(0.0, gateway_arrivals=Idle()), idle(gateway_arrivals=Value(0.2)), lost(), lost(Reason.PARTIAL)],
    ids=["no request in a window proves nothing", "a gateway counts some", "no metrics", "some pods"],
)
def test_a_doubt_keeps_the_last_replica(doubt: Metrics) -> None:
    fleet = small(replicas=1)
    fleet.run(doubt, 3600)

    assert fleet.replicas >= 1


def test_a_restart_keeps_the_last_replica_for_a_window() -> None:
    fleet = small(replicas=1)
    fleet.run(QUIET, 285)
    fleet.restart()
    fleet.run(QUIET, 285)

    assert fleet.replicas == 1


def test_the_first_request_at_the_gateway_wakes_it_up() -> None:
    decision = small(replicas=0).tick(scaled_to_zero(gateway_arrivals=Value(1 / 60)))

    assert (decision.outcome, decision.to_replicas) == (Outcome.UP, 1)


def test_it_wakes_up_at_the_size_that_the_gateway_asks_for() -> None:
    fleet = small(replicas=0)
    decisions = fleet.run(scaled_to_zero(gateway_arrivals=Value(30.0)), 75)

    # Four on its first word, the rest when a second window says so.
    assert [d.to_replicas for d in decisions] == [4, 4, 4, 4, 6]


def test_missing_metrics_of_no_pods_raise_nothing() -> None:
    fleet = small(replicas=0)
    decisions = fleet.run(scaled_to_zero(), 4 * 3600)

    assert fleet.replicas == 0
    assert {d.reason for d in decisions} == {Reason.SCALED_TO_ZERO}


@pytest.mark.parametrize("signal", [scaled_to_zero(gateway_arrivals=Value(50.0)), lost()])
def test_a_fleet_that_was_taken_out_of_service_stays_out_of_service(signal: Metrics) -> None:
    fleet = small(replicas=0, policy=POLICY)
    decisions = fleet.run(signal, 3600)

    assert fleet.replicas == 0
    assert decisions[-1].reason is Reason.TARGET_AT_ZERO


@pytest.mark.parametrize("mode", list(ScalingMode))
def test_a_minimum_that_is_raised_wakes_up_what_slept(mode: ScalingMode) -> None:
    fleet = small(replicas=1)
    fleet.run(QUIET, 600)
    assert fleet.replicas == 0
    fleet.policy = replace(fleet.policy, mode=mode)
    fleet.run(scaled_to_zero(gateway_arrivals=Value(0.0)), 600)
    fleet.policy = replace(fleet.policy, mode=ScalingMode.ACTIVE, min_replicas=3)

    decision = fleet.tick(scaled_to_zero(gateway_arrivals=Value(0.0)))

    assert (decision.to_replicas, decision.reason) == (3, Reason.BELOW_MINIMUM)


def test_what_was_started_by_hand_while_it_was_paused_sleeps_no_more() -> None:
    fleet = small(replicas=0)
    fleet.run(scaled_to_zero(gateway_arrivals=Value(0.0)), 60)
    fleet.policy = replace(fleet.policy, mode=ScalingMode.PAUSED, min_replicas=2)
    for replicas in (4, 0):
        fleet.replicas = replicas
        fleet.tick(QUIET if replicas else scaled_to_zero())
    fleet.policy = replace(fleet.policy, mode=ScalingMode.ACTIVE)

    assert fleet.tick(scaled_to_zero(gateway_arrivals=Value(50.0))).reason is Reason.TARGET_AT_ZERO


def test_taken_out_of_service_after_it_was_woken_up_it_stays_out() -> None:
    fleet = small(replicas=0)
    fleet.run(scaled_to_zero(gateway_arrivals=Value(0.0)), 60)
    fleet.policy = replace(fleet.policy, min_replicas=3)
    fleet.tick(scaled_to_zero(gateway_arrivals=Value(0.0)))
    fleet.run(QUIET, 60)
    fleet.replicas = 0
    decision = fleet.tick(scaled_to_zero(gateway_arrivals=Value(50.0)))

    assert (decision.to_replicas, decision.reason) == (0, Reason.TARGET_AT_ZERO)


def test_it_sleeps_again_after_it_was_woken_up_for_nothing() -> None:
    fleet = small(replicas=0)
    fleet.tick(scaled_to_zero(gateway_arrivals=Value(1 / 60)))
    assert fleet.replicas == 1
    fleet.run(QUIET, 1800)

    assert fleet.replicas == 0
