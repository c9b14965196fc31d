"""I8 and I10: neither a restart nor a clock that jumps brings a scale-down earlier."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.decide import Memory
from firsttoken_operator.domain import Metrics
from tests.fixtures.hypothesis_scale import examples
from tests.operator.decide.builders import POLICY, TICK_SECONDS, Fleet, late, lost, metrics

WINDOW_TICKS = 10
QUICK = replace(POLICY, stabilization_seconds=WINDOW_TICKS * TICK_SECONDS)

signals: st.SearchStrategy[Metrics] = st.one_of(
    st.floats(0, 60).map(metrics),
    st.builds(lambda rate, share: metrics(rate, ttft=late(share)), st.floats(0, 250), st.floats(0, 0.2)),
    st.just(lost()),
)


def first_down(fleet: Fleet, ticks: int, jumps: dict[int, float] | None = None, wall: bool = False) -> int | None:
    """The tick at which replicas were first given back, with jumps before some ticks."""
    for tick in range(ticks):
        jump = (jumps or {}).get(tick, 0.0)
        if wall:
            assert fleet.epoch_seconds is not None
            fleet.epoch_seconds += jump
        else:
            fleet.now_seconds += jump
        before = fleet.replicas
        if fleet.tick(metrics(30)).to_replicas < before:
            return tick
    return None


@given(before=st.lists(signals, max_size=40), after=st.lists(signals, min_size=1, max_size=WINDOW_TICKS))
@settings(max_examples=examples(60))
def test_no_restart_lowers_anything_for_a_whole_window(before: list[Metrics], after: list[Metrics]) -> None:
    fleet = Fleet(replicas=30, policy=QUICK)
    for mtr in before:
        fleet.tick(mtr)
    fleet.restart()
    for mtr in after:
        size = fleet.replicas
        assert fleet.tick(mtr).to_replicas >= size


@given(loads=st.lists(st.floats(0, 250), min_size=25, max_size=40), restart_at=st.integers(0, 39))
@settings(max_examples=examples(60))
def test_until_replicas_differ_a_restarted_process_asks_for_no_less(loads: list[float], restart_at: int) -> None:
    steady, restarted = (Fleet(replicas=40, policy=QUICK, epoch_seconds=1.7e9) for _ in range(2))
    for tick, load in enumerate(loads):
        if tick == restart_at:
            restarted.memory = _with_estimates_of(restarted.memory)
        assert restarted.tick(metrics(load)).to_replicas >= steady.tick(metrics(load)).to_replicas
        if restarted.replicas != steady.replicas:
            return


def _with_estimates_of(memory: Memory) -> Memory:
    """Memory that a restart finds again in history: what was learned of the load and of the replicas, and no window."""
    known = {
        uid: replace(known, loads=(), healthy_since_seconds=None, changed_seconds=None, miss_rate=None)
        for uid, known in memory.resources.items()
    }
    return Memory(resources=MappingProxyType(known))


@given(jumps=st.dictionaries(st.integers(0, 2 * WINDOW_TICKS), st.floats(-1e9, 1e9), max_size=3))
@settings(max_examples=examples(60))
def test_a_jump_of_the_clock_brings_a_scale_down_one_tick_earlier_at_most(jumps: dict[int, float]) -> None:
    """One tick a jump: an interval that really was longer looks the same, and is believed up to two intervals."""
    correct = first_down(Fleet(replicas=40, policy=QUICK), 60)
    jumped = first_down(Fleet(replicas=40, policy=QUICK), 60, jumps)

    assert correct is not None
    assert jumped is not None, "a jump delays, but not for ever"
    assert jumped >= correct - len([seconds for seconds in jumps.values() if seconds > 0])


@given(jumps=st.dictionaries(st.integers(0, 2 * WINDOW_TICKS), st.floats(-1e9, 1e9), max_size=3))
@settings(max_examples=examples(60))
def test_a_jump_of_the_wall_clock_brings_no_scale_down_earlier(jumps: dict[int, float]) -> None:
    correct = first_down(Fleet(replicas=40, policy=QUICK, epoch_seconds=1.7e9), 60, wall=True)
    jumped = first_down(Fleet(replicas=40, policy=QUICK, epoch_seconds=1.7e9), 60, jumps, wall=True)

    assert correct is not None
    assert jumped is not None
    assert jumped >= correct


@pytest.mark.parametrize("wall_seconds", [0.0, -86400.0, 86400.0, -TICK_SECONDS, 1e12])
def test_a_load_that_comes_with_a_jump_of_the_wall_clock_is_answered(wall_seconds: float) -> None:
    fleet = Fleet(replicas=16, epoch_seconds=1.7e9)
    fleet.run(metrics(75), 600)
    assert fleet.epoch_seconds is not None
    fleet.epoch_seconds += wall_seconds
    fleet.replicas = 16
    sizes = [fleet.tick(metrics(150)).to_replicas for _ in range(3)]

    assert sizes[-1] == 30


def test_a_wall_clock_that_stands_still_hides_no_load() -> None:
    fleet = Fleet(replicas=16, epoch_seconds=1.7e9)
    fleet.run(metrics(75), 600)
    fleet.replicas = 16
    for _ in range(4):
        assert fleet.epoch_seconds is not None
        fleet.epoch_seconds -= TICK_SECONDS
        fleet.tick(metrics(150))

    assert fleet.replicas == 30
