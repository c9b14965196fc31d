from __future__ import annotations

from datetime import UTC, datetime

import pytest

from firsttoken_lab.replay.play import play
from firsttoken_lab.replay.policies.ours import TICK_SECONDS, Ours
from firsttoken_lab.replay.policies.view import View
from firsttoken_lab.replay.setting import Setting
from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import DEPLOYMENT, FleetSnapshot, ResourceSnapshot, Target, ready_seconds
from tests.lab.replay.worlds import traffic

MONDAY = datetime(2026, 11, 16, tzinfo=UTC).timestamp()


class Beside:
    """Our policy, and beside it the operator's decision on snapshots made from the same views."""

    name = "beside"
    interval_seconds = TICK_SECONDS

    def __init__(self, setting: Setting) -> None:
        self._setting, self._ours, self._memory = setting, Ours(setting.sized, setting.policy), Memory()
        self.initial = self._ours.initial
        self.asked: list[tuple[int, int]] = []

    def desired(self, view: View) -> int:
        target = Target(
            "uid", DEPLOYMENT, "rag", view.replicas, view.ready, view.starting, terminating=view.terminating
        )
        resource = ResourceSnapshot(
            uid="uid",
            namespace="call-center",
            name="rag",
            generation=1,
            policy=self._setting.policy,
            sized=self._setting.sized,
            target=target,
            metrics=view.metrics,
            time_to_ready_seconds=ready_seconds(view.time_to_ready_seconds),
        )
        snapshot = FleetSnapshot(view.now_seconds, TICK_SECONDS, (resource,), epoch_seconds=MONDAY + view.now_seconds)
        (decision,), self._memory = decide(snapshot, self._memory)
        self.asked.append((self._ours.desired(view), decision.to_replicas))
        return self.asked[-1][0]


@pytest.mark.slow
def test_the_replayed_policy_asks_for_what_the_operator_decides(setting: Setting) -> None:
    beside = Beside(setting)
    play(beside, traffic([(600, 40.0), (600, 120.0), (1200, 40.0)]), setting.stage(90, 60.0, 0.0, 1))

    assert all(ours == operators for ours, operators in beside.asked)
    sizes = {ours for ours, _ in beside.asked}
    assert max(sizes) >= 10, "requests of half the declared lengths"
    assert beside.asked[-1][0] < max(sizes)


def test_it_starts_as_the_operator_creates_a_fleet_and_every_change_has_a_reason(setting: Setting) -> None:
    ours = Ours(setting.sized, setting.policy)
    played = play(ours, traffic([(300, 20.0), (300, 60.0)]), setting.stage(90, 60.0, 0.0, 1))

    assert played.changes[0] == (0.0, setting.sized.replicas_for_declared_average)
    assert [decision.to_replicas for decision in ours.decisions] == [size for _, size in played.changes[1:]]
    assert all(decision.reason and decision.message for decision in ours.decisions)
