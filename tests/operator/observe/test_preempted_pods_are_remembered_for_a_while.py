"""Pods that were preempted are remembered for half an hour, also of a target of which nothing is ever asked."""

from __future__ import annotations

from dataclasses import replace

from firsttoken_operator.observe.config import DEFAULT
from firsttoken_operator.observe.preemptions import Preemptions
from firsttoken_operator.observe.projections import project_pod
from tests.operator.observe.bodies import pod

MINUTE = 60.0
REMEMBERED = int(DEFAULT.preempted_seconds / MINUTE) + 1


def test_of_a_target_that_is_never_asked_of_only_the_last_are_kept() -> None:
    seen, view = Preemptions(), project_pod(pod("any"))
    for i in range(1000):
        seen.note("warm", replace(view, uid=f"p{i}", preempted_seconds=i * MINUTE))

    assert seen.count("warm", 0.0) == REMEMBERED
    assert seen.count("warm", 1000 * MINUTE + DEFAULT.preempted_seconds) == 0


def test_an_old_one_that_is_told_late_drops_none_of_the_others() -> None:
    seen, view = Preemptions(), project_pod(pod("any"))
    for i in (100, 99, 10):
        seen.note("t", replace(view, uid=f"p{i}", preempted_seconds=i * MINUTE))

    assert seen.count("t", 100 * MINUTE) == 2
