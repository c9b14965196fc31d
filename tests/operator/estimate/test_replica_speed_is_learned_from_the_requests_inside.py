"""By Little's law the requests inside replicas tell how fast these really are, at any load."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from firsttoken_operator.domain import Metrics, Missing, Reason, Value
from firsttoken_operator.estimate import DEFAULT
from firsttoken_operator.estimate.replica_speed import ReplicaSpeed, measured, update
from firsttoken_operator.estimate.replica_speed import speed as speed_of
from tests.operator.decide.builders import SIZED, Fleet, metrics, running, target, worked_table

TABLE = worked_table()
SIZED_WITH_WORK = replace(SIZED, table=TABLE)
REPLICAS = 10
LAW = DEFAULT.replica_speed


def seen(rate: float, slowness: float, **changes: object) -> Metrics:
    """Metrics of ten replicas whose every step takes `slowness` times as long as modeled."""
    return metrics(rate, running=Value(running(TABLE, rate, REPLICAS, slowness)), **changes)


def speed(mtr: Metrics) -> float | None:
    return measured(mtr, target(REPLICAS), 1.0, TABLE, LAW)


@pytest.mark.parametrize("rate", [10.0, 25.0, 45.0])
@pytest.mark.parametrize("slowness", [0.6, 0.8, 1.0, 1.3, 1.8])
def test_replicas_that_stretch_time_are_found_to_do_so(rate: float, slowness: float) -> None:
    assert speed(seen(rate, slowness)) == pytest.approx(1 / slowness, rel=0.05)


@pytest.mark.parametrize("slowness", [0.7, 1.0, 1.4])
def test_longer_outputs_are_not_taken_for_slow_replicas(slowness: float) -> None:
    inside = running(TABLE, 20.0, REPLICAS, slowness, output_tokens=400.0)
    mtr = metrics(20.0, running=Value(inside), output_tokens=Value(400.0))

    assert speed(mtr) == pytest.approx(1 / slowness, rel=0.05)


@pytest.mark.parametrize("slowness", [0.3, 4.0])
def test_what_no_replica_of_that_kind_can_be_is_an_outlier(slowness: float) -> None:
    assert speed(seen(10.0, slowness)) is None


@pytest.mark.parametrize(
    "changes",
    [{"waiting": Value(1e3)}, {"waiting": Missing(Reason.NO_SERIES)}, {"running": Missing(Reason.NO_SERIES)}],
    ids=["an overload", "an unknown queue", "unknown running requests"],
)
def test_what_cannot_be_judged_says_nothing(changes: dict[str, object]) -> None:
    assert speed(replace(seen(25.0, 1.3), **changes)) is None  # type: ignore[arg-type]


def test_a_handful_of_requests_is_chance() -> None:
    assert speed(seen(0.1, 1.3)) is None


def test_without_the_cost_of_tokens_nothing_is_measured() -> None:
    assert measured(seen(25.0, 1.3), target(REPLICAS), 1.0, replace(TABLE, work=None), LAW) is None


@pytest.mark.parametrize("slowness", [0.7, 1.5])
def test_an_hour_of_traffic_finds_it_up_to_what_the_model_itself_may_err(slowness: float) -> None:
    fleet = Fleet(replicas=REPLICAS, sized=SIZED_WITH_WORK)
    for _ in range(240):
        decision = fleet.tick(seen(30.0, slowness), apply=False)

    assert abs(math.log(decision.capacity_factor * slowness)) <= LAW.model_error + 0.06
    assert (decision.capacity_factor < 1) is (slowness > 1)


def test_slow_replicas_need_more_of_them_before_a_request_is_late() -> None:
    fleet = Fleet(replicas=REPLICAS, sized=SIZED_WITH_WORK)
    for _ in range(240):
        decision = fleet.tick(seen(45.0, 1.5), apply=False)

    assert decision.to_replicas > REPLICAS


def test_an_error_of_the_model_is_not_taken_for_another_speed() -> None:
    known = ReplicaSpeed()
    for _ in range(240):
        known = update(known, math.exp(0.9 * LAW.model_error), 15.0, LAW)

    assert speed_of(known, LAW) == 1


def test_one_measurement_moves_little() -> None:
    assert speed_of(update(ReplicaSpeed(), 2.0, 15.0, LAW), LAW) == 1
    assert speed_of(update(ReplicaSpeed(0.5, 1e9), 0.5, 15.0, LAW), LAW) > 1


@pytest.mark.parametrize("pods", [{"ready": 8, "starting": 2}, {"terminating": 2}, {"rollout": True}])
def test_a_fleet_in_motion_shows_no_speed(pods: dict[str, object]) -> None:
    fleet = Fleet(replicas=REPLICAS, sized=SIZED_WITH_WORK)
    for _ in range(240):
        fleet.tick(seen(30.0, 1.5), apply=False, **pods)

    assert fleet.known.calibration.speed.seconds == 0
