from __future__ import annotations

import pytest

from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance import poisson
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import Point
from firsttoken_sizing.step import StepModel
from tests.fixtures.discrete_events import simulate

LLAMA_8B = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10)
LLAMA_70B = StepModel(14.8e-3, 5.5e-5, 2.3e-8, 4.9e-5, 4e-10)
CASES = {
    "8B, RAG, 40 % load": (LLAMA_8B, Lengths(2000, 2000, 200), 0.4),
    "8B, RAG, 80 % load": (LLAMA_8B, Lengths(2000, 2000, 200), 0.8),
    "8B, chat, 80 % load": (LLAMA_8B, Lengths(200, 200, 500), 0.8),
    "70B, chat, 60 % load": (LLAMA_70B, Lengths(500, 500, 300), 0.6),
    "70B, mostly prefill, 80 % load": (LLAMA_70B, Lengths(2000, 2000, 200), 0.8),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_ttft_and_end_to_end_agree(case: str) -> None:
    step, lengths, share = CASES[case]
    rate = share * poisson.saturation_rate(step, lengths)

    predicted = poisson.predict(step, lengths, rate)
    # A queue at high load forgets slowly: two runs of so many requests differ by a few percent themselves.
    ttft, total = simulate(step, lengths, rate, requests=int(100_000 * share), seed=7)

    assert predicted.ttft.mean == pytest.approx(ttft.mean, rel=0.04)
    assert predicted.ttft.p95 == pytest.approx(ttft.p95, rel=0.08)
    assert predicted.end_to_end.mean == pytest.approx(total.mean, rel=0.03)
    assert predicted.end_to_end.p95 == pytest.approx(total.p95, rel=0.07)
    assert predicted.end_to_end.p99 == pytest.approx(total.p99, rel=0.10)


def test_as_many_run_as_arrive_while_one_is_served() -> None:
    lengths = Lengths(2000, 2000, 200)
    rate = 0.7 * poisson.saturation_rate(LLAMA_8B, lengths)

    at = poisson.predict(LLAMA_8B, lengths, rate)

    assert at.concurrency is not None
    assert at.end_to_end.mean is not None
    assert at.concurrency == pytest.approx(rate * at.end_to_end.mean / 1000, rel=1e-6)


def test_a_request_that_is_alone_takes_one_prefill_step() -> None:
    lengths = Lengths(2000, 2000, 200)

    alone = poisson.predict(LLAMA_8B, lengths, 1e-4)

    assert alone.ttft.mean == pytest.approx(1000 * (LLAMA_8B.base_seconds + LLAMA_8B.prefill_seconds(2000)), rel=0.01)
    assert alone.itl.mean == pytest.approx(1000 * LLAMA_8B.decode_seconds(1, 2100), rel=0.01)


def test_waiting_for_a_slot_shows_in_ttft() -> None:
    lengths = Lengths(2000, 2000, 200)
    small = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10, max_batch=4)
    rate = 0.85 * poisson.saturation_rate(small, lengths)

    free, crowded = poisson.predict(LLAMA_8B, lengths, rate), poisson.predict(small, lengths, rate)
    ttft, _ = simulate(small, lengths, rate, requests=6000, seed=7)

    assert free.ttft.p95 is not None
    assert crowded.ttft.p95 is not None
    assert crowded.ttft.p95 > 5 * free.ttft.p95
    # With so few slots the chance to wait is overestimated, which errs on the safe side.
    assert ttft.p95 is not None
    assert 0.95 * ttft.p95 < crowded.ttft.p95 < 1.3 * ttft.p95


def test_itl_limit_gives_the_closed_form_rate() -> None:
    lengths = Lengths(2000, 2000, 200)

    def within(point: Point) -> bool:
        return (point.itl.mean or 0.0) <= 20

    capacity = poisson.capacity(LLAMA_8B, lengths, within)

    # ITL = (w0 + g) / (1 - rate / highest) solved for the rate.
    g = LLAMA_8B.decode_seconds(1, 2100) - LLAMA_8B.base_seconds
    highest = 1 / (LLAMA_8B.prefill_seconds(2000) + 199 * g)
    assert capacity == pytest.approx(highest * (1 - 1000 * (LLAMA_8B.base_seconds + g) / 20), rel=0.04)


def test_the_same_question_has_the_same_answer() -> None:
    lengths = Lengths(2000, 2000, 200)

    assert poisson.predict(LLAMA_8B, lengths, 9.0) == poisson.predict(LLAMA_8B, lengths, 9.0)


def test_capacity_never_exceeds_the_utilization_cap() -> None:
    lengths = Lengths(2000, 2000, 200)

    capacity = poisson.capacity(LLAMA_8B, lengths, lambda _: True)

    assert capacity == PARAMETERS.capacity.max_utilization * poisson.saturation_rate(LLAMA_8B, lengths)
    assert poisson.capacity(LLAMA_8B, lengths, lambda _: False) < 0.001
