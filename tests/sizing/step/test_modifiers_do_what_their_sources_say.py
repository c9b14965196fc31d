from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.closed_loop import throughput
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.step import StepModel, prior_step, shipped
from firsttoken_sizing.step.modifiers import (
    chunked_prefill,
    prediction_layers,
    sparse_2_4,
    speculative,
    tokens_per_step,
    transferred,
)
from firsttoken_sizing.step.prior import StepWork, work_of

STEP = StepModel(15e-3, 3e-5, 5e-8, 8e-5, 6e-10)
DRAFT = StepModel(1.5e-3, 1e-5, 5e-9, 6e-6, 5e-11)
MODEL, GPU = resolve_model("meta-llama/Llama-2-70b-chat-hf"), resolve_gpu("H100-SXM-80GB")


def physics(precision: str, ways: int = 4) -> StepModel:
    calibration = shipped().constants(Engine.TENSORRT_LLM, GPU, precision, model=MODEL)
    return prior_step(MODEL, GPU, ConfigurationKey(MODEL.name, GPU.name, precision, ways), calibration)


def work(precision: str) -> StepWork:
    return work_of(MODEL, GPU, ConfigurationKey(MODEL.name, GPU.name, precision, 1))


def test_a_measured_step_is_carried_in_the_ratio_of_physics() -> None:
    slow = replace(physics("BF16"), base_seconds=1.2 * physics("BF16").base_seconds)

    carried = transferred(slow, physics("BF16"), physics("FP8"))

    assert carried.base_seconds == pytest.approx(1.2 * physics("FP8").base_seconds)
    assert carried.prefill_seconds(1000) == pytest.approx(physics("FP8").prefill_seconds(1000))


def test_to_itself_nothing_changes() -> None:
    assert transferred(physics("FP8"), physics("FP8"), physics("FP8")) == physics("FP8")


@pytest.mark.parametrize(("precision", "share"), [("BF16", 9 / 16), ("FP8", 5 / 8)])
def test_a_sparse_model_reads_half_of_its_weights_and_their_places(precision: str, share: float) -> None:
    dense, sparse = work(precision), sparse_2_4(work(precision), precision)

    assert sparse.weight_seconds == pytest.approx(share * dense.weight_seconds)
    assert sparse.kv_seconds_per_token == dense.kv_seconds_per_token


@pytest.mark.parametrize(("batch", "published"), [(32, 1.62), (128, 1.35), (896, 1.30)])
def test_a_sparse_llama_2_70b_gains_no_more_than_was_published(batch: int, published: float) -> None:
    calibration = shipped().constants(Engine.TENSORRT_LLM, GPU, "FP8", model=MODEL)
    lengths = Lengths(128, 128, 128)
    dense, sparse = (w.step(calibration, max_batch=1000) for w in (work("FP8"), sparse_2_4(work("FP8"), "FP8")))
    gain = throughput(sparse, lengths, batch) / throughput(dense, lengths, batch)

    assert published - 0.3 < gain <= published


def test_tokens_of_a_verification_are_those_of_the_paper() -> None:
    assert tokens_per_step(0.8, 0) == 1
    assert tokens_per_step(0.8, 4) == pytest.approx((1 - 0.8**5) / (1 - 0.8))
    assert tokens_per_step(0.0, 4) == 1
    assert tokens_per_step(1.0, 4) == 5


def test_speculation_helps_one_sequence_and_hardly_a_full_batch() -> None:
    fast = speculative(STEP, acceptance=0.7, draft_tokens=4, draft=DRAFT)

    def gain(batch: int) -> float:
        return STEP.decode_seconds(batch, batch * 1000) / fast.decode_seconds(batch, batch * 1000)

    assert gain(1) == pytest.approx(tokens_per_step(0.7, 4) * 15 / (15 + 4 * 1.5), rel=0.02)
    assert gain(1) > 1.8 > gain(64) > gain(250)
    assert fast.prefill_seconds(1000) == pytest.approx(STEP.prefill_seconds(1000) + DRAFT.prefill_seconds(1000))


def test_a_draft_that_is_never_accepted_only_costs() -> None:
    slow = speculative(STEP, acceptance=0.0, draft_tokens=4, draft=DRAFT)

    assert slow.decode_seconds(8, 8000) > STEP.decode_seconds(8, 8000)
    assert speculative(STEP, acceptance=0.9, draft_tokens=0) == STEP


def test_layers_that_predict_cost_their_share_and_less_than_they_save_a_sequence_alone() -> None:
    step = StepModel(0.01, 1e-5, 1e-8, 1e-5, 1e-10, expert_seconds=0.02, idle_expert_share=0.97)
    layers = prediction_layers(step, 1 / 61)
    free = speculative(step, acceptance=0.8, draft_tokens=1)
    paid = speculative(step, acceptance=0.8, draft_tokens=1, draft=layers)

    assert layers.decode_seconds(4.0, 1000.0) == pytest.approx(step.decode_seconds(4.0, 1000.0) / 61)
    assert free.decode_seconds(1.0, 1000.0) < paid.decode_seconds(1.0, 1000.0) < step.decode_seconds(1.0, 1000.0)
    assert paid.prefill_seconds(1000.0) == pytest.approx(step.prefill_seconds(1000.0) * 62 / 61)


def test_a_longer_draft_wakes_more_experts() -> None:
    mixture = replace(STEP, expert_seconds=20e-3, idle_expert_share=0.9)
    fast = speculative(mixture, acceptance=1.0, draft_tokens=3)

    assert 4 * (fast.batch_seconds(1) - fast.batch_seconds(0)) == pytest.approx(20e-3 * (1 - 0.9**4) + 4 * 3e-5)


def test_chunks_read_again_what_came_before() -> None:
    chunked = chunked_prefill(STEP, 512)
    again = sum(512 * i for i in range(8)) * STEP.per_context_token_seconds

    assert chunked.prefill_seconds(4096) - STEP.prefill_seconds(4096) == pytest.approx(again, rel=0.15)
    assert chunked.decode_seconds(8, 8000) == STEP.decode_seconds(8, 8000)


@given(chunk=st.integers(1, 100_000), tokens=st.floats(1, 1e5), cached=st.floats(0, 1e5))
def test_smaller_chunks_are_never_cheaper(chunk: int, tokens: float, cached: float) -> None:
    small, large = chunked_prefill(STEP, chunk), chunked_prefill(STEP, 2 * chunk)

    assert small.prefill_seconds(tokens, cached) >= large.prefill_seconds(tokens, cached)


def test_nonsense_names_the_field() -> None:
    with pytest.raises(InvalidInput, match="acceptance"):
        speculative(STEP, acceptance=1.5, draft_tokens=4)
    with pytest.raises(InvalidInput, match="draftTokens"):
        speculative(STEP, acceptance=0.5, draft_tokens=-1)
    with pytest.raises(InvalidInput, match="chunkTokens"):
        chunked_prefill(STEP, 0)
