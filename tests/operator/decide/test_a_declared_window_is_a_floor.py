"""A declared peak is there before its load: a floor while its window is open, and room above it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.domain import Outcome, Reason
from tests.operator.decide.builders import POLICY, Fleet, lost, metrics


def scheduled(rate: float | None, replicas: int = 10, **changes: object) -> Fleet:
    """A fleet of which a window asks for this rate now."""
    window = {"scheduled_requests_per_second": rate, "has_schedule": True}
    return Fleet(replicas=replicas, resource_changes=dict(window), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("signal", [metrics(5), lost()], ids=["with metrics", "without metrics"])
def test_a_window_raises_a_fleet_before_its_load_comes(signal: object) -> None:
    fleet = scheduled(100.0)
    decisions = [fleet.tick(signal) for _ in range(3)]  # type: ignore[arg-type]

    assert fleet.replicas == 20
    assert {d.reason for d in decisions if d.changes} == {Reason.SCHEDULED_PEAK}


def test_nothing_is_given_back_below_an_open_window() -> None:
    fleet = scheduled(100.0, replicas=40)
    decisions = fleet.run(metrics(5), 7200)

    assert fleet.replicas == 20
    assert decisions[-1].outcome is Outcome.STEADY


def test_a_closed_window_lets_the_fleet_go() -> None:
    fleet = scheduled(100.0, replicas=20)
    fleet.run(metrics(5), 1800)
    fleet.resource_changes = {"scheduled_requests_per_second": None, "has_schedule": True}
    fleet.run(metrics(5), 3600)

    assert fleet.replicas == POLICY.min_replicas


def test_a_window_above_the_declared_peak_has_its_headroom_too() -> None:
    fleet = scheduled(400.0, replicas=80)

    # 80 replicas and half as many again.
    assert fleet.tick(metrics(700)).limit == 120


def test_a_window_below_the_declared_peak_leaves_the_upper_bound() -> None:
    assert scheduled(10.0).tick(metrics(5)).limit == Fleet(replicas=10).tick(metrics(5)).limit


def test_max_replicas_wins_over_a_window() -> None:
    fleet = scheduled(200.0, policy=replace(POLICY, max_replicas=15))
    fleet.run(metrics(5), 60)

    assert fleet.replicas == 15


def test_a_window_does_not_hold_back_what_really_comes() -> None:
    assert scheduled(30.0).tick(metrics(75)).to_replicas == 15


def test_a_window_wakes_a_fleet_up() -> None:
    fleet = scheduled(40.0, replicas=0, policy=replace(POLICY, min_replicas=0))
    reasons = [fleet.tick(lost(cause=Reason.NO_READY_PODS), ready=0).reason for _ in range(3)]

    assert fleet.replicas == 8
    assert reasons[0] is Reason.SCHEDULED_PEAK


def test_a_step_up_to_a_window_is_bounded_like_any_other() -> None:
    fleet = scheduled(200.0, replicas=10)

    assert fleet.tick(metrics(5)).limited_by is Reason.SCALE_UP_STEP
    assert fleet.replicas == 20
