"""A starting pod is credited as capacity until the start deadline, which the slowest start seen may put later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.decide import judge_facts
from firsttoken_operator.decide.facts import start_deadline_seconds
from firsttoken_operator.domain import FleetSnapshot, Target
from firsttoken_operator.estimate import DEFAULT, EstimatorConfig
from tests.operator.decide.builders import metrics, resource, target

LEAST_SECONDS = 900.0
IMPATIENT = replace(DEFAULT, decision=replace(DEFAULT.decision, least_start_deadline_seconds=60.0))


def judged(waits_seconds: tuple[float, ...], config: EstimatorConfig = DEFAULT) -> Target:
    about = resource(target(3, ready=1, starting=len(waits_seconds), waits_seconds=waits_seconds), metrics(1.0))
    (found,) = judge_facts(FleetSnapshot(0, 15, (about,)), config=config).resources
    assert isinstance(found.target, Target)
    return found.target


@pytest.mark.parametrize(
    ("slowest", "time_scale", "deadline"),
    [
        (None, 1.0, LEAST_SECONDS),
        (None, 10.0, LEAST_SECONDS / 10),
        (40.0, 1.0, LEAST_SECONDS),
        (40.0, 10.0, LEAST_SECONDS / 10),
        (100.0, 10.0, 126.0),
        (2000.0, 1.0, 2501.0),
    ],
)
def test_quick_starts_put_the_deadline_no_earlier_and_slow_ones_later(
    slowest: float | None, time_scale: float, deadline: float
) -> None:
    assert start_deadline_seconds(target(3, p99_start_seconds=slowest), time_scale) == deadline


@pytest.mark.parametrize(("declared", "seconds"), [(60, 900.0), (1800, 1800.0), (14_400, 14_400.0)])
def test_a_declared_start_up_time_is_waited_for(declared: int, seconds: float) -> None:
    declaring = target(3, startup_timeout_seconds=declared)

    assert start_deadline_seconds(declaring, 1.0) == seconds
    assert start_deadline_seconds(declaring, 10.0) == seconds / 10


def test_a_pod_is_stuck_once_it_is_past_the_deadline() -> None:
    found = judged((LEAST_SECONDS, LEAST_SECONDS + 1))

    assert (found.ready, found.starting, found.stuck) == (1, 1, 1)


def test_another_config_gives_pods_up_at_another_time() -> None:
    assert judged((61.0, 59.0)).stuck == 0
    assert judged((61.0, 59.0), IMPATIENT).stuck == 1


def test_what_was_judged_once_is_judged_alike_again() -> None:
    once = judged((LEAST_SECONDS + 1,))
    (again,) = judge_facts(FleetSnapshot(0, 15, (resource(once, metrics(1.0)),))).resources

    assert again.target == once
