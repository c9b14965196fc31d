"""Mixtures of experts are sized in the layouts that they are deployed in, and come near published figures there.

Published: output tokens a second and GPU of TensorRT-LLM with every request there at once and requests of equal length
(developer-guide/perf-overview.md of NVIDIA/TensorRT-LLM 03e27c7, "DEP": attention on each GPU for itself,
experts over all; DeepSeek-R1 with a KV cache in FP8).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.declared import AS_INSTALLED, DeclaredSettings
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.optimize.size import size
from firsttoken_sizing.performance.prefix_cache import hit_share
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.request import Infeasible, Sizing, SizingRequest
from firsttoken_sizing.workload import (
    Arrivals,
    Batching,
    DraftMethod,
    Hardware,
    Limit,
    Percentile,
    Routing,
    Sla,
    SlaMode,
    SpeculativeDecoding,
    Workload,
)

R1, QWEN, DENSE = "deepseek-ai/DeepSeek-R1", "Qwen/Qwen3-235B-A22B", "meta-llama/Llama-3.3-70B-Instruct"
OFFLINE = Sla(mode=SlaMode.OFFLINE)
FP8_CACHE = DeclaredSettings(kv_cache_bits=8)


def asked(model: str, gpu: str, lengths: tuple[int, int], **fields: object) -> SizingRequest:
    hardware = Hardware(gpus=(gpu,))
    workload = Workload(*lengths, peak_requests_per_second=1.0)
    request = SizingRequest(model, workload, OFFLINE, hardware, engine=Engine.TENSORRT_LLM)
    return replace(request, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "gpu", "precision", "ways", "lengths", "declared", "published"),
    [
        (R1, "B200", "NVFP4", 4, (1024, 32768), FP8_CACHE, 1451),
        (R1, "GB200", "NVFP4", 4, (1024, 32768), FP8_CACHE, 1465),
        (R1, "H200", "FP8", 8, (1024, 32768), FP8_CACHE, 438),
        (QWEN, "H200", "FP8", 4, (1000, 1000), AS_INSTALLED, 3288),
        (QWEN, "H200", "FP8", 4, (1024, 8192), AS_INSTALLED, 1417),
        (QWEN, "H200", "FP8", 4, (8192, 1024), AS_INSTALLED, 627),
        (QWEN, "H200", "FP8", 4, (32768, 1024), AS_INSTALLED, 134),
        (QWEN, "H100-SXM-80GB", "FP8", 8, (1000, 1000), AS_INSTALLED, 1932),
        (QWEN, "H100-SXM-80GB", "FP8", 8, (1024, 8192), AS_INSTALLED, 873),
    ],
)
def test_published_throughput_is_met_within_thirty_percent(
    model: str,
    gpu: str,
    precision: str,
    ways: int,
    lengths: tuple[int, int],
    declared: DeclaredSettings,
    published: float,
) -> None:
    key = ConfigurationKey(
        resolve_model(model).name, resolve_gpu(gpu).name, precision, ways, attention_data_parallel=ways
    )
    answer = size(asked(model, gpu, lengths, pinned=key, declared_settings=declared))

    assert answer.requests_per_second_per_replica * lengths[1] / ways == pytest.approx(published, rel=0.3)


@pytest.mark.parametrize("engine", list(Engine), ids=str)
def test_long_answers_of_a_latent_cache_take_a_fifth_of_what_they_took(engine: Engine) -> None:
    """On GPUs that all hold the same cache, 1024/32768 at one request a second was 664 GPUs."""
    sla = Sla(time_to_first_token=Limit(5000, Percentile.P95))
    answer = size(asked(R1, "H200", (1024, 32768), engine=engine, sla=sla, arrivals=Arrivals.POISSON))

    assert answer.configuration is not None
    assert answer.configuration.attention_data_parallel == answer.configuration.tensor_parallel == 8
    assert answer.gpus <= 664 / 5


def test_a_declared_number_of_groups_is_taken_and_told_to_the_engine() -> None:
    def told(engine: Engine, groups: int) -> dict[str, object]:
        hardware = Hardware(gpus=("H200",), tensor_parallel=8, attention_data_parallel=groups)
        answer = size(asked(R1, "H200", (1024, 1024), engine=engine, hardware=hardware))
        assert answer.configuration is not None
        assert answer.configuration.attention_data_parallel == groups
        return dict(answer.engine_settings)

    of_vllm, of_sglang, of_tensorrt = told(Engine.VLLM, 8), told(Engine.SGLANG, 4), told(Engine.TENSORRT_LLM, 8)
    assert (of_vllm["tensor_parallel_size"], of_vllm["data_parallel_size"]) == (1, 8)
    assert of_vllm["enable_expert_parallel"] is True
    assert (of_sglang["tp_size"], of_sglang["dp_size"], of_sglang["enable_dp_attention"]) == (8, 4, True)
    assert (of_tensorrt["tensor_parallel_size"], of_tensorrt["enable_attention_dp"]) == (8, True)
    assert told(Engine.VLLM, 1).keys().isdisjoint({"data_parallel_size"})


@pytest.mark.parametrize(
    ("hardware", "said"),
    [
        (Hardware(("H200",), tensor_parallel=8, attention_data_parallel=3), "3 groups do not share"),
        (Hardware(("H200",), attention_data_parallel=3), "3 groups of equal size are not offered"),
        (Hardware(("H200",), tensor_parallel=8, attention_data_parallel=4), "one group for each of 8 GPUs, and not 4"),
        (Hardware(("H200",), pipeline_parallel=2, attention_data_parallel=8), "8 is not for pipelines"),
        (Hardware(("H200",), attention_data_parallel=0), "0 is below 1"),
    ],
)
def test_groups_that_no_replica_has_are_refused(hardware: Hardware, said: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^hardware\.attentionDataParallel: .*{said}"):
        size(asked(R1, "H200", (1024, 1024), hardware=hardware))


def test_a_model_without_experts_has_none_to_spread() -> None:
    with pytest.raises(InvalidInput, match="has no experts to spread"):
        size(asked(DENSE, "H200", (1024, 1024), hardware=Hardware(("H200",), attention_data_parallel=2)))

    alternatives = size(asked(DENSE, "H200", (1024, 1024))).alternatives
    assert {a.configuration.attention_data_parallel for a in alternatives if a.configuration} == {1}


def test_a_prompt_alone_takes_longer_where_one_gpu_does_its_attention() -> None:
    def ttft(groups: int) -> float:
        hardware = Hardware(("H200",), tensor_parallel=8, attention_data_parallel=groups)
        few = Workload(8192, 64, peak_requests_per_second=0.01)
        sla = Sla(time_to_first_token=Limit(60_000, Percentile.MEAN))
        answer = size(
            asked(
                R1,
                "H200",
                (8192, 64),
                hardware=hardware,
                workload=few,
                sla=sla,
                arrivals=Arrivals.POISSON,
                engine=Engine.VLLM,
            )
        )
        assert answer.ttft.mean is not None
        return answer.ttft.mean

    assert ttft(8) > ttft(1)


def test_static_batches_have_one_attention() -> None:
    static = asked(R1, "H200", (1024, 128), batchings=(Batching.STATIC,))
    answer = size(static)

    assert answer.configuration is not None
    assert answer.configuration.attention_data_parallel == 1


def test_tokens_that_the_checkpoint_predicts_are_proposed_by_its_own_layer() -> None:
    def sized(method: DraftMethod | None) -> Sizing:
        drafts = None if method is None else SpeculativeDecoding(1, 85, method)
        few = Sla(time_to_first_token=Limit(5000, Percentile.MEAN), inter_token_latency=Limit(12, Percentile.MEAN))
        hardware = Hardware(("B200",), tensor_parallel=8, attention_data_parallel=1)
        return size(asked(R1, "B200", (1024, 1024), sla=few, hardware=hardware, speculative_decoding=drafts))

    plain, free, by_layer = sized(None), sized(DraftMethod.N_GRAM), sized(DraftMethod.MTP)

    assert plain.requests_per_second_per_replica < by_layer.requests_per_second_per_replica
    assert by_layer.requests_per_second_per_replica < free.requests_per_second_per_replica
    assert plain.memory is not None
    assert by_layer.memory is not None
    assert by_layer.memory.weights_gib == pytest.approx(plain.memory.weights_gib * 62 / 61)


def test_a_model_without_layers_that_predict_has_no_multi_token_prediction() -> None:
    with pytest.raises(
        InvalidInput, match=r"speculativeDecoding\.method: .* has no layers that predict further tokens"
    ):
        size(asked(DENSE, "H200", (1024, 1024), speculative_decoding=SpeculativeDecoding(1, 80, DraftMethod.MTP)))


def test_a_request_that_no_group_holds_is_infeasible_and_the_reason_says_so() -> None:
    """Llama 4 Maverick on 8 x H100: all groups together hold a million tokens, each of them 134,164."""
    maverick, hardware = "meta-llama/Llama-4-Maverick-17B-128E-Instruct", Hardware(("H100-SXM-80GB",), 8)
    long = asked(maverick, "H100-SXM-80GB", (300_000, 500), engine=Engine.VLLM, precision="FP8")

    answer = size(replace(long, hardware=replace(hardware, attention_data_parallel=8)))
    assert not answer.feasible
    assert answer.cause is Infeasible.KV_CACHE_TOO_SMALL
    assert "each of 8 groups of attention" in answer.reason
    assert "use fewer groups (hardware.attentionDataParallel)" in answer.reason


def test_groups_have_prefix_caches_of_their_own() -> None:
    """At which no router can aim behind one endpoint: they find no more than eight caches behind Random."""
    sla = Sla(time_to_first_token=Limit(3000, Percentile.P95))
    hardware = Hardware(("H200",), tensor_parallel=8, attention_data_parallel=8)
    load = Workload(8000, 300, peak_requests_per_second=30.0, cached_input_percent=80, prefixes_in_use=600)
    answer = size(
        asked(
            R1,
            "H200",
            (8000, 300),
            workload=replace(load, routing=Routing.PREFIX_AWARE),
            sla=sla,
            hardware=hardware,
            arrivals=Arrivals.POISSON,
            engine=Engine.VLLM,
            precision="FP8",
        )
    )
    assert answer.memory is not None
    most = hit_share(
        prefixes=600 / answer.replicas,
        prefix_tokens=6400,
        own_tokens=1900,
        cache_tokens=answer.memory.kv_cache_tokens_per_group,
        replicas=8,
        routing=Routing.RANDOM,
    )

    assert 0 < answer.cached_input_percent / 80 <= most < 0.9
