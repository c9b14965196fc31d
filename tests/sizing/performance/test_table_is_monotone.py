from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_sizing.performance import curve
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.table import CapacityTable
from firsttoken_sizing.profile import Latency, Point
from firsttoken_sizing.step import StepModel

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


@given(st.lists(points, min_size=1, max_size=12))
def test_whatever_was_measured(measured: list[Point]) -> None:
    assert_monotone(
        curve.capacity_table(measured, capacity=1.0, saturation=2.0, lengths=LENGTHS, kv_cache_tokens=100_000)
    )


def test_both_curves_of_the_step_model() -> None:
    for modelled in (curve.closed_loop_points(STEP, LENGTHS), curve.poisson_points(STEP, LENGTHS, 8.0)):
        table = curve.capacity_table(modelled, capacity=8.0, saturation=13.0, lengths=LENGTHS, kv_cache_tokens=500_000)

        assert_monotone(table)
        assert len(table.rates) >= 15
        assert not np.isnan(table.ttft).any()


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


@settings(max_examples=50)
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
