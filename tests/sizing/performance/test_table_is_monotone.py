from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.performance import closed_loop, curve, poisson
from firsttoken_sizing.performance.lengths import Lengths, lengths_of
from firsttoken_sizing.performance.table import CapacityTable
from firsttoken_sizing.profile import Latency, Point
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Workload
from tests.fixtures.hypothesis_scale import examples
from tests.fixtures.reference_core import reference_seconds

LENGTHS = Lengths(2000, 2000, 200)
STEP = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10)
rates = st.floats(0.01, 1000)
milliseconds = st.one_of(st.none(), st.floats(0, 1e6))
latencies = st.builds(Latency, mean=milliseconds, p50=milliseconds, p90=milliseconds, p95=milliseconds)
points = st.builds(
    Point,
    rates,
    concurrency=st.one_of(st.none(), st.floats(1, 1000)),
    ttft=latencies,
    itl=latencies,
    end_to_end=latencies,
)


def assert_monotone(table: CapacityTable) -> None:
    assert np.all(np.diff(table.rates) > 0)
    for columns in (table.ttft, table.itl, table.end_to_end):
        assert not np.any(np.diff(columns, axis=0) < 0)
        assert not np.any(np.diff(columns[:, 1:], axis=1) < 0)
    assert not np.any(np.diff(table.kv_percent) < 0)


@pytest.mark.slow
@given(st.lists(points, min_size=1, max_size=12))
def test_whatever_was_measured(measured: list[Point]) -> None:
    assert_monotone(
        curve.capacity_table(measured, capacity=1.0, saturation=2.0, lengths=LENGTHS, kv_cache_tokens=100_000)
    )


def test_both_curves_of_the_step_model() -> None:
    saturation = poisson.saturation_rate(STEP, LENGTHS)
    closed = [closed_loop.predict(STEP, LENGTHS, c, Scheduler()) for c in (1, 2, 8, 32, 128, 256)]
    opened = [poisson.predict(STEP, LENGTHS, share * saturation) for share in (0.05, 0.3, 0.5, 0.7, 0.9, 0.98)]
    for modelled in (closed, opened):
        table = curve.capacity_table(modelled, capacity=8.0, saturation=13.0, lengths=LENGTHS, kv_cache_tokens=500_000)

        assert_monotone(table)
        assert len(table.rates) == 6
        assert not np.isnan(table.ttft).any()


def test_kv_use_counts_long_answers_as_often_as_they_run() -> None:
    spread = lengths_of(Workload(2000, 200, output_tokens_p99=1000))

    fixed_use, spread_use = (
        curve.capacity_table(
            [Point(1.0, concurrency=10.0)], capacity=1.0, saturation=2.0, lengths=lengths, kv_cache_tokens=100_000
        ).kv_percent[0]
        for lengths in (LENGTHS, spread)
    )

    assert fixed_use == pytest.approx(100 * 10 * 2100 / 100_000)
    assert spread_use == pytest.approx(100 * 10 * spread.running_context_tokens / 100_000)
    assert spread_use > fixed_use


def test_unknown_statistics_and_kv_are_not_numbers() -> None:
    table = curve.capacity_table(
        [Point(1.0, ttft=Latency(mean=100)), Point(2.0, ttft=Latency(mean=200))],
        capacity=2.0,
        saturation=2.0,
        lengths=LENGTHS,
        kv_cache_tokens=None,
    )

    at = table.at(1.5)
    assert at.ttft == Latency(mean=150)
    assert at.itl == Latency()
    assert math.isnan(at.kv_percent)


@settings(max_examples=examples(50))
@given(st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0.01, 100))
def test_more_load_never_needs_fewer_replicas(first: float, second: float, capacity: float) -> None:
    table = curve.capacity_table(
        [Point(capacity, ttft=Latency(mean=1))],
        capacity=capacity,
        saturation=capacity,
        lengths=LENGTHS,
        kv_cache_tokens=None,
    )

    low, high = sorted((first, second))
    assert table.replicas_for(low) <= table.replicas_for(high)


def pooled(alone: float, together: float, replicas: int) -> CapacityTable:
    """A table sized for so many replicas that share their arrivals."""
    points = [Point(together * share, ttft=Latency(mean=100 * share)) for share in (0.5, 1.0, 1.5)]
    table = curve.capacity_table(
        points, capacity=together, saturation=2 * together, lengths=LENGTHS, kv_cache_tokens=None
    )
    return replace(table, capacity_alone_requests_per_second=alone, sized_replicas=replicas)


@settings(max_examples=examples(50))
@given(st.floats(0.01, 10), st.floats(1, 3), st.integers(1, 200), st.lists(st.floats(0, 1e4), min_size=2, max_size=2))
def test_replicas_that_share_arrivals_are_still_monotone(
    alone: float, gain: float, replicas: int, rates: list[float]
) -> None:
    table = pooled(alone, alone * gain, replicas)
    low, high = sorted(rates)

    capacities = [table.capacity_of_one_among(n) for n in (1, 2, 3, replicas, 2 * replicas)]
    assert all(alone * 0.999 <= c <= alone * gain * 1.001 for c in capacities)
    assert table.capacity_of_one_among(replicas + 1) >= table.capacity_of_one_among(replicas)
    assert table.replicas_for(low) <= table.replicas_for(high)
    needed = table.replicas_for(high)
    assert needed * table.capacity_of_one_among(needed) >= high * (1 - 1e-6) - 1e-6


def test_fewer_replicas_that_share_arrivals_are_slower_at_the_same_rate() -> None:
    table = pooled(alone=4.0, together=8.0, replicas=16)

    at = [table.at(4.0, replicas).ttft.mean or 0.0 for replicas in (1, 2, 16)]

    # One replica alone carries 4 requests/s with the latency that one of sixteen has at 8.
    assert at[0] == pytest.approx(100)
    assert at == sorted(at, reverse=True)
    assert at[-1] == table.at(4.0).ttft.mean == pytest.approx(50)


def test_a_decision_reads_the_table_in_far_less_than_a_millisecond() -> None:
    table = pooled(alone=4.0, together=8.0, replicas=16)

    seconds = reference_seconds(lambda: [table.at(500 / n, n) for n in (99, 100, 101) for _ in range(20)]) / 20

    assert seconds < 1e-3
