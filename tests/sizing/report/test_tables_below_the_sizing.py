"""The job, the cost and the alternatives: named in the document, readable in the table."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from firsttoken_sizing import (
    Arrivals,
    Hardware,
    Limit,
    Percentile,
    Pricing,
    Sizing,
    SizingRequest,
    Sla,
    SlaMode,
    Workload,
    size,
    sizing_json,
)
from firsttoken_sizing.report.table import sizing_table
from firsttoken_sizing.workload import Batching, OfflineJob
from tests.fixtures.worked_examples import H100, call_center

RENTED = Pricing(gpu_hour=3.0, input_per_million_tokens=0.05, output_per_million_tokens=0.25)


def rendered(sizing: Sizing, width: int = 100) -> str:
    out = StringIO()
    Console(file=out, width=width).print(sizing_table("x", sizing))
    return out.getvalue()


def many_gpus() -> SizingRequest:
    return replace(
        call_center(ttft_milliseconds=3000, peak=5),
        model="meta/llama3-70b-instruct",
        precision=None,
        profiles=(),
        pricing={},
        hardware=Hardware(gpus=("L40S", "A100-PCIe-80GB", H100)),
    )


@pytest.mark.slow
def test_pools_of_their_own_stand_beside_the_replicas_where_they_save_gpus() -> None:
    question = replace(call_center(arrivals=Arrivals.POISSON), profiles=())
    tight = replace(question, sla=replace(question.sla, inter_token_latency=Limit(12, Percentile.P95)))
    sizing = size(tight)

    pools = sizing.separate_pools
    assert pools is not None
    prefill, decode = pools.prefill, pools.decode
    shown = (
        f"{prefill.workers} x TP{prefill.configuration.tensor_parallel}"
        f" + {decode.workers} x TP{decode.configuration.tensor_parallel}: {pools.gpus} GPUs"
    )
    assert shown in rendered(sizing)

    loose = size(replace(question, sla=replace(question.sla, inter_token_latency=Limit(100, Percentile.P95))))

    assert loose.separate_pools is None
    shown = rendered(loose, width=200)
    assert "prefill + decode" not in shown
    (line,) = (line for line in shown.splitlines() if "prefill/decode" in line)
    assert f"no parallelism of the two takes fewer than {loose.gpus} GPUs" in line


def test_cost_is_in_the_document_with_its_assumptions() -> None:
    document = sizing_json(size(replace(call_center(), pricing={H100: RENTED})))["cost"]

    assert document["perYear"] == pytest.approx(39 * 3.0 * 8760)
    assert document["perYearAutoscaled"] == pytest.approx(6 * 3.0 * 8760)
    assert document["gpuHoursPerDay"] == 39 * 24
    assert document["breakEvenPercentOfPeak"] == pytest.approx(100 * document["breakEvenRequestsPerSecond"] / 200)
    assert {"apiPerYearAtAverage", "perMillionTokensAtAverage", "perThousandRequestsAutoscaled"} <= set(document)
    assert len(document["assumptions"]) == 3


def test_the_table_says_from_which_load_on_own_gpus_are_cheaper() -> None:
    text = rendered(size(replace(call_center(), pricing={H100: replace(RENTED, gpu_hour=1.0)})), width=160)
    never = rendered(size(replace(call_center(), pricing={H100: replace(RENTED, gpu_hour=300.0)})), width=160)

    assert "cheaper than the API from an average of" in text
    assert "the API is cheaper at any load" not in text
    assert "the API is cheaper at any load" in never


def test_a_job_has_its_own_cost_and_no_yearly_one() -> None:
    workload = Workload(input_tokens=2000, output_tokens=200, offline=OfflineJob(1_000_000, 8))
    request = replace(call_center(), workload=workload, sla=Sla(mode=SlaMode.OFFLINE), pricing={H100: RENTED})
    sizing = size(request)

    document, text = sizing_json(sizing)["job"], rendered(sizing)

    assert document["requests"] == 1_000_000
    assert document["finishHours"] <= document["deadlineHours"] == 8
    assert document["cost"] == pytest.approx(3.0 * document["gpuHours"])
    assert "done after, of the deadline (hours)" in text
    assert "a year" not in text


def test_the_document_lists_every_alternative_and_the_table_groups_them() -> None:
    sizing = size(many_gpus())

    listed, text = sizing_json(sizing)["alternatives"], rendered(sizing)

    assert len(listed) > 20
    assert all(a["reason"] and "batching" in a for a in listed)
    assert text.count("ModelDoesNotFit") < sum(a["reason"].startswith("ModelDoesNotFit") for a in listed)
    assert len(text[text.index("Alternatives") :].splitlines()) < 40
    # What would help is the same for all refusals, and long: it is in the document.
    assert "or a larger GPU" not in text


def test_other_ways_of_batching_are_named() -> None:
    sizing = size(replace(call_center(), batchings=tuple(Batching)))

    assert {a["batching"] for a in sizing_json(sizing)["alternatives"]} <= {b.value for b in Batching}
    assert "TP1 Static" in rendered(sizing)


def test_the_document_says_which_engine_was_assumed() -> None:
    document = sizing_json(size(call_center(arrivals=Arrivals.POISSON)))

    assert (document["engine"], document["batching"]) == ("TensorRT-LLM", "InFlight")
    assert document["engineSettings"]["enable_chunked_prefill"] is False
    json.dumps(document, allow_nan=False)
