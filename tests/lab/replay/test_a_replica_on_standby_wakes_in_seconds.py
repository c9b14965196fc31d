"""Replicas that sleep: billed as ever, woken before others are started, and put to sleep when they have answered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firsttoken_lab.replay.play import Played, play
from firsttoken_lab.replay.policies.ours import Ours
from firsttoken_lab.replay.policies.view import View
from firsttoken_lab.replay.replicas import ColdStart
from firsttoken_lab.replay.score import score
from firsttoken_lab.replay.setting import Setting
from tests.lab.replay.worlds import SLA, stage, traffic

TRAFFIC = traffic([(1200, 2.0)])
END = float(TRAFFIC.arrival_s[-1])
COLD_SECONDS = 200.0


class Plan:
    """Asks for what a table of `(seconds, replicas, standby)` says, and keeps what it is shown."""

    name = "plan"
    interval_seconds = 15.0

    def __init__(self, *steps: tuple[float, int, int]) -> None:
        self._steps, self.initial, self.standby = steps, steps[0][1], 0
        self.views: list[View] = []

    def desired(self, view: View) -> int:
        self.views.append(view)
        replicas, self.standby = [each[1:] for each in self._steps if each[0] <= view.now_seconds][-1]
        return replicas


def played(plan: Plan) -> Played:
    return play(plan, TRAFFIC, replace(stage(cold_start_seconds=COLD_SECONDS), wake_up=ColdStart(5.0)))


def shown(plan: Plan, at_seconds: float) -> View:
    return next(view for view in plan.views if view.now_seconds >= at_seconds)


def test_it_is_billed_like_any_other_and_counted_apart() -> None:
    plan = Plan((0, 3, 0), (300, 3, 2))
    result = played(plan)

    assert result.replica_seconds == pytest.approx(3 * END + 2 * (END - 300))
    assert score(result, SLA, 4).standby_gpu_hours == pytest.approx(4 * 2 * (END - 300) / 3600, rel=0.01)
    assert score(result, SLA, 4, from_seconds=600).standby_gpu_hours == pytest.approx(8 * (END - 600) / 3600, rel=0.01)


def test_it_starts_first_and_sleeps_then() -> None:
    plan = Plan((0, 3, 0), (300, 3, 2))
    played(plan)

    started = shown(plan, 300 + 0.7 * COLD_SECONDS)
    assert (started.replicas, started.ready, started.starting, started.standby, started.asleep) == (3, 3, 0, 2, 0)
    sleeping = shown(plan, 330 + 1.2 * COLD_SECONDS)
    assert (sleeping.ready, sleeping.standby, sleeping.asleep) == (3, 2, 2)


def test_it_serves_seconds_after_it_is_woken_and_others_start_behind_it() -> None:
    plan = Plan((0, 3, 0), (300, 3, 1), (700, 5, 0))
    result = played(plan)
    after = result.trajectory.at_seconds > 700 + 15 + 6
    ready = result.trajectory.ready[after]

    assert ready[0] == 4, "one has been woken"
    assert ready[-1] == 5, "and the other one was started"
    assert shown(plan, 730).time_to_wake_seconds == pytest.approx(5.0, rel=0.2)
    assert shown(plan, 730).time_to_ready_seconds == pytest.approx(COLD_SECONDS, rel=0.2)


def test_a_smaller_fleet_answers_what_it_has_and_sleeps() -> None:
    plan = Plan((0, 4, 0), (300, 3, 1), (900, 4, 0))
    result = played(plan)

    assert shown(plan, 420).asleep == 1
    assert result.replica_seconds == pytest.approx(4 * END)
    assert not np.isnan(result.ttft_seconds).any(), "no request is lost"


def test_standby_that_is_given_up_is_billed_no_more() -> None:
    result = played(Plan((0, 3, 0), (300, 3, 2), (800, 3, 0)))

    assert result.replica_seconds == pytest.approx(3 * END + 2 * 500, abs=2 * 20)


@pytest.mark.slow
def test_our_policy_wakes_what_sleeps_for_a_burst(setting: Setting) -> None:
    burst, plays = traffic([(1500, 60.0), (600, 240.0), (600, 60.0)]), []
    for standby in (0, 3):
        ours = Ours(setting.sized, replace(setting.policy, standby=standby))
        result = play(ours, burst, setting.stage(90, 600.0, 0.0, 1))
        plays.append(score(result, setting.sized.sla, 1))
    without, kept = plays

    assert kept.attainment_percent > without.attainment_percent
    assert kept.standby_gpu_hours > 0 == without.standby_gpu_hours
