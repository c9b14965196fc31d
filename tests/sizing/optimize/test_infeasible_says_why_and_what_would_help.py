from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing import Arrivals, Hardware, Infeasible, Limit, Percentile, Sla, SlaMode, Workload, size
from tests.fixtures.worked_examples import H100, call_center

BOTH = list(Arrivals)


@pytest.mark.parametrize("arrivals", BOTH, ids=str)
@pytest.mark.parametrize(
    ("sla", "cause"),
    [
        (Sla(time_to_first_token=Limit(10, Percentile.P95)), Infeasible.SINGLE_REQUEST_TTFT),
        (
            Sla(time_to_first_token=Limit(300, Percentile.MEAN), inter_token_latency=Limit(2, Percentile.MEAN)),
            Infeasible.ITL_AT_BATCH_1,
        ),
        (Sla(mode=SlaMode.SEQUENTIAL, end_to_end=Limit(500, Percentile.MEAN)), Infeasible.END_TO_END_INCONSISTENT),
    ],
    ids=["TTFT", "ITL", "E2E"],
)
def test_a_limit_below_one_request_alone(sla: Sla, cause: Infeasible, arrivals: Arrivals) -> None:
    sizing = size(replace(call_center(arrivals=arrivals), sla=sla))

    assert not sizing.feasible
    assert sizing.cause is cause
    assert sizing.replicas == sizing.gpus == sizing.servers == 0
    assert sizing.table is None
    assert "raise the limit to at least" in sizing.reason


def test_the_limit_that_the_reason_names_is_feasible() -> None:
    one_gpu = Hardware(gpus=(H100,), tensor_parallel=1)
    refused = size(replace(call_center(ttft_milliseconds=20, arrivals=Arrivals.POISSON), hardware=one_gpu))
    needed = int(refused.reason.split("raise the limit to at least ")[1].split(" ms")[0])

    assert size(replace(call_center(ttft_milliseconds=needed, arrivals=Arrivals.POISSON), hardware=one_gpu)).feasible


def test_a_model_larger_than_the_gpus_does_not_fit() -> None:
    request = replace(
        call_center(),
        model="meta/llama3-70b-instruct",
        precision="FP16",
        profiles=(),
        hardware=Hardware(gpus=(H100,), tensor_parallel=1, pipeline_parallel=1),
    )

    sizing = size(request)

    assert sizing.cause is Infeasible.MODEL_DOES_NOT_FIT
    assert "hardware.tensorParallel" in sizing.reason
    assert sizing.memory is not None
    assert sizing.memory.kv_cache_tokens == 0


def test_a_kv_cache_smaller_than_one_request() -> None:
    request = replace(
        call_center(),
        model="meta-llama/Llama-3.1-8B-Instruct",
        profiles=(),
        workload=Workload(input_tokens=120_000, output_tokens=8000, peak_requests_per_second=1),
        precision="BF16",
        hardware=Hardware(gpus=("L4",), tensor_parallel=1, pipeline_parallel=1),
    )

    sizing = size(request)

    assert sizing.cause is Infeasible.KV_CACHE_TOO_SMALL
    assert sizing.memory is not None
    assert 0 < sizing.memory.kv_cache_tokens < 128_000


def test_more_tokens_than_the_context_window() -> None:
    workload = Workload(input_tokens=8000, output_tokens=1000, peak_requests_per_second=1)

    sizing = size(replace(call_center(), workload=workload))

    assert sizing.cause is Infeasible.CONTEXT_WINDOW_EXCEEDED
    assert "8192" in sizing.reason


def test_p99_lengths_count_for_the_context_window() -> None:
    workload = Workload(input_tokens=2000, input_tokens_p99=9000, output_tokens=200, peak_requests_per_second=1)

    assert size(replace(call_center(), workload=workload)).cause is Infeasible.CONTEXT_WINDOW_EXCEEDED
