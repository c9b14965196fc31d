"""TTFT from buckets: as far as they tell and no further."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from firsttoken_operator.domain import Reason, TtftInterval
from firsttoken_operator.families import Signal
from firsttoken_operator.observe.collect import PodSample
from firsttoken_sizing.workload import Limit, Percentile
from tests.operator.observe.readings import measured, reading, sample


def with_buckets(buckets: dict[float, float], *, mean_seconds: float = 0.29) -> PodSample:
    rate = buckets.get(math.inf, 0.0)
    base = sample(rate=rate, ttft_sum=rate * mean_seconds)
    return replace(base, buckets=buckets)


def test_all_requests_at_290_ms_are_between_250_and_500_ms_with_the_exact_mean() -> None:
    pod = with_buckets({0.1: 0, 0.25: 0, 0.5: 15, math.inf: 15})

    ttft = measured(reading(pod)).ttft

    assert ttft is not None
    assert (ttft.low_milliseconds, ttft.high_milliseconds) == (250.0, 500.0)
    assert ttft.mean_milliseconds == pytest.approx(290.0)
    assert ttft.requests == pytest.approx(900.0)


@pytest.mark.parametrize(
    ("percentile", "low", "high"),
    [
        (Percentile.P50, 0.0, 100.0), (Percentile.P90, 100.0, 250.0), (Percentile.P95, 250.0, 500.0),
        (Percentile.P99, 500.0, None),
    ],
)  # fmt: skip
def test_each_percentile_has_its_bucket(percentile: Percentile, low: float, high: float | None) -> None:
    pod = with_buckets({0.1: 60, 0.25: 92, 0.5: 98, math.inf: 100})

    ttft = measured(reading(pod), limit=Limit(200.0, percentile)).ttft

    assert ttft is not None
    assert (ttft.low_milliseconds, ttft.high_milliseconds) == (low, high)


def test_a_share_that_ends_exactly_on_a_bound_is_inside_it() -> None:
    pod = with_buckets({0.1: 1.1 * 0.95, math.inf: 1.1})
    assert 3 * (1.1 * 0.95) < 0.95 * (1.1 + 1.1 + 1.1), "rounding alone would move it to the next bucket"

    ttft = measured(reading(pod, pod, pod)).ttft

    assert ttft is not None
    assert ttft.high_milliseconds == 100.0


def test_an_sla_on_the_mean_is_judged_by_the_exact_mean() -> None:
    pod = with_buckets({0.25: 0, math.inf: 10}, mean_seconds=0.31)

    assert measured(reading(pod), limit=Limit(200.0, Percentile.MEAN)).ttft == TtftInterval(310.0, 310.0, 310.0, 600.0)


def test_pods_are_added_before_the_percentile_is_taken() -> None:
    quick = with_buckets({0.1: 96, 0.5: 96, math.inf: 96}, mean_seconds=0.05)
    slow = with_buckets({0.1: 0, 0.5: 4, math.inf: 4}, mean_seconds=0.4)

    ttft = measured(reading(quick, slow)).ttft

    assert ttft is not None
    assert ttft.high_milliseconds == 100.0
    assert ttft.mean_milliseconds == pytest.approx(64.0)


def test_layouts_that_differ_are_not_merged() -> None:
    old = [with_buckets({0.1: 10, 1.0: 10, math.inf: 10}, mean_seconds=0.05)] * 2
    new = with_buckets({0.1: 0, 0.2: 10, 1.0: 10, math.inf: 10}, mean_seconds=0.15)

    metrics = measured(reading(*old, new))

    assert metrics.health is Reason.PARTIAL
    assert "2 TTFT bucket layouts" in metrics.detail
    assert metrics.ttft is not None
    assert (metrics.ttft.high_milliseconds, metrics.ttft.requests) == (100.0, 1200.0)


def test_fewer_than_twenty_requests_have_no_tail() -> None:
    assert measured(reading(with_buckets({0.5: 0.3, math.inf: 0.3}))).ttft is None


@pytest.mark.parametrize(
    "buckets",
    [
        {}, {0.5: 10.0}, {0.5: math.nan, math.inf: 10.0}, {0.5: -1.0, math.inf: 10.0}, {0.5: 11.0, math.inf: 10.0},
        {math.nan: 1.0, math.inf: 10.0}, {0.5: 1.0, math.inf: math.inf},
    ],
)  # fmt: skip
def test_what_is_no_histogram_is_not_read(buckets: dict[float, float]) -> None:
    base = sample(rate=10)

    assert measured(reading(replace(base, buckets=buckets))).ttft is None


@pytest.mark.parametrize("signal", [Signal.TTFT_SUM, Signal.FIRST_TOKENS])
@pytest.mark.parametrize("number", [None, math.nan, -1.0])
def test_without_an_exact_mean_there_is_no_interval(signal: Signal, number: float | None) -> None:
    values = {key: value for key, value in sample(rate=10).values.items() if key is not signal}
    if number is not None:
        values[signal] = number

    assert measured(reading(replace(sample(rate=10), values=values))).ttft is None


@pytest.mark.parametrize(
    ("ttft_sum", "first_tokens", "buckets"),
    [
        (1e300, 1.0, {0.25: 1.0, math.inf: 1.0}),
        (10.0, 1e-300, {0.25: 1.0, math.inf: 1.0}),
        (1.0, 1.0, {0.25: 1e13, math.inf: 1e13}),
        (1.0, 1.0, {0.25: 1e308, math.inf: 1.7e308}),
        (1.0, 1.0, {1e11: 0.0, math.inf: 1.0}),
        (1.0, 1.0, {-1.0: 0.0, math.inf: 1.0}),
    ],
    ids=["sum", "tiny count", "requests", "overflow", "bound", "negative bound"],
)
def test_numbers_that_no_fleet_has_are_unknown_and_stop_no_resource(
    ttft_sum: float, first_tokens: float, buckets: dict[float, float]
) -> None:
    pod = replace(sample(rate=first_tokens, ttft_sum=ttft_sum), buckets=buckets)

    assert measured(reading(pod)).ttft is None
