from __future__ import annotations

import numpy as np
import pytest

from firsttoken_lab.replay.late import ExpectedMisses

REQUESTS = np.array([100, 100], np.int64)
LEARNED = np.array([[80.0, 40.0, 10.0], [80.0, 40.0, 10.0]])


def schedule(*replicas: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(replicas, np.int64)


def test_a_minute_that_was_seen_counts_as_it_was() -> None:
    lateness = ExpectedMisses(REQUESTS, LEARNED)
    lateness.learn(schedule(2, 1), np.array([40.0, 80.0]))
    lateness.learn(schedule(2, 1), np.array([40.0, 60.0]))
    assert lateness.expected()[0, 1] == 40
    assert lateness.expected()[1, 0] == 70  # half of it by the last replay


def test_more_replicas_are_never_later_than_fewer_were_and_fewer_never_sooner_than_more() -> None:
    lateness = ExpectedMisses(REQUESTS, LEARNED)
    lateness.learn(schedule(2, 2), np.array([2.0, 78.0]))
    first, second = lateness.expected()
    assert first.tolist() == [80.0, 2.0, 2.0]
    assert second.tolist() == [80.0, 78.0, 10.0]


def test_what_is_learned_is_scaled_by_how_much_of_it_came_true() -> None:
    lateness = ExpectedMisses(REQUESTS, LEARNED)
    lateness.learn(schedule(2, 2), np.array([20.0, 20.0]))
    assert lateness.expected()[:, 0].tolist() == [40.0, 40.0]
    assert lateness.expected()[:, 2].tolist() == [5.0, 5.0]


def test_nothing_late_does_not_promise_that_nothing_ever_is() -> None:
    lateness = ExpectedMisses(REQUESTS, LEARNED)
    for _ in range(3):
        lateness.learn(schedule(3, 3), np.zeros(2))
    assert (lateness.expected()[:, 0] > 0).all()


def test_no_more_are_late_than_came() -> None:
    lateness = ExpectedMisses(REQUESTS, LEARNED)
    lateness.learn(schedule(3, 3), np.array([100.0, 90.0]))
    assert lateness.expected()[:, :2].max() <= 100


def test_how_much_is_untried_is_known() -> None:
    lateness = ExpectedMisses(REQUESTS, LEARNED)
    assert lateness.untried_share(schedule(2, 2)) == 1
    lateness.learn(schedule(2, 3), np.zeros(2))
    assert lateness.untried_share(schedule(2, 2)) == pytest.approx(0.5)
