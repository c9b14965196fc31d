"""Comparison of the operator with the replay: it must see a change that is missing, late, wrong or not asked for."""

from __future__ import annotations

import pytest

from tests.e2e.trajectories import Trajectory, differences

INTERVAL_SECONDS = 1.5
END_SECONDS = 80.0
REPLAY = Trajectory(((0.0, 6), (21.0, 10), (22.5, 14), (24.0, 17), (66.0, 13), (75.0, 10)))


def found(operator: Trajectory) -> list[str]:
    trajectories = {"operator": operator, "replay": REPLAY}
    every = differences(trajectories, end_seconds=END_SECONDS, replicas=1, interval_seconds=INTERVAL_SECONDS)
    return [str(difference) for difference in every]


def moved(index: int, seconds: float = 0.0, replicas: int = 0) -> Trajectory:
    """The replay's trajectory with one change at another time or to another size."""
    changes = list(REPLAY.changes)
    at, size = changes[index]
    changes[index] = (at + seconds, size + replicas)
    return Trajectory(tuple(changes))


def without(*indices: int) -> Trajectory:
    return Trajectory(tuple(change for i, change in enumerate(REPLAY.changes) if i not in indices))


def shifted(seconds: float) -> Trajectory:
    (at, size), *changes = REPLAY.changes
    return Trajectory(((at, size), *((at + seconds, size) for at, size in changes)))


@pytest.mark.parametrize(
    "operator",
    [
        REPLAY,
        shifted(INTERVAL_SECONDS),
        shifted(-INTERVAL_SECONDS),
        *(moved(i, replicas=r) for i in range(1, 6) for r in (-1, 1)),
        *(moved(i, INTERVAL_SECONDS * 0.99, 1) for i in range(1, 6)),
        # 14 and then 17 as 14, 16 and 17: the same rise, in smaller steps.
        Trajectory(((0.0, 6), (21.0, 10), (22.5, 14), (24.0, 16), (25.5, 17), (66.0, 13), (75.0, 10))),
    ],
)
def test_a_replica_and_an_interval_are_no_difference(operator: Trajectory) -> None:
    assert found(operator) == []


@pytest.mark.parametrize("index", [3, 4, 5])
def test_a_missing_change_is_a_difference(index: int) -> None:
    assert found(without(index))


@pytest.mark.parametrize("by_seconds", [-2 * INTERVAL_SECONDS, 2 * INTERVAL_SECONDS])
def test_a_trajectory_two_intervals_early_or_late_is_a_difference(by_seconds: float) -> None:
    assert found(shifted(by_seconds))


@pytest.mark.parametrize("index", [3, 4, 5])
@pytest.mark.parametrize("by_seconds", [-2 * INTERVAL_SECONDS, 2 * INTERVAL_SECONDS])
def test_one_change_two_intervals_early_or_late_is_a_difference(index: int, by_seconds: float) -> None:
    changes = sorted(moved(index, by_seconds).changes)
    assert found(Trajectory(tuple(changes)))


@pytest.mark.parametrize("index", range(1, 6))
@pytest.mark.parametrize("replicas", [-6, 6])
def test_a_change_to_another_size_is_a_difference(index: int, replicas: int) -> None:
    assert found(moved(index, replicas=replicas))


@pytest.mark.parametrize("replicas", [-2, 2])
@pytest.mark.parametrize("index", [3, 4, 5])
def test_two_replicas_more_or_less_where_the_size_stays_are_a_difference(index: int, replicas: int) -> None:
    assert found(moved(index, replicas=replicas))


def test_a_dip_that_only_one_of_them_has_is_a_difference() -> None:
    dip = Trajectory((*REPLAY.changes[:4], (40.0, 12), (41.0, 17), *REPLAY.changes[4:]))
    assert found(dip)
    trajectories = {"replay": dip, "operator": REPLAY}
    assert differences(trajectories, end_seconds=END_SECONDS, replicas=1, interval_seconds=INTERVAL_SECONDS)


def test_a_fleet_that_is_never_scaled_is_a_difference_and_says_which() -> None:
    (rise, *_) = found(Trajectory(((0.0, 6),)))
    assert rise == "22.5 to 24.0 s: operator 6, the other 10 to 17"


def test_a_trajectory_begins_with_what_was_asked_for_before_and_ends_with_its_time() -> None:
    events = [(-5.0, 0), (-4.0, 6), (-1.0, 6), (3.0, 6), (20.0, 9), (81.0, 4)]
    assert Trajectory.of(events, 0.0, END_SECONDS) == Trajectory(((0.0, 6), (20.0, 9)))
