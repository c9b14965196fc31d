from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.step.waves import waves_of

PLAIN = StepModel(5e-3, 2e-5, 7e-8, 1.5e-5, 4e-10)
WAVES = replace(PLAIN, attention_wave_seconds=3e-7, attention_wave_sequences=8.0, grouped_attention_sequences=20.0)
SHAPED = replace(PLAIN, batch_shape=((1.0, 1.0), (10.0, 1.1), (100.0, 0.9)))

steps = st.builds(
    StepModel,
    base_seconds=st.floats(1e-4, 0.1),
    per_sequence_seconds=st.floats(0, 1e-3),
    per_context_token_seconds=st.floats(0, 1e-6),
    per_prefill_token_seconds=st.floats(0, 1e-3),
    per_prefill_token_squared_seconds=st.floats(0, 1e-8),
    expert_seconds=st.sampled_from([0.0, 1e-2]),
    idle_expert_share=st.floats(0.5, 0.99),
    batch_shape=st.sampled_from([(), SHAPED.batch_shape, ((5.0, 1.2),)]),
    attention_wave_seconds=st.floats(0, 1e-6),
    attention_wave_sequences=st.floats(0.5, 100),
    grouped_attention_sequences=st.sampled_from([0.0, 16.5, math.inf]),
)


@given(step=steps, sequences=st.lists(st.floats(0, 400), min_size=1, max_size=5), context=st.floats(0, 1e6))
def test_arrays_and_numbers_agree(step: StepModel, sequences: list[float], context: float) -> None:
    of_array = step.decode_seconds(np.array(sequences), np.full(len(sequences), context))

    assert of_array.tolist() == pytest.approx([step.decode_seconds(one, context) for one in sequences])


@given(step=steps, sequences=st.integers(1, 400), context=st.floats(0, 1e6))
def test_for_one_batch_the_time_is_linear_in_the_context(step: StepModel, sequences: int, context: float) -> None:
    fixed, slope = step.batch_seconds(sequences), step.context_seconds(sequences)

    assert step.decode_seconds(sequences, context) == pytest.approx(fixed + slope * context)


def test_a_wave_takes_as_long_for_one_sequence_as_for_all_that_fit() -> None:
    alone, full, one_more = (WAVES.context_seconds(b) * b * 1000 for b in (1, 8, 9))

    assert alone == pytest.approx(full)
    assert one_more == pytest.approx(2 * full)
    assert WAVES.context_seconds(20) == PLAIN.context_seconds(20)


def test_the_shape_bends_what_depends_on_the_batch_alone() -> None:
    assert SHAPED.batch_seconds(10) == pytest.approx(1.1 * PLAIN.batch_seconds(10))
    assert SHAPED.batch_seconds(55) == pytest.approx(1.0 * PLAIN.batch_seconds(55)), "half way between 1.1 and 0.9"
    assert SHAPED.batch_seconds(400) == pytest.approx(0.9 * PLAIN.batch_seconds(400))
    assert SHAPED.context_seconds(10) == PLAIN.context_seconds(10)


def test_a_cached_prefix_is_attended_to_but_not_computed() -> None:
    assert PLAIN.prefill_seconds(500.0, 1500.0) == pytest.approx(
        PLAIN.prefill_seconds(2000.0) - PLAIN.prefill_seconds(1500.0)
    )


@given(step=steps, stages=st.integers(1, 8), micro_batch=st.integers(1, 50))
@example(step=replace(WAVES, attention_wave_sequences=0.7), stages=3, micro_batch=7)
def test_micro_batches_of_a_pipeline_cost_what_one_of_them_costs_alone(
    step: StepModel, stages: int, micro_batch: int
) -> None:
    batch = stages * micro_batch
    whole = replace(step, batch_shape=()).decode_seconds(micro_batch, micro_batch * 1000.0)

    assert replace(step, batch_shape=()).in_stages(stages).decode_seconds(batch, batch * 1000.0) == pytest.approx(whole)


@pytest.mark.parametrize(
    ("model", "gpu", "ways", "sequences", "grouped_from"),
    [
        ("meta-llama/Meta-Llama-3-8B-Instruct", "H100-SXM-80GB", 1, 132 / 32, math.inf),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "A100-SXM-80GB", 2, 108 / 16, math.inf),
        ("meta-llama/Meta-Llama-3-70B-Instruct", "H100-SXM-80GB", 4, 132 / 16, 16.5),
        ("meta-llama/Meta-Llama-3-70B-Instruct", "H100-SXM-80GB", 8, 132 / 8, 33),
    ],
)
def test_heads_of_a_wave_are_the_multiprocessors_of_the_gpu(
    model: str, gpu: str, ways: int, sequences: float, grouped_from: float
) -> None:
    waves = waves_of(resolve_model(model), resolve_gpu(gpu), ways, full_layers=32)

    assert waves.sequences == pytest.approx(sequences)
    assert waves.grouped_from_sequences == pytest.approx(grouped_from)
