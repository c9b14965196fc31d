"""Unknown is not zero: without data the fleet is held, and after the grace time raised to what was declared."""

from dataclasses import replace

import pytest

from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import (
    FleetSnapshot,
    Missing,
    Outcome,
    Reason,
    ScalingMode,
    TargetMissing,
    Unsized,
    Value,
)
from tests.operator.decide.builders import POLICY, TICK_SECONDS, Fleet, lost, metrics, resource
from tests.operator.decide.test_scale_down_is_strict import first_change, settled

UNKNOWN = [Reason.MISSING, Reason.STALE, Reason.RECOVERING]


@pytest.mark.parametrize("health", UNKNOWN)
def test_an_outage_shorter_than_the_grace_time_changes_nothing(health: Reason) -> None:
    fleet = settled(replicas=16)
    decisions = fleet.run(lost(health), 885)

    assert {d.outcome for d in decisions} == {Outcome.HELD}
    assert {d.reason for d in decisions} == {health}
    assert fleet.replicas == 16


@pytest.mark.parametrize("health", UNKNOWN)
def test_a_longer_outage_raises_to_the_declared_peak_once(health: Reason) -> None:
    fleet = settled(replicas=16)
    sizes = [(d.to_replicas, d.reason) for d in fleet.run(lost(health), 3600) if d.changes]

    assert sizes == [(40, Reason.DECLARED_PEAK)]


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ({"ready": 0, "failing": 16, "stuck": 16}, Reason.PODS_FAILING),
        ({"ready": 0, "unschedulable": 16, "starting": 16}, Reason.PODS_UNSCHEDULABLE),
        ({"ready": 0, "refused": "exceeded quota: gpus"}, Reason.PODS_REFUSED),
        ({"ready": 0, "starting": 16}, Reason.MISSING),
    ],
    ids=["they crash", "there is no room", "a quota refuses them", "they start"],
)
def test_pods_that_never_ran_are_no_metrics_outage(pods: dict[str, object], reason: Reason) -> None:
    fleet = Fleet(replicas=16)
    decisions = fleet.run(lost(cause=Reason.NO_READY_PODS), 3600, **pods)

    assert fleet.replicas == 16
    assert decisions[-1].reason is reason


def test_a_longer_outage_never_lowers_a_fleet_above_the_declared_peak() -> None:
    fleet = settled(replicas=55)
    fleet.run(lost(), 3600)

    assert fleet.replicas == 55


def test_flapping_data_counts_as_one_outage_until_it_is_whole() -> None:
    fleet = settled(replicas=16)
    for _ in range(20):
        fleet.tick(lost(Reason.MISSING))
        fleet.tick(lost(Reason.RECOVERING))
        fleet.tick(metrics(75, health=Reason.PARTIAL))

    assert fleet.replicas == 16
    assert fleet.run(lost(), 60)[-1].reason in {Reason.MISSING, Reason.DECLARED_PEAK}


def test_data_that_is_good_and_bad_in_turn_for_half_an_hour_changes_no_replica() -> None:
    fleet = settled(replicas=16)
    decisions = [fleet.tick(lost() if tick % 2 else metrics(75)) for tick in range(round(1800 / TICK_SECONDS))]

    assert {d.to_replicas for d in decisions} == {16}


def test_data_that_comes_back_low_lowers_nothing_for_a_full_window() -> None:
    fleet = settled(replicas=40)
    fleet.run(lost(), 1800)

    waited = first_change(fleet, metrics(50), 900)

    assert waited == pytest.approx(315, abs=TICK_SECONDS)


def test_data_that_comes_back_high_scales_up_at_once() -> None:
    fleet = settled(replicas=16)
    fleet.run(lost(), 600)

    assert fleet.tick(metrics(150)).to_replicas == 30


def test_arrivals_that_are_missing_are_not_zero_even_when_the_rest_is_healthy() -> None:
    fleet = settled(replicas=40)
    decisions = fleet.run(metrics(0, arrivals=Missing(Reason.NOT_A_NUMBER)), 850)

    assert fleet.replicas == 40
    assert {d.outcome for d in decisions} == {Outcome.HELD}


@pytest.mark.parametrize("health", [*UNKNOWN, Reason.PARTIAL])
def test_advice_that_was_not_followed_yet_is_repeated_while_data_is_missing(health: Reason) -> None:
    fleet = Fleet(replicas=16, policy=replace(POLICY, mode=ScalingMode.ADVISORY))
    advised = fleet.tick(metrics(150), apply=False).to_replicas
    repeated = [fleet.tick(lost(health), apply=False) for _ in range(5)]

    assert advised == 30
    assert {d.to_replicas for d in repeated} == {30}
    assert {d.outcome for d in repeated} == {Outcome.HELD}


def test_lower_advice_is_not_repeated_on_missing_data() -> None:
    fleet = settled(replicas=40, policy=replace(POLICY, mode=ScalingMode.ADVISORY))
    lower = [fleet.tick(metrics(50), apply=False).to_replicas for _ in range(25)][-1]

    assert lower == 30
    assert fleet.tick(lost(), apply=False).to_replicas == 40


def test_failed_requests_may_raise_and_never_lower() -> None:
    assert Fleet(replicas=16).tick(metrics(150, health=Reason.ERRORS_PRESENT)).to_replicas == 30
    fleet = settled(replicas=40)
    fleet.run(metrics(50, health=Reason.ERRORS_PRESENT), 900)
    assert fleet.replicas == 40


def test_an_unknown_backlog_does_not_hide_the_arrivals() -> None:
    fleet = settled(replicas=16)

    assert fleet.tick(metrics(150, waiting=Missing(Reason.NO_SERIES))).to_replicas == 30


def test_a_resource_without_a_sizing_is_left_alone_and_says_why() -> None:
    fleet = Fleet(replicas=16)
    fleet.sized = Unsized(Reason.UNKNOWN_MODEL, "spec.model: unknown model")

    decision = fleet.tick(metrics(1000, arrivals=Value(1000)))

    assert (decision.to_replicas, decision.outcome, decision.reason) == (16, Outcome.HELD, Reason.UNKNOWN_MODEL)
    assert decision.message == "spec.model: unknown model"


def test_a_missing_target_is_reported_and_nothing_is_created() -> None:
    missing = TargetMissing(Reason.TARGET_NOT_FOUND, "Deployment nim is not there")
    gone = resource(missing, metrics(1))
    (decision,), _ = decide(FleetSnapshot(0, TICK_SECONDS, (gone,)), Memory())

    assert (decision.reason, decision.changes) == (Reason.TARGET_NOT_FOUND, False)
    assert decision.message == "Deployment nim is not there"
