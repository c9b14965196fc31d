"""Offline: no caller waits, so the batch is kept full. Sequential: only the whole answer counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing import Arrivals, Basis, Limit, Percentile, Sla, SlaMode, Workload, size
from tests.fixtures.worked_examples import CALL_CENTER_POINTS, call_center

OFFLINE = Sla(mode=SlaMode.OFFLINE)
BOTH = pytest.mark.parametrize("arrivals", list(Arrivals), ids=str)


def sequential(milliseconds: float, percentile: Percentile = Percentile.P95) -> Sla:
    return Sla(SlaMode.SEQUENTIAL, end_to_end=Limit(milliseconds, percentile))


@BOTH
def test_offline_takes_the_measured_point_with_the_most_throughput(arrivals: Arrivals) -> None:
    sizing = size(replace(call_center(arrivals=arrivals), sla=OFFLINE))

    assert sizing.requests_per_second_per_replica == max(rate for rate, _, _ in CALL_CENTER_POINTS.values())
    assert sizing.concurrency_per_replica == 250
    assert sizing.replicas == 15
    assert (sizing.basis, sizing.binding_constraint) == (Basis.MEASURED, "Throughput")
    assert sizing.arrivals is Arrivals.CLOSED_LOOP


@BOTH
def test_offline_without_measurements_runs_the_largest_batch(arrivals: Arrivals) -> None:
    sizing = size(replace(call_center(arrivals=arrivals), sla=OFFLINE, profiles=()))

    assert sizing.basis is Basis.FITTED
    assert sizing.concurrency_per_replica == sizing.engine_settings["max_batch_size"]
    assert sizing.binding_constraint in ("Batch size", "KV cache")
    assert sizing.requests_per_second_per_replica == pytest.approx(13.83, rel=0.1)


def test_offline_never_carries_less_than_the_same_traffic_with_a_limit() -> None:
    limited = size(call_center())

    assert size(replace(call_center(), sla=OFFLINE)).requests_per_second_per_replica > (
        limited.requests_per_second_per_replica
    )


def test_offline_with_requests_in_flight_instead_of_a_rate() -> None:
    workload = Workload(input_tokens=2000, output_tokens=200, concurrent_requests=500)

    sizing = size(replace(call_center(), workload=workload, sla=OFFLINE))

    assert (sizing.replicas, sizing.peak_requests_per_second) == (2, pytest.approx(2 * 13.827))


def test_sequential_in_a_closed_loop_takes_the_largest_measured_concurrency_inside_the_limit() -> None:
    sizing = size(replace(call_center(), sla=sequential(5000, Percentile.MEAN)))

    # E2E = TTFT + 199 x ITL: 4.48 s at concurrency 50, 7.66 s at 100.
    assert sizing.concurrency_per_replica == 50
    assert sizing.binding_constraint == "E2E Mean"
    assert sizing.end_to_end.mean == pytest.approx(702.9 + 199 * 18.96)


def test_sequential_in_poisson_uses_the_whole_limit_and_not_more() -> None:
    sizing = size(replace(call_center(arrivals=Arrivals.POISSON), sla=sequential(4000)))

    assert sizing.end_to_end.p95 == pytest.approx(4000, rel=0.02)
    assert sizing.end_to_end.p95 <= 4000
    assert sizing.binding_constraint == "E2E P95"


@pytest.mark.slow
@BOTH
def test_sequential_ignores_how_long_the_first_token_takes(arrivals: Arrivals) -> None:
    loose = size(replace(call_center(arrivals=arrivals), sla=sequential(1e6, Percentile.MEAN)))

    assert loose.ttft.mean is not None
    assert loose.ttft.mean > size(call_center(ttft_milliseconds=150, arrivals=arrivals)).ttft.mean  # type: ignore[operator]
