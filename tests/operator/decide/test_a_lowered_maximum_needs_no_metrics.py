"""A lowered maximum is obeyed step by step, whatever metrics and pods say. And no rollout holds a size for ever."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from firsttoken_operator.domain import Metrics, Outcome, Reason, ScaleDown, Value
from tests.operator.decide.builders import POLICY, Fleet, idle, lost, metrics

CASES: dict[str, tuple[Metrics, dict[str, Any]]] = {
    "a rollout": (metrics(20), {"rollout": True}),
    "no metrics": (lost(), {}),
    "stale metrics": (lost(Reason.STALE), {}),
    "failing requests": (metrics(20, health=Reason.ERRORS_PRESENT, error_share=Value(0.5)), {}),
    "a part of the pods": (metrics(20, health=Reason.PARTIAL, arrivals=Value(20, coverage=0.5)), {}),
    "pods that start": (metrics(20), {"starting": 5}),
    "pods that cannot start": (metrics(20), {"stuck": 5, "failing": 5}),
    "an overload": (metrics(2000, waiting=Value(5000)), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_lowered_maximum_is_reached_in_steps(case: str) -> None:
    mtr, pods = CASES[case]
    fleet = Fleet(40, policy=replace(POLICY, max_replicas=60))
    fleet.run(metrics(190), 300)
    fleet.policy = replace(POLICY, max_replicas=4, scale_down=ScaleDown.NEVER)
    decisions = fleet.run(mtr, 3600, **pods)
    changes = [d for d in decisions if d.changes]

    assert fleet.replicas == 4
    assert {d.reason for d in changes} == {Reason.ABOVE_LIMIT}
    assert all(d.from_replicas - d.to_replicas <= max(1, d.from_replicas // 4) for d in changes)
    # A rate window and two ticks lie between two steps.
    at = [i for i, d in enumerate(decisions) if d.changes]
    assert min(later - earlier for earlier, later in pairwise(at)) * 15 >= 90


def test_what_a_sizing_lowers_still_needs_metrics() -> None:
    fleet = Fleet(40)
    fleet.run(metrics(190), 300)
    fleet.sized = replace(fleet.sized, replicas_for_declared_peak=4)  # type: ignore[type-var]
    fleet.run(lost(), 600)

    assert fleet.replicas == 40


def test_a_rollout_that_is_paused_keeps_an_idle_fleet_for_its_deadline_only() -> None:
    fleet = Fleet(40)
    fleet.run(metrics(190), 900)
    decisions = fleet.run(idle(), 1800, rollout=True, ready=39)

    assert {d.reason for d in decisions[25:]} == {Reason.ROLLOUT}
    assert fleet.replicas == 40
    fleet.run(idle(), 3600, rollout=True, ready=39)
    assert fleet.replicas < 10


@pytest.mark.parametrize("pods", [{"starting": 1}, {"terminating": 1}])
def test_a_rollout_with_pods_that_come_or_go_holds_the_fleet(pods: dict[str, int]) -> None:
    fleet = Fleet(40)
    fleet.run(metrics(190), 300)
    fleet.run(idle(), 7200, rollout=True, **pods)

    assert fleet.replicas == 40


def test_a_rollout_that_moves_on_holds_the_fleet() -> None:
    fleet = Fleet(40)
    fleet.run(metrics(190), 300)
    for pod in range(10):
        fleet.run(idle(), 600, rollout=True, ready=40 - pod % 2)

    assert fleet.replicas == 40


def test_a_first_start_that_takes_longer_than_expected_orders_a_quarter_again_at_most() -> None:
    fleet = Fleet(10)
    fleet.run(metrics(97), 30)
    ordered = fleet.replicas
    fleet.run(metrics(97), 900, ready=10, starting=ordered - 10)
    assert fleet.replicas == ordered
    for _ in range(240):
        decision = fleet.tick(metrics(97), ready=10, stuck=ordered - 10, starting=fleet.replicas - ordered)

    assert fleet.replicas <= ordered + 6
    assert decision.outcome is Outcome.STEADY
