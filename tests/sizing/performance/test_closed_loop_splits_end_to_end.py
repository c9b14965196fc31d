from __future__ import annotations

import pytest

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.performance.closed_loop import predict, round_seconds, throughput
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.step import StepModel, step_model
from tests.fixtures.worked_examples import CALL_CENTER_POINTS, LLAMA_8B_H100_FP8, call_center_profile

LENGTHS = Lengths(2000, 2000, 200)


@pytest.fixture(scope="module")
def step() -> StepModel:
    return step_model(LLAMA_8B_H100_FP8, [call_center_profile()], max_batch=256)[0]


@pytest.mark.parametrize("concurrency", CALL_CENTER_POINTS)
def test_measured_points_of_the_call_center_come_out(step: StepModel, concurrency: int) -> None:
    rate, ttft, itl = CALL_CENTER_POINTS[concurrency]

    point = predict(step, LENGTHS, concurrency, Scheduler())

    assert point.requests_per_second == pytest.approx(rate, rel=0.08)
    assert point.itl.mean == pytest.approx(itl, rel=0.12)
    # A request alone pays fixed costs that prompts of one step share; the fit spreads them over its prompt tokens.
    assert point.ttft.mean == pytest.approx(ttft, rel=0.3)


@pytest.mark.parametrize("concurrency", [1, 7, 40, 256])
def test_end_to_end_obeys_little_and_splits_exactly(step: StepModel, concurrency: int) -> None:
    point = predict(step, LENGTHS, concurrency, Scheduler())

    assert point.end_to_end.mean == pytest.approx(1000 * concurrency / point.requests_per_second, rel=0.02)
    assert point.ttft.mean is not None
    assert point.itl.mean is not None
    assert point.end_to_end.mean == pytest.approx(point.ttft.mean + 199 * point.itl.mean, rel=1e-6)


def test_above_the_batch_limit_throughput_stays_and_ttft_holds_the_queue() -> None:
    step = StepModel(6e-3, 3e-5, 7e-8, 1.5e-5, 0.0, max_batch=8)

    at_limit, above = (predict(step, LENGTHS, c, Scheduler()) for c in (8, 32))

    assert above.requests_per_second == pytest.approx(at_limit.requests_per_second)
    assert above.ttft.mean is not None
    assert above.end_to_end.mean is not None
    assert above.ttft.mean / above.end_to_end.mean > 0.6


def test_a_cached_prefix_saves_prefill_but_not_context() -> None:
    step = StepModel(6e-3, 3e-5, 7e-8, 1.5e-5, 0.0)
    cached = Lengths(2000, 500, 200)

    saved = round_seconds(step, LENGTHS, 10) - round_seconds(step, cached, 10)

    assert saved == pytest.approx(10 * 1500 * 1.5e-5)
    assert throughput(step, cached, 10) > throughput(step, LENGTHS, 10)


def test_one_output_token_has_no_decode() -> None:
    point = predict(StepModel(6e-3, 3e-5, 7e-8, 1.5e-5, 0.0), Lengths(2000, 2000, 1), 4, Scheduler())

    assert point.itl.mean == 0
    assert point.ttft.mean is not None
    assert point.ttft.mean > 0
