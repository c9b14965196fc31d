"""Pipeline of tensor-parallel groups: what is shared, what is paid in every stage, what hops cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.performance.closed_loop import throughput
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.pipeline import Placement, pipelined
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.step import shipped
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.prior import prior_step

MODEL, GPU = resolve_model("llama3-70b"), resolve_gpu("H100-SXM-80GB")
GROUP = StepModel(20e-3, 5e-5, 2e-8, 7e-5, 2e-10, max_batch=64)
LENGTHS = Lengths(2000, 2000, 200)


def of(stages: int, tensor_parallel: int = 2, gpus_per_server: int = 8) -> StepModel:
    return pipelined(GROUP, MODEL, GPU, Placement(tensor_parallel, stages, gpus_per_server))


def test_one_stage_is_the_group_itself() -> None:
    assert of(1) is GROUP


def test_a_token_passes_every_stage() -> None:
    """No faster than the group at batch 1: what a pipeline saves is memory, and work of many requests at once."""
    assert of(4).decode_seconds(1, 0) == pytest.approx(GROUP.decode_seconds(1, 0), rel=0.02)
    assert of(4).base_seconds > GROUP.base_seconds


def test_a_prompt_takes_as_long_as_before_and_keeps_a_stage_busy_for_its_share() -> None:
    piped = of(4)

    assert piped.prefill_seconds(2000.0) == pytest.approx(GROUP.prefill_seconds(2000.0) / 4, rel=0.1)
    assert piped.prefill_latency_seconds(2000.0) == pytest.approx(GROUP.prefill_seconds(2000.0), rel=0.1)
    assert piped.prefill_latency_seconds(2000.0) > GROUP.prefill_seconds(2000.0)


def test_micro_batches_keep_the_stages_busy() -> None:
    """Two stages hold twice the requests, and serve more than one group does with its own batch, but less than two."""
    one, two = throughput(GROUP, LENGTHS, 64), throughput(replace(of(2), max_batch=128), LENGTHS, 128)

    assert 1.5 * one < two < 2.001 * one


def test_hops_between_servers_cost_more() -> None:
    inside, outside = of(2, tensor_parallel=4), of(2, tensor_parallel=8)

    assert outside.base_seconds - GROUP.base_seconds > 3 * (inside.base_seconds - GROUP.base_seconds)


@pytest.mark.parametrize(
    ("placement", "servers", "hops"),
    [
        (Placement(8, 1, 8), 1, 0),
        (Placement(2, 4, 8), 1, 0),
        (Placement(8, 2, 8), 2, 1),
        (Placement(4, 4, 8), 2, 1),
        (Placement(16, 2, 8), 4, 1),
        (Placement(4, 3, 4), 3, 2),
    ],
)
def test_stages_lie_in_as_few_servers_as_hold_them(placement: Placement, servers: int, hops: int) -> None:
    assert placement.servers == servers
    assert placement.hops_between_servers(GPU) == hops


def test_a_rack_with_one_nvlink_domain_has_no_hops_over_the_network() -> None:
    assert Placement(4, 4, 4).hops_between_servers(resolve_gpu("GB200-186GB")) == 0


def test_a_micro_batch_wakes_fewer_experts() -> None:
    mixture = StepModel(20e-3, 5e-5, 2e-8, 7e-5, 2e-10, expert_seconds=30e-3, idle_expert_share=0.75)
    piped = pipelined(mixture, MODEL, GPU, Placement(2, 4, 8))

    assert piped.decode_seconds(4, 0) - piped.decode_seconds(0, 0) < mixture.decode_seconds(4, 0) - 20e-3
    assert piped.idle_expert_share**4 == pytest.approx(0.75)


def test_tiles_and_waves_are_those_of_a_micro_batch() -> None:
    shaped = replace(
        GROUP,
        batch_shape=((8.0, 1.0), (16.0, 1.5)),
        attention_wave_seconds=1e-6,
        attention_wave_sequences=16.0,
        grouped_attention_sequences=32.0,
    )
    piped = pipelined(shaped, MODEL, GPU, Placement(2, 4, 8))

    assert piped.batch_seconds(64.0) / piped.batch_seconds(32.0) == pytest.approx(1.5, rel=0.06)
    # 48 sequences are micro-batches of 12, one wave in every stage.
    assert piped.context_seconds(48.0) * 48 == pytest.approx(shaped.context_seconds(12.0) * 12)
    assert piped.context_seconds(128.0) == pytest.approx(shaped.context_seconds(32.0) / 4)


@pytest.mark.parametrize("placement", [Placement(2, 2, 8), Placement(4, 4, 8)])
def test_the_prior_of_a_pipeline_is_the_pipeline_of_its_prior(placement: Placement) -> None:
    """Up to the hand-overs, which the prior does not count."""
    constants = shipped().constants(Engine.TENSORRT_LLM, GPU, "FP16", model=MODEL)

    def prior(stages: int) -> StepModel:
        key = ConfigurationKey(MODEL.name, GPU.name, "FP16", placement.tensor_parallel, stages)
        return prior_step(MODEL, GPU, key, constants)

    direct, built = prior(placement.pipeline_parallel), pipelined(prior(1), MODEL, GPU, placement)
    for batch in (1.0, 64.0, 256.0):
        context = batch * LENGTHS.context_tokens

        assert built.decode_seconds(batch, context) == pytest.approx(direct.decode_seconds(batch, context), rel=0.02)
    assert built.prefill_latency_seconds(2000.0) == pytest.approx(direct.prefill_latency_seconds(2000.0), rel=0.02)
