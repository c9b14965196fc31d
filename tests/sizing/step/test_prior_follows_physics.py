from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, replace
from itertools import cycle, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_sizing.catalog import BYTES_PER_PARAMETER, Gpu, Model, gpus, models, resolve_gpu, resolve_model
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.step import Calibration, StepModel, prior_step, shipped
from firsttoken_sizing.step.calibration import TERMS, constants, groups_of
from firsttoken_sizing.step.prior import tensor_flops, weight_bytes_read, work_of

IDEAL = Calibration(0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
"""An engine as fast as the hardware."""
MODELS, GPUS, PRECISIONS = models(), gpus(), tuple(BYTES_PER_PARAMETER)
WAYS = (1, 2, 4, 8, 16)


def step_of(
    model: Model | str, gpu: Gpu | str = "H100-SXM-80GB", precision: str = "BF16", ways: int = 1, stages: int = 1
) -> StepModel:
    found = resolve_model(model) if isinstance(model, str) else model
    card = resolve_gpu(gpu) if isinstance(gpu, str) else gpu
    return prior_step(found, card, ConfigurationKey(found.name, card.name, precision, ways, stages), IDEAL)


def test_a_dense_step_reads_the_weights_once_and_computes_two_flop_a_parameter() -> None:
    step = step_of("meta-llama/Meta-Llama-3-8B-Instruct")
    embedding = 128256 * 4096
    parameters = 8.03e9

    assert step.base_seconds == pytest.approx(2 * (parameters - embedding) / 3350e9, rel=1e-3)
    assert step.per_context_token_seconds == pytest.approx(2 * 32 * 8 * 128 * 2 / 3350e9)
    assert step.per_prefill_token_seconds == pytest.approx(2 * (parameters - 2 * embedding) / 989e12, rel=1e-3)
    # 4 * layers * heads * width * s^2 / 2 FLOP for a prompt of s tokens.
    assert step.per_prefill_token_squared_seconds == pytest.approx(2 * 32 * 32 * 128 / 989e12)


def test_experts_are_read_as_the_batch_wakes_them() -> None:
    model = resolve_model("mistralai/Mixtral-8x7B-Instruct-v0.1")
    always, experts = weight_bytes_read(model, "BF16")
    step = step_of(model)

    assert experts / 2e9 == pytest.approx(45.1, rel=0.01), "8 experts of 5.6 billion parameters"
    assert always / 2e9 == pytest.approx(1.6, rel=0.1), "attention and the output head"
    assert step.idle_expert_share == pytest.approx(1 - 2 / 8)
    assert step.batch_seconds(1) - step.batch_seconds(0) == pytest.approx(experts / 4 / 3350e9, rel=0.01)
    assert step.expert_seconds == pytest.approx(experts / 3350e9)


def test_kv_heads_are_replicated_beyond_their_number_and_mla_is_whole_everywhere() -> None:
    one, eight, sixteen = (step_of("meta-llama/Meta-Llama-3-70B-Instruct", ways=w) for w in (1, 8, 16))
    mla = [step_of("deepseek-ai/DeepSeek-V3", precision="FP8", ways=w).per_context_token_seconds for w in (1, 8)]

    assert eight.per_context_token_seconds == pytest.approx(one.per_context_token_seconds / 8)
    assert sixteen.per_context_token_seconds == eight.per_context_token_seconds
    assert mla[0] == mla[1]


def test_a_full_window_costs_every_sequence_the_same_and_a_prompt_no_square() -> None:
    model = resolve_model("mistralai/Mistral-7B-Instruct-v0.1")
    gpu = resolve_gpu("H100-SXM-80GB")
    key = ConfigurationKey(model.name, gpu.name, "BF16")
    short, long = (prior_step(model, gpu, key, IDEAL, prompt_tokens=tokens) for tokens in (2000, 16000))

    assert short.per_context_token_seconds > 0
    assert short.per_prefill_token_squared_seconds > 0
    assert long.per_context_token_seconds == 0
    assert long.per_prefill_token_squared_seconds == 0
    assert long.per_sequence_seconds - short.per_sequence_seconds == pytest.approx(model.kv_bytes(4096) / 3350e9)


def test_layers_without_attention_keep_no_context() -> None:
    hybrid = resolve_model("nvidia/NVIDIA-Nemotron-Nano-9B-v2")

    assert step_of(hybrid).per_context_token_seconds == pytest.approx(hybrid.kv_bytes_per_token / 3350e9)


@pytest.mark.parametrize(
    ("gpu", "precision", "rate"),
    [
        ("H100-SXM-80GB", "FP8", 1979),
        ("A100-SXM-80GB", "FP8", 312),
        ("A100-SXM-80GB", "INT8", 624),
        ("H100-SXM-80GB", "INT4", 989),
        ("H100-SXM-80GB", "NVFP4", 989),
        ("B200-SXM-180GB", "MXFP4", 9000),
        ("B300-SXM-288GB", "INT8", 2250),
        ("T4", "BF16", 65),
    ],
)
def test_without_hardware_for_a_precision_16_bits_are_computed(gpu: str, precision: str, rate: float) -> None:
    assert tensor_flops(resolve_gpu(gpu), precision) == rate * 1e12


def test_nvlink_makes_a_group_faster_than_pcie() -> None:
    model = "meta-llama/Meta-Llama-3-8B-Instruct"
    nvlink, pcie = step_of(model, "A100-SXM-80GB", ways=4), step_of(model, "A100-PCIe-80GB", ways=4)

    assert pcie.per_prefill_token_seconds > 1.5 * nvlink.per_prefill_token_seconds


def test_stages_share_what_grows_with_the_batch_and_none_of_the_weights() -> None:
    model = "mistralai/Mixtral-8x7B-Instruct-v0.1"
    whole, split = step_of(model), step_of(model, stages=4)

    assert split.base_seconds == whole.base_seconds
    assert split.prefill_seconds(1000) == pytest.approx(whole.prefill_seconds(1000) / 4)
    assert split.prefill_latency_seconds(1000) == pytest.approx(whole.prefill_seconds(1000))
    # Four micro-batches of eight wake as many experts as one batch of eight, each in its own layers.
    assert split.decode_seconds(32, 32000) == pytest.approx(whole.decode_seconds(8, 8000))


def _times(step: StepModel) -> tuple[float, ...]:
    return (
        step.base_seconds + step.expert_seconds,
        step.per_context_token_seconds,
        step.per_prefill_token_seconds,
        step.per_prefill_token_squared_seconds,
    )


@given(model=st.sampled_from(MODELS), gpu=st.sampled_from(GPUS), precision=st.sampled_from(PRECISIONS))
def test_more_gpus_never_read_more_each(model: Model, gpu: Gpu, precision: str) -> None:
    free_links = replace(IDEAL, all_reduce=0.0)
    keys = (ConfigurationKey(model.name, gpu.name, precision, ways) for ways in WAYS)
    steps = [prior_step(model, gpu, key, free_links) for key in keys]

    for fewer, more in pairwise(steps):
        assert all(b <= a for a, b in zip(_times(fewer), _times(more), strict=True))


@given(model=st.sampled_from(MODELS), gpu=st.sampled_from(GPUS), ways=st.sampled_from(WAYS), faster=st.floats(1, 4))
def test_more_bandwidth_is_never_slower(model: Model, gpu: Gpu, ways: int, faster: float) -> None:
    better = replace(gpu, memory_bandwidth_gb_per_second=faster * gpu.memory_bandwidth_gb_per_second)

    assert all(
        b <= a
        for a, b in zip(_times(step_of(model, gpu, ways=ways)), _times(step_of(model, better, ways=ways)), strict=True)
    )


@given(model=st.sampled_from([m for m in MODELS if not m.checkpoint_gib]), gpu=st.sampled_from(GPUS))
def test_fewer_bits_are_never_slower(model: Model, gpu: Gpu) -> None:
    wide, eight, four = (step_of(model, gpu, precision) for precision in ("BF16", "FP8", "INT4"))

    assert eight.base_seconds + eight.expert_seconds <= wide.base_seconds + wide.expert_seconds
    assert four.base_seconds + four.expert_seconds <= eight.base_seconds + eight.expert_seconds
    assert eight.per_prefill_token_seconds <= wide.per_prefill_token_seconds


@pytest.mark.slow
def test_every_configuration_of_the_catalog_has_a_positive_step() -> None:
    engines = cycle(Engine)
    checked = 0
    for model, gpu, precision in product(MODELS, GPUS, PRECISIONS):
        calibration = shipped().constants(next(engines), gpu, precision, model=model)
        for ways, stages in ((1, 1), (8, 2)):
            key = ConfigurationKey(model.name, gpu.name, precision, ways, stages)
            step = prior_step(model, gpu, key, calibration)
            assert 0 < step.decode_seconds(1.0, 1000.0) <= step.decode_seconds(8.0, 8000.0) < 100
            assert 0 < step.prefill_seconds(1000.0) < 1000
            checked += 1

    assert checked == 2 * len(MODELS) * len(GPUS) * len(PRECISIONS)


@given(
    first=st.tuples(*(st.floats(0.0, 10.0) for _ in range(9))),
    second=st.tuples(*(st.floats(0.0, 10.0) for _ in range(9))),
    batch=st.integers(1, 256),
)
def test_a_step_is_linear_in_the_constants(first: tuple[float, ...], second: tuple[float, ...], batch: int) -> None:
    model, gpu = resolve_model("deepseek-ai/DeepSeek-V3"), resolve_gpu("H200-SXM-141GB")
    work = work_of(model, gpu, ConfigurationKey(model.name, gpu.name, "FP8", 8))
    both = tuple(a + b for a, b in zip(first, second, strict=True))

    def seconds(values: tuple[float, ...], read: Callable[[StepModel], float]) -> float:
        return read(work.step(Calibration(*values)))

    for read in (lambda s: s.decode_seconds(batch, 700.0 * batch), lambda s: s.prefill_seconds(3000.0)):
        assert seconds(both, read) == pytest.approx(seconds(first, read) + seconds(second, read))


def test_factors_of_every_group_multiply_the_base_and_unknown_groups_change_nothing() -> None:
    model, gpu = resolve_model("meta-llama/Meta-Llama-3-8B-Instruct"), resolve_gpu("H100-SXM-80GB")
    entry = {
        "base": dict.fromkeys(TERMS, 1.0),
        "factors": {"hopper": {"prefill": 0.5}, "FP8": {"prefill": 3.0, "decode": 2.0}, "ampere": {"prefill": 9.0}},
    }
    found = constants(entry, groups_of(gpu, "FP8", model))

    assert (found.prefill, found.decode, found.attention) == (1.5, 2.0, 1.0)
    assert set(astuple(constants(entry, ("unknown",)))) == {1.0}


def test_both_generations_of_tensorrt_llm_are_known_and_only_the_older_one_attends_in_waves() -> None:
    model, gpu = resolve_model("meta-llama/Meta-Llama-3-8B-Instruct"), resolve_gpu("H100-SXM-80GB")

    assert [release.name for release in Engine.TENSORRT_LLM.spec.releases] == ["", "2024"]
    for engine in Engine:
        assert shipped().constants(engine, gpu, "FP8", model=model).attention_wave == 0
    assert shipped().constants(Engine.TENSORRT_LLM, gpu, "FP8", model=model, release="2024").attention_wave > 0
