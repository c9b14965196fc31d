"""Candidates of parallelism and precision, and what is said about unusual ones."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from firsttoken_sizing import (
    Arrivals,
    Engine,
    Hardware,
    InvalidInput,
    Percentile,
    Sizing,
    SizingRequest,
    model_from_config,
    size,
)
from firsttoken_sizing.catalog import resolve_model
from firsttoken_sizing.optimize.question import check
from firsttoken_sizing.workload import Batching
from tests.fixtures.worked_examples import H100, call_center

L40S, A100 = "L40S", "A100-SXM-80GB"
LARGE = "meta-llama/Llama-3.1-405B-Instruct"


def question(
    gpu: str, *, model: str = "meta/llama3-70b-instruct", precision: str | None = "FP8", **hardware: int
) -> SizingRequest:
    request = call_center(ttft_milliseconds=3000, percentile=Percentile.MEAN, peak=5)
    return replace(
        request,
        model=model,
        precision=precision,
        profiles=(),
        pricing={},
        hardware=Hardware(gpus=(gpu,), **hardware),  # type: ignore[arg-type]
    )


def ways(request: SizingRequest) -> set[tuple[int, int]]:
    return {(c.key.tensor_parallel, c.key.pipeline_parallel) for c in check(request).candidates}


def warned(sizing: Sizing, name: str) -> bool:
    return any(w.startswith(f"{name}: ") for w in sizing.warnings)


def test_over_nvlink_there_is_no_pipeline_inside_a_server() -> None:
    assert ways(question(H100)) == {(1, 1), (2, 1), (4, 1), (8, 1)}


def test_without_nvlink_pipelines_are_offered_up_to_a_server() -> None:
    assert ways(question(L40S)) == {
        *((t, 1) for t in (1, 2, 4, 8)),
        *((t, 2) for t in (1, 2, 4)),
        *((t, 4) for t in (1, 2)),
    }


def test_declared_parallelism_is_the_only_one() -> None:
    assert ways(question(L40S, tensor_parallel=4, pipeline_parallel=2)) == {(4, 2)}
    assert ways(question(H100, pipeline_parallel=2)) == {(1, 2), (2, 2), (4, 2), (8, 2)}


def test_a_model_larger_than_a_server_takes_the_fewest_servers_that_hold_it() -> None:
    sizing = size(question(H100, model=LARGE, precision="BF16"))

    assert sizing.configuration is not None
    assert (sizing.configuration.tensor_parallel, sizing.configuration.pipeline_parallel) == (8, 2)
    assert sizing.servers == 2 * sizing.replicas
    assert warned(sizing, "MultiNode")
    assert warned(sizing, "Extrapolated")


def test_a_model_that_fits_into_a_server_stays_in_one() -> None:
    sizing = size(question("H200-SXM-141GB", model=LARGE, precision="BF16"))

    assert sizing.configuration is not None
    assert sizing.configuration.gpus_per_replica == 8
    assert not warned(sizing, "MultiNode")


def test_a_declared_single_stage_refuses_what_does_not_fit() -> None:
    sizing = size(question(H100, model=LARGE, precision="BF16", pipeline_parallel=1))

    assert sizing.cause == "ModelDoesNotFit"


def test_of_two_precisions_that_are_equally_fast_one_is_sized() -> None:
    precisions = {c.key.precision for c in check(question(H100, precision=None)).candidates}

    assert {"BF16", "FP16"} <= set(resolve_model("meta/llama3-70b-instruct").published_precisions)
    assert len(precisions & {"BF16", "FP16"}) == 1


def test_a_precision_that_the_engine_emulates_is_taken_only_if_named() -> None:
    of_vllm = replace(question(A100, precision=None), engine=Engine.VLLM)
    chosen = {c.key.precision for c in check(of_vllm).candidates}
    named = size(replace(of_vllm, precision="FP8"))

    assert "FP8" not in chosen
    assert named.feasible
    assert warned(named, "PrecisionEmulated")


def test_a_precision_that_the_engine_does_not_run_is_refused_with_the_nearest_that_can() -> None:
    with pytest.raises(InvalidInput) as refused:
        size(question(A100, precision="FP8"))

    assert refused.value.field == "model.precision"
    assert refused.value.problem == f"TensorRT-LLM does not run FP8 on {A100}"
    assert refused.value.fix == (
        "set model.precision to INT8, or set sizing.engine to vLLM or SGLang, or set hardware.gpus to H100-PCIe-80GB"
    )


def test_a_gpu_that_the_engine_does_not_run_the_model_on_is_left_out_and_named() -> None:
    sizing = size(replace(question(H100, precision="FP8"), hardware=Hardware(gpus=("MI300X-192GB", H100))))

    assert sizing.configuration is not None
    assert sizing.configuration.gpu == H100
    assert warned(sizing, "GPUNotConsidered")


@pytest.mark.slow
@pytest.mark.parametrize("arrivals", list(Arrivals), ids=str)
def test_a_gpu_that_was_not_measured_is_sized_by_physics_and_says_so(arrivals: Arrivals) -> None:
    sizing = size(replace(question("GH200-96GB"), arrivals=arrivals))

    assert sizing.feasible
    assert sizing.basis == "Extrapolated"
    assert sizing.error_band_percent >= 30
    assert "no measurement of" in " ".join(sizing.warnings)


def test_a_model_of_your_own_is_sized_from_its_architecture() -> None:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
    }

    mine = size(replace(question(H100, model="me/mine"), architecture=model_from_config("me/mine", config)))

    assert mine.configuration is not None
    # Its architecture is that of Llama 3 8B, which was measured.
    assert (mine.configuration.model, mine.basis) == ("me/mine", "Fitted")
    assert mine.memory is not None
    assert mine.memory.max_concurrency > 0


def test_a_limit_that_one_request_nearly_uses_up_is_warned_about() -> None:
    refused = size(replace(question(H100, tensor_parallel=4), sla=call_center(ttft_milliseconds=1).sla))
    needed = int(refused.reason.split("raise the limit to at least ")[1].split(" ms")[0])

    tight = size(replace(question(H100, tensor_parallel=4), sla=call_center(ttft_milliseconds=needed).sla))

    assert tight.feasible
    assert warned(tight, "TightLimit")


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize("batching", [*Batching, None], ids=str)
@pytest.mark.parametrize("groups", [1, 2, 4, 8])
@pytest.mark.parametrize("per_server", [2, 8])
def test_declared_groups_have_an_answer_or_are_refused(
    engine: Engine, batching: Batching | None, groups: int, per_server: int
) -> None:
    layout = {"attention_data_parallel": groups, "gpus_per_server": per_server}
    asked = question("H200-SXM-141GB", model="openai/gpt-oss-20b", precision="MXFP4", **layout)
    asked = replace(asked, engine=engine, batchings=(batching,) if batching else ())

    with suppress(InvalidInput):
        assert check(asked).candidates


def test_groups_of_static_batches_are_refused_by_their_field() -> None:
    asked = question("H200-SXM-141GB", model="openai/gpt-oss-20b", precision="MXFP4", attention_data_parallel=8)
    static = replace(asked, engine=Engine.TENSORRT_LLM, batchings=(Batching.STATIC,))

    with pytest.raises(InvalidInput, match=r"^hardware.attentionDataParallel: static batches have no groups"):
        size(static)
