"""Demand: first tokens + slope(waiting), or ended + slope(running + waiting), never mixed."""

from __future__ import annotations

import math

import pytest

from firsttoken_operator.domain import Reason
from tests.operator.observe.readings import coverage, measured, pods, reading, sample, value


def test_a_growing_queue_is_demand_that_first_tokens_hide() -> None:
    assert value(measured(reading(sample(rate=3, waiting_slope=1))).arrivals) == 4.0


def test_a_draining_queue_is_not_demand() -> None:
    assert value(measured(reading(sample(rate=5, waiting_slope=-2))).arrivals) == 3.0


def test_arrivals_are_never_negative() -> None:
    assert value(measured(reading(sample(rate=1, waiting_slope=-9))).arrivals) == 0.0


def test_the_slope_of_running_requests_is_not_mixed_into_first_tokens() -> None:
    assert value(measured(reading(sample(rate=3, waiting_slope=1, running_slope=7))).arrivals) == 4.0


def test_without_first_tokens_ended_requests_and_both_slopes_are_demand() -> None:
    metrics = measured(reading(sample(first_tokens=None, served=2, waiting_slope=1, running_slope=0.5)))

    assert value(metrics.arrivals) == 3.5
    assert metrics.health is Reason.PRESENT


def test_one_way_is_taken_for_all_pods() -> None:
    base = reading(sample(rate=3, running_slope=1), sample(first_tokens=None, served=2, running_slope=1))

    assert value(measured(base).arrivals) == (3 + 1) + (2 + 1)


def test_failed_and_rejected_requests_are_demand() -> None:
    metrics = measured(reading(sample(rate=3, served=3, failed=1)))

    assert value(metrics.arrivals) == 4.0
    assert value(metrics.error_share) == 0.25


def test_a_missing_failure_counter_beside_ended_requests_means_no_failures() -> None:
    assert value(measured(reading(sample(failed=None))).error_share) == 0.0


def test_nothing_ended_is_no_error_share_above_zero() -> None:
    assert value(measured(reading(sample(rate=1, served=0, failed=0))).error_share) == 0.0


def test_a_pod_with_a_short_window_contributes_no_slope() -> None:
    base = reading(sample(rate=3, waiting_slope=1), sample(rate=1, samples=2, waiting_slope=100))

    assert value(measured(base).arrivals) == 5.0


@pytest.mark.parametrize("slope", [None, math.nan, math.inf])
def test_an_unknown_slope_leaves_a_lower_bound(slope: float | None) -> None:
    metrics = measured(reading(sample(served=None, failed=None, waiting_slope=slope)))

    assert value(metrics.arrivals) == 4.0
    assert coverage(metrics.arrivals) == 0.0
    assert metrics.health is Reason.PARTIAL


def test_a_pod_that_is_gone_is_no_negative_demand() -> None:
    before = measured(reading(sample(), sample(waiting=50, waiting_slope=2)))
    after = measured(reading(sample(), sample(waiting=50, waiting_slope=2)), pods(1))

    assert value(before.arrivals) == 10.0
    assert value(after.arrivals) == 4.0


def test_the_kv_cache_of_the_fullest_pod_counts() -> None:
    metrics = measured(reading(sample(kv_usage=0.2), sample(kv_usage=0.93), sample(kv_usage=math.nan)))

    assert value(metrics.kv_percent) == pytest.approx(93.0)
    assert coverage(metrics.kv_percent) == pytest.approx(2 / 3)


def test_requests_under_way_are_told_of_each_pod_that_tells_them() -> None:
    found = measured(reading(sample(running=3.0, waiting=2.0), sample(running=None), sample(running=0.0), None))

    assert found.under_way == {"p0": 5.0, "p2": 0.0}
