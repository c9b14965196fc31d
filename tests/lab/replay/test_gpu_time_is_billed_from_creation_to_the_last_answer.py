from __future__ import annotations

import numpy as np
import pytest

from firsttoken_lab.replay.play import play
from firsttoken_lab.replay.policies.schedule import Schedule, Static
from firsttoken_lab.replay.policies.view import View
from firsttoken_lab.replay.score import score
from tests.lab.replay.worlds import SLA, stage, traffic, view

TRAFFIC = traffic([(1200, 2.0)])
END = float(TRAFFIC.arrival_s[-1])


class Plan:
    """Asks for what a table of `(seconds, replicas)` says."""

    name = "plan"
    interval_seconds = 15.0

    def __init__(self, *steps: tuple[float, int]) -> None:
        self._steps, self.initial = steps, steps[0][1]

    def desired(self, view: View) -> int:
        return [replicas for at, replicas in self._steps if at <= view.now_seconds][-1]


def test_a_static_fleet_costs_its_size_times_the_duration() -> None:
    played = play(Static("static", 3), TRAFFIC, stage())

    assert played.replica_seconds == pytest.approx(3 * END)
    assert score(played, SLA, 4).gpu_hours == pytest.approx(12 * END / 3600)
    assert score(played, SLA, 4).scale_events == 0
    assert score(played, SLA, 4, from_seconds=600).gpu_hours == pytest.approx(12 * (END - 600) / 3600)


def test_a_replica_is_billed_while_it_starts() -> None:
    played = play(Plan((0, 3), (300, 4)), TRAFFIC, stage(cold_start_seconds=400))

    assert played.changes == ((0.0, 3), (300.0, 4))
    assert played.replica_seconds == pytest.approx(3 * END + (END - 300))
    starting = (played.trajectory.at_seconds > 300) & (played.trajectory.at_seconds < 300 + 0.8 * 400)
    assert (played.trajectory.living[starting] == 4).all()
    assert (played.trajectory.ready[starting] == 3).all()


def test_a_replica_that_is_removed_is_billed_until_its_last_answer() -> None:
    played = play(Plan((0, 4), (300, 3)), TRAFFIC, stage())

    more = played.replica_seconds - 3 * END
    # It drains for as long as its requests take, which is some seconds, and is seen to be empty at the next scrape.
    assert 300 < more <= 300 + 45


def test_a_start_that_is_taken_back_costs_only_the_time_that_it_was_there() -> None:
    played = play(Plan((0, 3), (300, 5), (330, 3)), TRAFFIC, stage(cold_start_seconds=400))

    assert played.replica_seconds == pytest.approx(3 * END + 2 * 30)


def test_a_schedule_is_asked_for_early_enough_to_serve_in_time() -> None:
    minutes = np.array([2] * 5 + [4] * 5 + [3] * 10)
    schedule = Schedule("schedule", minutes, 100.0)

    # 100 s are seven intervals of 15 s: asked for at 195 s to serve from 300 s on; given back when it is due.
    assert [schedule.desired(view(at, 1, running=0)) for at in (0, 180, 195, 285, 300, 585, 600)] == [
        2,
        2,
        4,
        4,
        4,
        4,
        3,
    ]
