"""Static batching: the closed form, what waiting for a batch costs, and the simulation as judge of both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_sizing.performance import closed_loop
from firsttoken_sizing.performance.batch_service import longest_multiple
from firsttoken_sizing.performance.lengths import Lengths, lengths_of
from firsttoken_sizing.performance.static_batch import (
    batch_seconds,
    predict_static,
    predict_static_poisson,
    static_capacity,
    static_saturation_rate,
)
from firsttoken_sizing.simulation import Settings, drawn_requests, poisson_arrivals, simulate
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Batching, Workload
from tests.fixtures.hypothesis_scale import examples

STEP = StepModel(7e-3, 2e-5, 8e-9, 2e-5, 1e-10, max_batch=32)
EQUAL = Lengths(2000, 2000, 200)
SPREAD = lengths_of(Workload(500, 100, input_tokens_p99=1500, output_tokens_p99=350))


def test_a_batch_is_its_prompts_and_then_its_longest_answer() -> None:
    prompt = 2e-5 * 2000 + 1e-10 * 2000**2
    token = 7e-3 + 2e-5 * 8 + 8e-9 * 8 * 2100
    point = predict_static(STEP, EQUAL, 8)

    assert point.ttft.mean == pytest.approx(1000 * (7e-3 + 8 * prompt))
    assert point.itl.mean == pytest.approx(1000 * token)
    assert point.end_to_end.mean == pytest.approx(1000 * (7e-3 + 8 * prompt + 199 * token))
    assert point.requests_per_second == pytest.approx(8 / batch_seconds(STEP, EQUAL, 8))


def test_the_longest_of_many_is_longer_than_the_longest_of_few() -> None:
    longest = [longest_multiple(SPREAD.output_spread, n) for n in (1, 2, 8, 64)]

    assert longest[0] == pytest.approx(1)
    assert longest == sorted(longest)
    drawn = np.random.default_rng(1).choice(
        SPREAD.output_spread.multiples, p=np.array(SPREAD.output_spread.shares), size=(20_000, 8)
    )
    assert longest[2] == pytest.approx(drawn.max(axis=1).mean(), rel=0.02)


def test_cached_prompt_tokens_save_prefill_but_not_context() -> None:
    cached = replace(EQUAL, uncached_input_tokens=500)

    assert predict_static(STEP, cached, 8).itl == predict_static(STEP, EQUAL, 8).itl
    assert predict_static(STEP, cached, 8).ttft.mean < 0.4 * predict_static(STEP, EQUAL, 8).ttft.mean  # type: ignore[operator]


@pytest.mark.parametrize("lengths", [EQUAL, SPREAD], ids=["equal lengths", "spread lengths"])
@pytest.mark.parametrize("load", [0.3, 0.8])
def test_under_poisson_arrivals_the_simulation_agrees(lengths: Lengths, load: float) -> None:
    rate = load * static_saturation_rate(STEP, lengths, 32)
    rng = np.random.default_rng(7)
    outcome = simulate(
        STEP, drawn_requests(lengths, poisson_arrivals(rate, 60_000, rng), rng), Settings(batching=Batching.STATIC)
    )
    point = predict_static_poisson(STEP, lengths, 32, rate)
    kept = slice(6000, None)

    assert point.ttft.mean == pytest.approx(1000 * outcome.ttft_s[kept].mean(), rel=0.08)
    assert point.ttft.p95 == pytest.approx(1000 * np.quantile(outcome.ttft_s[kept], 0.95), rel=0.08)
    assert point.end_to_end.p95 == pytest.approx(1000 * np.quantile(outcome.end_to_end_s[kept], 0.95), rel=0.08)


def test_in_flight_batching_serves_more_than_static_where_lengths_are_spread() -> None:
    assert closed_loop.throughput(STEP, SPREAD, 32) > 1.5 * static_saturation_rate(STEP, SPREAD, 32)


@pytest.mark.slow
def test_the_capacity_keeps_the_limit_and_a_little_more_breaks_it() -> None:
    def meets_limit(point: object) -> bool:
        return point.ttft.p95 <= 3000  # type: ignore[attr-defined,no-any-return]

    capacity = static_capacity(STEP, EQUAL, 32, meets_limit)

    assert 0 < capacity < static_saturation_rate(STEP, EQUAL, 32)
    assert meets_limit(predict_static_poisson(STEP, EQUAL, 32, capacity))
    assert not meets_limit(predict_static_poisson(STEP, EQUAL, 32, 1.02 * capacity))
    assert static_capacity(STEP, EQUAL, 32, lambda _: False) == 0


@settings(max_examples=examples(15))
@given(st.floats(0.05, 0.9), st.floats(1.02, 1.09))
def test_more_load_never_shortens_the_wait(load: float, more: float) -> None:
    rate = load * static_saturation_rate(STEP, EQUAL, 32)
    low, high = (predict_static_poisson(STEP, EQUAL, 32, r) for r in (rate, more * rate))

    assert low.ttft.mean is not None
    assert high.ttft.mean is not None
    # One batch that forms differently moves single requests, so the mean of all is compared, with 2 % of room.
    assert high.ttft.mean >= 0.98 * low.ttft.mean
