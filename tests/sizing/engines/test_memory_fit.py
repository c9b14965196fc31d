"""Memory of a GPU that is left for the KV cache, and how many requests that holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_sizing.catalog import gpus, models, resolve_gpu, resolve_model
from firsttoken_sizing.engines import DEFAULT, Engine
from firsttoken_sizing.engines.memory import Memory, replica_memory
from firsttoken_sizing.engines.spec import ShareOfGpu
from firsttoken_sizing.errors import InvalidInput


def fit(model: str, gpu: str, **changes: object) -> Memory:
    arguments: dict[str, object] = {"precision": "FP16", "input_tokens": 2000.0, "output_tokens": 200.0} | changes
    return replica_memory(resolve_model(model), resolve_gpu(gpu), **arguments)  # type: ignore[arg-type]


def test_the_parts_add_up_to_the_usable_memory() -> None:
    memory = fit("llama3-8b", "H100-SXM-80GB")
    rule = DEFAULT.spec.memory
    assert isinstance(rule, ShareOfGpu)
    usable = rule.usable_fraction * (memory.total_gib - rule.reserve_gib)

    assert memory.weights_gib + rule.activations_gib + memory.kv_cache_gib == pytest.approx(usable)


def test_llama_8b_in_fp8_leaves_most_of_an_h100_to_the_cache() -> None:
    memory = fit("llama3-8b", "H100-SXM-80GB", precision="FP8")

    assert memory.weights_gib == pytest.approx(8.46, abs=0.01)
    assert memory.kv_cache_tokens == pytest.approx(58.07 * 2**30 / 65_536, rel=0.001)
    assert memory.max_concurrency == memory.kv_cache_tokens // 2200


def test_an_engine_queues_where_a_cache_of_its_width_is_full() -> None:
    """NIM's 8B in FP8 was measured to run about 111 requests of 7000/1000 tokens at once on one H100."""
    memory = fit("llama3-8b", "H100-SXM-80GB", precision="FP8", input_tokens=7000.0, output_tokens=1000.0)

    assert memory.kv_cache_bits == 8
    assert memory.max_concurrency == pytest.approx(111, rel=0.1)


@pytest.mark.parametrize(
    ("model", "precision", "engine", "bits"),
    [
        ("llama3-8b", "FP16", Engine.TENSORRT_LLM, 16),
        ("llama3-8b", "INT8", Engine.TENSORRT_LLM, 8),
        ("llama3-8b", "NVFP4", Engine.TENSORRT_LLM, 8),
        ("deepseek-r1", "FP8", Engine.TENSORRT_LLM, 16),
        ("llama3-8b", "FP8", Engine.VLLM, 16),
        ("llama3-8b", "FP8", Engine.SGLANG, 16),
    ],
)
def test_only_tensorrt_llm_narrows_its_cache_and_only_with_checkpoints_that_carry_its_scale(
    model: str, precision: str, engine: Engine, bits: int
) -> None:
    assert fit(model, "H100-SXM-80GB", precision=precision, engine=engine).kv_cache_bits == bits


def test_gpt_43b_on_two_h100_holds_the_concurrency_of_the_worked_example() -> None:
    """0.6 requests/s x 13.3 s are 8 requests in flight."""
    memory = fit("GPT-43B", "H100-SXM-80GB", tensor_parallel=2, input_tokens=3500.0, output_tokens=500.0)

    assert memory.max_concurrency >= 8


def test_a_model_larger_than_the_gpu_holds_nothing() -> None:
    memory = fit("llama3-70b", "H100-SXM-80GB")

    assert memory.kv_cache_gib == 0
    assert memory.kv_cache_tokens == 0
    assert memory.max_concurrency == 0


def test_a_cache_smaller_than_one_request_holds_tokens_but_no_request() -> None:
    memory = fit("llama3-70b", "H100-SXM-80GB", tensor_parallel=2, input_tokens=8000.0, output_tokens=192.0)

    assert memory.kv_cache_tokens > 0
    assert memory.max_concurrency == 0


def test_kv_heads_are_replicated_where_there_are_more_gpus_than_heads() -> None:
    """8 KV heads: 16 GPUs hold each head twice, so the cache of a token costs one head on every GPU, as with 8."""
    eight, sixteen = (fit("llama3-70b", "H100-SXM-80GB", tensor_parallel=ways) for ways in (8, 16))

    per_gib_8 = eight.kv_cache_tokens / eight.kv_cache_gib
    per_gib_16 = sixteen.kv_cache_tokens / sixteen.kv_cache_gib

    assert per_gib_16 == pytest.approx(per_gib_8, rel=0.001)


def test_an_mla_cache_is_whole_on_every_gpu() -> None:
    memory = fit("deepseek-r1", "H200", precision="FP8", tensor_parallel=8)

    assert memory.kv_cache_tokens == pytest.approx(memory.kv_cache_gib * 2**30 / 70_272, rel=0.001)


def test_pipeline_stages_hold_their_own_layers() -> None:
    one = fit("llama3-8b", "H100-SXM-80GB")
    two = fit("llama3-8b", "H100-SXM-80GB", pipeline_parallel=2)

    assert two.weights_gib == one.weights_gib / 2
    assert two.kv_cache_tokens / two.kv_cache_gib == pytest.approx(2 * one.kv_cache_tokens / one.kv_cache_gib, rel=1e-4)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tensor_parallel": 0}, "hardware.tensorParallel"),
        ({"pipeline_parallel": -1}, "hardware.pipelineParallel"),
        ({"input_tokens": 0.0}, "traffic.inputTokens"),
        ({"output_tokens": float("nan")}, "traffic.outputTokens"),
    ],
)
def test_impossible_input_names_the_field(change: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        fit("llama3-8b", "H100-SXM-80GB", **change)

    assert caught.value.field == field


@given(
    model=st.sampled_from(models()),
    gpu=st.sampled_from(gpus()),
    ways=st.integers(1, 16),
    input_tokens=st.floats(1, 1e6),
    output_tokens=st.floats(1, 1e6),
)
def test_more_gpus_a_replica_never_hold_fewer_tokens(
    model: object, gpu: object, ways: int, input_tokens: float, output_tokens: float
) -> None:
    few, many = (
        replica_memory(
            model,  # type: ignore[arg-type]
            gpu,  # type: ignore[arg-type]
            precision="FP8",
            tensor_parallel=tensor_parallel,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
        )
        for tensor_parallel in (ways, ways + 1)
    )

    assert many.kv_cache_tokens >= few.kv_cache_tokens
    assert (
        0 <= few.max_concurrency * (input_tokens + output_tokens) <= few.kv_cache_tokens + input_tokens + output_tokens
    )


def test_groups_of_attention_hold_the_cache_of_their_own_requests_and_all_weights_but_the_experts() -> None:
    """Latent attention has one cache for all heads: GPUs that share a request all hold it."""
    long: dict[str, object] = {"precision": "FP8", "input_tokens": 1024.0, "output_tokens": 32768.0}
    shared = fit("deepseek-r1", "H200-SXM-141GB", tensor_parallel=8, **long)
    apart = fit("deepseek-r1", "H200-SXM-141GB", tensor_parallel=8, attention_data_parallel=8, **long)
    model = resolve_model("deepseek-r1")
    experts = model.routed_expert_bytes("FP8")

    assert apart.weights_gib == pytest.approx((experts / 8 + model.weight_bytes("FP8") - experts) / 2**30)
    held = apart.kv_cache_gib / shared.kv_cache_gib
    assert held < 1
    assert apart.max_concurrency == pytest.approx(8 * held * shared.max_concurrency, abs=8)


def test_key_and_value_heads_that_are_split_take_as_much_in_groups() -> None:
    request = {"precision": "FP8", "input_tokens": 1024.0, "output_tokens": 1024.0, "tensor_parallel": 4}
    shared = fit("qwen3-235b-a22b", "H200-SXM-141GB", **request)
    apart = fit("qwen3-235b-a22b", "H200-SXM-141GB", attention_data_parallel=4, **request)

    assert apart.max_concurrency / shared.max_concurrency == pytest.approx(
        apart.kv_cache_gib / shared.kv_cache_gib, rel=0.01
    )


def test_groups_that_do_not_share_the_gpus_evenly_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"attentionDataParallel: 3 groups do not share 8 GPUs evenly"):
        fit("deepseek-r1", "H200-SXM-141GB", tensor_parallel=8, attention_data_parallel=3)


def layouts_of_groups() -> list[tuple[str, str, int]]:
    """Every mixture of experts of the catalog on every GPU, as one group of attention a GPU."""
    experts = [model for model in models() if model.experts]
    return [(model.name, gpu.name, ways) for model in experts for gpu in gpus() for ways in (2, 4, 8)]


def test_a_request_lives_wholly_in_one_group_of_attention() -> None:
    layouts = layouts_of_groups()
    assert len({model for model, *_ in layouts}) > 5
    refused = 0
    for model, gpu, ways in layouts:
        most = resolve_model(model).max_context_tokens
        for request in (most, most / 4):
            memory = fit(
                model,
                gpu,
                precision="FP8",
                tensor_parallel=ways,
                attention_data_parallel=ways,
                input_tokens=request - 500.0,
                output_tokens=500.0,
                engine=Engine.VLLM,
            )

            assert memory.kv_cache_tokens == ways * memory.kv_cache_tokens_per_group
            assert memory.max_concurrency == ways * int(memory.kv_cache_tokens_per_group / request)
            refused += memory.max_concurrency == 0 and memory.kv_cache_tokens >= request
    # The sum over the groups would have held them.
    assert refused > 5


def test_fractions_of_groups_hold_no_requests() -> None:
    """2.5 requests in each of 8 groups are 16, and not 20."""
    changes = {"precision": "FP8", "tensor_parallel": 8, "attention_data_parallel": 8, "engine": Engine.VLLM}
    held = fit("deepseek-r1", "H200-SXM-141GB", **changes).kv_cache_tokens_per_group

    lengths = {"input_tokens": held / 2.5 - 200.0, "output_tokens": 200.0}
    assert fit("deepseek-r1", "H200-SXM-141GB", **changes, **lengths).max_concurrency == 16
