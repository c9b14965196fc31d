"""The operator lowers replicas to the sized number only if its table says that the SLA is kept there."""

from __future__ import annotations

import pytest

from firsttoken_sizing import Engine, Hardware, Limit, Percentile, Routing, SizingRequest, Sla, Workload, size
from firsttoken_sizing.workload import Arrivals

MIXTRAL = (
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    Engine.VLLM,
    Workload(2000, 1000, output_tokens_p99=2500, peak_requests_per_second=20),
    Sla(time_to_first_token=Limit(150, Percentile.P90)),
    8,
)
LLAMA = (
    "meta/llama3-70b-instruct",
    Engine.TENSORRT_LLM,
    Workload(500, 200, output_tokens_p99=500, peak_requests_per_second=3, routing=Routing.LEAST_LOADED),
    Sla(time_to_first_token=Limit(150, Percentile.P99), end_to_end=Limit(12_000, Percentile.P99)),
    4,
)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "engine", "workload", "sla", "gpus"), [MIXTRAL, LLAMA], ids=["alone", "pooled"])
def test_the_table_is_inside_the_sla_at_the_peak_and_at_the_capacity(
    model: str, engine: Engine, workload: Workload, sla: Sla, gpus: int
) -> None:
    hardware = Hardware(gpus=("A100-SXM-80GB",), tensor_parallel=gpus)
    sizing = size(SizingRequest(model, workload, sla, hardware, "INT8", arrivals=Arrivals.POISSON, engine=engine))

    assert sizing.table is not None
    share = sizing.peak_requests_per_second / sizing.replicas
    for rate in (share, sizing.requests_per_second_per_replica):
        at = sizing.table.at(rate, sizing.replicas)
        for limit, latency in ((sla.time_to_first_token, at.ttft), (sla.end_to_end, at.end_to_end)):
            if limit is not None:
                assert (latency.at(limit.percentile) or 0.0) <= limit.milliseconds * (1 + 1e-9)
