"""I5: what arrives or waits can only raise the answer, whatever was remembered before."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.domain import Metrics, Missing, Reason, TtftInterval, Value
from firsttoken_operator.estimate import Calibration
from tests.fixtures.hypothesis_scale import examples
from tests.operator.decide.builders import (
    POLICY,
    SIZED,
    TICK_SECONDS,
    WORK,
    Fleet,
    late,
    metrics,
    running,
    worked_table,
)

pytestmark = pytest.mark.slow


WORKED = replace(SIZED, table=worked_table(), replicas_for_declared_peak=200)

rates = st.floats(0, 400)
histories = st.lists(st.tuples(rates, st.integers(1, 12), st.sampled_from([0.0, 0.03])), min_size=0, max_size=8)
"""Never too many late: where there were, what is late at the lower load says that more replicas would not have helped,
which is evidence of its own and no load."""
lengths = st.floats(0.3, 3.0)


def signals(rate: float, waiting: float, share: float, length: float = 1.0) -> Metrics:
    """Metrics of a sound fleet at this load, in requests of `length` times the declared work."""
    return metrics(
        rate, waiting=Value(waiting), ttft=late(share),
        input_tokens=Value(WORK.input_tokens * length), output_tokens=Value(1 + (WORK.output_tokens - 1) * length),
    )  # fmt: skip


def after(history: list[tuple[float, int, float]], replicas: int) -> Fleet:
    fleet = Fleet(replicas=replicas, sized=WORKED)
    for rate, ticks, share in history:
        for _ in range(ticks):
            fleet.tick(signals(rate, 0.0, share), apply=False)
    return fleet


def asked(fleet: Fleet, mtr: Metrics) -> int:
    """Replicas that the next tick decides; the fleet itself goes on as if it had not been asked."""
    return replace(fleet).tick(mtr, apply=False).to_replicas


def mute(mtr: Metrics) -> Metrics:
    """The same load without a word on the replicas: no request late on full ones is a sample of them, no load."""
    return replace(mtr, running=Missing(Reason.NO_SERIES), ttft=TtftInterval(60, 100, 80, 1000))


@given(
    history=histories, replicas=st.integers(1, 80), low=rates, more=st.floats(0, 300), waiting=st.floats(0, 2000),
    longer=st.floats(0, 2000),
)  # fmt: skip
@settings(max_examples=examples(60))
def test_of_one_memory_more_arrivals_or_a_longer_queue_ask_for_no_less(
    history: list[tuple[float, int, float]], replicas: int, low: float, more: float, waiting: float, longer: float
) -> None:
    fleet = after(history, replicas)

    fewer = asked(fleet, mute(signals(low, waiting, 0.0)))
    assert asked(fleet, mute(signals(low + more, waiting, 0.0))) >= fewer
    assert asked(fleet, mute(signals(low, waiting + longer, 0.0))) >= fewer


@given(history=histories, replicas=st.integers(1, 80), rate=rates, length=lengths, more=st.floats(1, 4))
@settings(max_examples=examples(60))
def test_of_one_memory_longer_requests_ask_for_no_less(
    history: list[tuple[float, int, float]], replicas: int, rate: float, length: float, more: float
) -> None:
    fleet = after(history, replicas)

    fewer = asked(fleet, mute(signals(rate, 0.0, 0.0, length)))
    assert asked(fleet, mute(signals(rate, 0.0, 0.0, length * more))) >= fewer


@given(load=rates, more=st.floats(0, 100), replicas=st.integers(1, 80), slowness=st.floats(0.5, 2.0))
@settings(max_examples=examples(25))
def test_a_constant_load_that_is_higher_ends_with_no_fewer_replicas(
    load: float, more: float, replicas: int, slowness: float
) -> None:
    ends = []
    for rate in (load, load + more):
        fleet = Fleet(replicas=replicas, sized=WORKED)
        for _ in range(round(2400 / TICK_SECONDS)):
            inside = running(WORKED.table, rate, fleet.replicas, slowness) if rate else 0.0
            fleet.tick(metrics(rate, running=Value(min(inside, 1e6))))
        ends.append(fleet.replicas)

    # One replica: where a load is at the edge, what was learned of speed on the way there differs by a little.
    assert ends[1] >= ends[0] - 1


def sawtooth(seconds: float) -> float:
    phase = (seconds % 3600.0) / 3600.0
    return 50 + 200 * (phase if phase < 0.5 else 1 - phase)


@pytest.fixture(scope="module")
def climbing() -> Fleet:
    """A memory that has learned to expect growth, in the middle of a climb."""
    fleet = Fleet(replicas=20, resource_changes={"time_to_ready_seconds": 600.0})
    for tick in range(24 * 240 + 60):
        fleet.tick(metrics(sawtooth(tick * TICK_SECONDS)), apply=False)
    return fleet


def test_a_jump_above_a_climb_asks_for_no_less_than_the_climb(climbing: Fleet) -> None:
    """Trend forgotten where the level starts anew: that must not undo what it had asked for."""
    assert replace(climbing).tick(metrics(100)).forecast_method == "Trend"
    asked_for = [asked(climbing, metrics(rate)) for rate in range(80, 240, 2)]

    assert asked_for == sorted(asked_for)


@given(share=st.floats(0, 1), more=st.floats(0, 1), replicas=st.integers(2, 60), fill=st.floats(0.1, 1.5))
@settings(max_examples=examples(60))
def test_more_late_requests_ask_for_no_less(share: float, more: float, replicas: int, fill: float) -> None:
    fleet = Fleet(replicas=replicas, policy=replace(POLICY, min_replicas=1))
    rate = replicas * 5 * fill
    for _ in range(80):
        fleet.tick(metrics(rate, ttft=late(0.04)), apply=False)
    fleet.calibrate(Calibration())

    fewer = asked(fleet, metrics(rate, ttft=late(share)))
    assert asked(fleet, metrics(rate, ttft=late(min(share + more, 1.0)))) >= fewer


def test_the_answer_follows_the_load_without_a_gap() -> None:
    answers = [Fleet(replicas=60, sized=WORKED).tick(metrics(float(rate))).recommended for rate in range(0, 400, 5)]

    assert answers == [math.ceil(rate / 5) for rate in range(0, 400, 5)]
