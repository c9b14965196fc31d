"""Mode Offline with a declared job: the fewest replicas that finish it before its deadline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing import Basis, Infeasible, Pricing, Sizing, SizingRequest, Sla, SlaMode, Workload, size
from firsttoken_sizing.workload import OfflineJob
from tests.fixtures.worked_examples import H100, call_center

RENTED = {H100: Pricing(gpu_hour=3.0)}


def job(requests: int, hours: float, **changes: object) -> SizingRequest:
    workload = Workload(input_tokens=2000, output_tokens=200, offline=OfflineJob(requests, hours))
    request = replace(call_center(), workload=workload, sla=Sla(mode=SlaMode.OFFLINE), pricing=RENTED)
    return replace(request, **changes)  # type: ignore[arg-type]


def finish_hours(sizing: Sizing) -> float:
    assert sizing.job is not None
    return sizing.job.finish_hours


def test_measured_throughput_with_its_ramp_and_tail_decides() -> None:
    sizing = size(job(1_000_000, 8))

    full = 1_000_000 / (sizing.replicas * 13.827) / 3600
    assert (sizing.basis, sizing.replicas) == (Basis.MEASURED, 3)
    assert full < finish_hours(sizing) < 1.02 * full


def test_one_replica_fewer_would_be_late() -> None:
    late = size(job(1_000_000, 6))

    assert size(job(1_000_000, 8)).replicas < late.replicas
    assert finish_hours(late) <= 6
    assert 1_000_000 / ((late.replicas - 1) * 13.827) / 3600 > 6


def test_the_job_costs_its_hours_and_not_a_year() -> None:
    sizing = size(job(1_000_000, 8))

    assert sizing.job is not None
    assert sizing.job.gpu_hours == pytest.approx(sizing.gpus * sizing.job.finish_hours)
    assert sizing.job.cost == pytest.approx(3.0 * sizing.job.gpu_hours)
    assert sizing.job.cost_per_thousand_requests == pytest.approx(sizing.job.cost / 1000)


def test_without_a_price_the_job_has_no_cost() -> None:
    found = size(job(1000, 8, pricing={})).job

    assert found is not None
    assert found.cost is None


def test_a_deadline_shorter_than_one_request_is_infeasible() -> None:
    sizing = size(job(10, 0.001 / 4 + 0.001, profiles=()))
    too_short = size(job(10, 0.001, workload=Workload(2000, 6000, offline=OfflineJob(10, 0.001)), profiles=()))

    assert sizing.feasible
    assert too_short.cause is Infeasible.END_TO_END_INCONSISTENT
    assert "traffic.offline.deadlineHours" in too_short.reason


def test_a_rate_without_a_job_is_still_sized_and_says_what_is_missing() -> None:
    sizing = size(replace(call_center(), sla=Sla(mode=SlaMode.OFFLINE)))

    assert sizing.job is None
    assert any(w.startswith("OfflineWithoutJob") for w in sizing.warnings)
