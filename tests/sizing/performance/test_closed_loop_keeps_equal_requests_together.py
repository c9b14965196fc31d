from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.performance.closed_loop import BenchmarkClients, predict, throughput
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import Latency, Point
from firsttoken_sizing.step import StepModel

STEP = StepModel(6e-3, 3e-5, 7e-8, 1.5e-5, 0.0)
LENGTHS = Lengths(2000, 2000, 200)
PREFILL_MS = 30.0
"""Time of one prompt of `LENGTHS`."""
ENDLESS = BenchmarkClients(run_seconds=1e9)
"""A run so long that its start does not count."""

steps = st.builds(
    StepModel,
    base_seconds=st.floats(1e-4, 0.1),
    per_sequence_seconds=st.floats(0, 1e-3),
    per_context_token_seconds=st.floats(0, 1e-6),
    per_prefill_token_seconds=st.floats(0, 1e-3),
    per_prefill_token_squared_seconds=st.floats(0, 1e-8),
    max_batch=st.integers(1, 300),
)
lengths_ = st.tuples(st.floats(1, 40_000), st.floats(0, 1), st.floats(1, 2_000)).map(
    lambda drawn: Lengths(drawn[0], drawn[0] * drawn[1], drawn[2])
)
schedulers = st.builds(Scheduler, tokens_per_step=st.integers(16, 70_000), chunked_prefill=st.booleans())


def means(point: Point) -> tuple[float, float, float]:
    ttft, itl, total = point.ttft.mean, point.itl.mean, point.end_to_end.mean
    assert ttft is not None
    assert itl is not None
    assert total is not None
    return ttft, itl, total


@given(step=steps, lengths=lengths_, concurrency=st.integers(1, 300), scheduler=schedulers)
def test_the_parts_add_up_to_end_to_end_and_little_holds(
    step: StepModel, lengths: Lengths, concurrency: int, scheduler: Scheduler
) -> None:
    point = predict(step, lengths, concurrency, scheduler)
    ttft, itl, total = means(point)

    assert 0 < ttft <= total * (1 + 1e-9)
    assert total == pytest.approx(ttft + lengths.decode_steps * itl, rel=1e-6)
    assert total == pytest.approx(1000 * concurrency / point.requests_per_second, rel=1e-6)
    for latency in (point.ttft, point.itl, point.end_to_end):
        ordered = [latency.p50, latency.p90, latency.p95, latency.p99]
        assert ordered == sorted(ordered, key=float)  # type: ignore[arg-type]  # none is missing


@given(step=steps, lengths=lengths_, concurrency=st.integers(1, 300))
def test_one_more_client_never_lowers_throughput_or_end_to_end(
    step: StepModel, lengths: Lengths, concurrency: int
) -> None:
    now, more = (throughput(step, lengths, c) for c in (concurrency, concurrency + 1))

    assert more >= now * (1 - 1e-9)
    assert (concurrency + 1) / more >= concurrency / now * (1 - 1e-9)


def test_a_request_alone_waits_for_its_own_prefill_and_nothing_else() -> None:
    ttft, _, _ = means(predict(STEP, LENGTHS, 1, Scheduler()))

    assert ttft == pytest.approx(1000 * STEP.base_seconds + PREFILL_MS, rel=0.01)


@pytest.mark.parametrize("concurrency", [3, 6, 12])
def test_of_a_burst_the_first_is_served_alone_and_the_others_together(concurrency: int) -> None:
    """The pattern that NIM shows: 1 + (c-1) prompts, the latter after both steps."""
    ttft = predict(STEP, LENGTHS, concurrency, Scheduler(), ENDLESS).ttft

    first = 6 + PREFILL_MS
    last = 2 * 6 + concurrency * PREFILL_MS
    assert ttft.mean == pytest.approx((first + (concurrency - 1) * last) / concurrency, rel=0.05)
    assert ttft.p95 == pytest.approx(last, rel=0.05)


def test_a_budget_of_prompt_tokens_bounds_how_long_the_others_stall_a_prompt() -> None:
    """In the long run a group waits for its own step and the one before it, whatever the concurrency."""
    eight_prompts = Scheduler(tokens_per_step=16_000)

    ttft = predict(STEP, LENGTHS, 200, eight_prompts, ENDLESS).ttft

    decode = 1000 * STEP.decode_seconds(192, 192 * LENGTHS.context_tokens)
    assert ttft.p50 == pytest.approx(2 * (8 * PREFILL_MS + decode), rel=0.05)
    assert predict(STEP, LENGTHS, 200, Scheduler(), ENDLESS).ttft.p50 > 1.5 * ttft.p50  # type: ignore[operator]


def test_a_short_run_counts_the_burst_at_its_start() -> None:
    short, long = (
        means(predict(STEP, LENGTHS, 200, Scheduler(16_000), BenchmarkClients(run_seconds=seconds)))[0]
        for seconds in (30, 3000)
    )

    assert short > 1.3 * long


def test_chunks_as_large_as_all_prompts_are_whole_prompts() -> None:
    for concurrency in (1, 4, 16):
        whole, chunked = (
            predict(STEP, LENGTHS, concurrency, Scheduler(1_000_000, chunked_prefill=chunks))
            for chunks in (False, True)
        )
        assert means(chunked) == pytest.approx(means(whole), rel=1e-6)


def test_a_prompt_in_chunks_takes_a_step_for_each() -> None:
    chunks = Scheduler(tokens_per_step=500, chunked_prefill=True)

    ttft, _, _ = means(predict(STEP, LENGTHS, 1, chunks))

    # 2000 tokens of 500 a step: four steps instead of one. The closed form of E2E counts no step but the decode's.
    alone = means(predict(STEP, LENGTHS, 1, Scheduler()))[0]
    assert ttft == pytest.approx(alone + 3 * 1000 * STEP.base_seconds, rel=0.05)


def test_above_the_batch_limit_the_queue_is_in_the_first_token() -> None:
    step = replace(STEP, max_batch=8)

    at_limit, above = (means(predict(step, LENGTHS, c, Scheduler())) for c in (8, 32))

    assert above[1] == pytest.approx(at_limit[1], rel=0.2)
    assert above[0] > 0.7 * above[2]


def test_the_same_question_has_the_same_answer() -> None:
    first, again = (predict(STEP, LENGTHS, 37, Scheduler()) for _ in range(2))

    assert first == again


def test_a_prompt_of_a_pipeline_passes_every_stage_before_its_first_token() -> None:
    ttft, _, _ = means(predict(replace(STEP, pipeline_stages=4), LENGTHS, 1, Scheduler()))
    alone, _, _ = means(predict(STEP, LENGTHS, 1, Scheduler()))

    assert ttft > alone + 2 * PREFILL_MS


def test_every_percentile_is_given() -> None:
    point = predict(STEP, LENGTHS, 20, Scheduler())

    assert np.isfinite([getattr(point.ttft, name) for name in Latency.__dataclass_fields__]).all()
