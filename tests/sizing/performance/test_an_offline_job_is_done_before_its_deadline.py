"""Offline: how long a job takes, on how many replicas it is done in time, and the simulation as judge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.closed_loop import round_seconds
from firsttoken_sizing.performance.lengths import Lengths, lengths_of
from firsttoken_sizing.performance.offline import OfflinePlan, finish_seconds, full_throughput, plan
from firsttoken_sizing.simulation import drawn_requests, simulate
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import OfflineJob, Workload
from tests.fixtures.hypothesis_scale import examples

STEP = StepModel(7e-3, 2e-5, 8e-9, 2e-5, 1e-10, max_batch=64)
EQUAL = Lengths(2000, 2000, 200)
SPREAD = lengths_of(Workload(2000, 200, input_tokens_p99=5000, output_tokens_p99=700))


def planned(requests: int, hours: float, step: StepModel = STEP, lengths: Lengths = EQUAL) -> OfflinePlan:
    found = plan(step, lengths, OfflineJob(requests, hours), gpus_per_replica=2)
    assert found is not None
    return found


def test_the_batch_is_full_where_that_serves_most() -> None:
    best = full_throughput(STEP, EQUAL)

    assert best.batch == 64
    assert best.requests_per_second == pytest.approx(64 / round_seconds(STEP, EQUAL, 64))


def test_a_job_smaller_than_a_batch_takes_one_round_of_its_own_size() -> None:
    assert finish_seconds(STEP, EQUAL, 5) == pytest.approx(round_seconds(STEP, EQUAL, 5))


@pytest.mark.parametrize("lengths", [EQUAL, SPREAD], ids=["equal lengths", "spread lengths"])
@pytest.mark.parametrize("requests", [40, 1000])
def test_the_simulation_finishes_when_predicted(lengths: Lengths, requests: int) -> None:
    simulated = [
        simulate(STEP, drawn_requests(lengths, np.zeros(requests), np.random.default_rng(seed))).finish_s.max()
        for seed in range(20)
    ]

    assert finish_seconds(STEP, lengths, requests) == pytest.approx(np.mean(simulated), rel=0.1)


def test_the_plan_is_in_time_and_one_replica_less_is_late() -> None:
    found = planned(1_000_000, 8)

    assert found.replicas > 1
    assert found.finish_seconds <= 8 * 3600
    assert finish_seconds(STEP, EQUAL, -(-1_000_000 // (found.replicas - 1))) > 8 * 3600
    assert found.gpu_hours == pytest.approx(found.replicas * 2 * found.finish_seconds / 3600)
    assert found.finish_seconds == pytest.approx(finish_seconds(STEP, EQUAL, -(-1_000_000 // found.replicas)))


def test_a_deadline_shorter_than_one_request_has_no_plan() -> None:
    assert plan(STEP, EQUAL, OfflineJob(10, 1e-4), gpus_per_replica=1) is None


def test_a_small_job_is_not_spread_over_replicas_that_it_cannot_fill() -> None:
    assert planned(10, 1).replicas == 1
    assert planned(10, 1).finish_seconds == pytest.approx(round_seconds(STEP, EQUAL, 10))


@pytest.mark.parametrize(
    ("job", "field"),
    [
        (OfflineJob(0, 1), "traffic.offline.requests"),
        (OfflineJob(10, 0), "traffic.offline.deadlineHours"),
        (OfflineJob(10, float("nan")), "traffic.offline.deadlineHours"),
    ],
)
def test_a_job_without_requests_or_time_is_refused(job: OfflineJob, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        plan(STEP, EQUAL, job, gpus_per_replica=1)

    assert caught.value.field == field


@settings(max_examples=examples(60))
@given(
    requests=st.integers(1, 10**7),
    more=st.integers(1, 10**6),
    hours=st.floats(0.01, 1000),
    longer=st.floats(1, 10),
    batch=st.integers(1, 256),
)
def test_more_requests_or_less_time_never_need_fewer_replicas(
    requests: int, more: int, hours: float, longer: float, batch: int
) -> None:
    step = replace(STEP, max_batch=batch)

    def replicas(requests: int, hours: float) -> float:
        found = plan(step, EQUAL, OfflineJob(requests, hours), gpus_per_replica=1)
        return float("inf") if found is None else found.replicas

    assert replicas(requests + more, hours) >= replicas(requests, hours)
    assert replicas(requests, longer * hours) <= replicas(requests, hours)
