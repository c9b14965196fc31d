from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.clients import VariedClients
from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.performance.closed_loop import CLIENTS, predict, throughput
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.step import StepModel

STEP = StepModel(
    base_seconds=0.008,
    per_sequence_seconds=5e-5,
    per_context_token_seconds=3e-8,
    per_prefill_token_seconds=2e-5,
    per_prefill_token_squared_seconds=0.0,
    max_batch=256,
)
LENGTHS = Lengths(1000, 1000, 500)
VARIED = VariedClients(front_end_seconds=0.1)
NO_FRONT_END = replace(VARIED, front_end_seconds=0.0)


def ttft(concurrency: int, clients: VariedClients = VARIED, step: StepModel = STEP) -> float:
    mean = predict(step, LENGTHS, concurrency, Scheduler(8192), clients).ttft.mean
    assert mean is not None
    return mean


def test_a_request_alone_is_told_alike_whatever_the_clients() -> None:
    alike = predict(STEP, LENGTHS, 1, Scheduler(8192), CLIENTS)
    varied = predict(STEP, LENGTHS, 1, Scheduler(8192), VARIED)

    assert varied.ttft.mean == pytest.approx(alike.ttft.mean, rel=0.02)
    assert varied.end_to_end.mean == pytest.approx(alike.end_to_end.mean)


@pytest.mark.parametrize("concurrency", [4, 16, 64, 256])
def test_throughput_and_end_to_end_are_those_of_the_closed_form(concurrency: int) -> None:
    point = predict(STEP, LENGTHS, concurrency, Scheduler(8192), VARIED)
    rate = throughput(STEP, LENGTHS, concurrency)

    assert point.requests_per_second == rate
    assert point.end_to_end.mean == pytest.approx(1000 * concurrency / rate)
    assert point.ttft.mean is not None
    assert point.itl.mean is not None
    assert point.end_to_end.mean == pytest.approx(point.ttft.mean + point.itl.mean * LENGTHS.decode_steps)


def test_the_first_token_of_those_out_of_step_is_worked_out_by_hand() -> None:
    """With 2 clients the other decodes: its step, half of the rest of the running one on average, and the prompt."""
    rate = throughput(STEP, LENGTHS, 2)
    decode = 0.008 + 5e-5 + 3e-8 * LENGTHS.context_tokens
    gap = decode / (1 - rate * 0.02) / 2
    later = gap / 2 + decode + 0.02 * (1 + rate * gap) + 0.05
    first = 0.008 + 0.02 * 1.5

    assert ttft(2) == pytest.approx(1000 * (first / 8 + later * 7 / 8), rel=1e-3)


def test_prompts_wait_for_each_other_in_the_first_round_only() -> None:
    alike = predict(STEP, LENGTHS, 128, Scheduler(32768), CLIENTS).ttft.mean
    assert alike is not None

    assert ttft(128, NO_FRONT_END) < alike / 2


def test_more_clients_never_wait_less_and_beyond_the_batch_they_wait_for_a_slot() -> None:
    small = replace(STEP, max_batch=64)
    waits = [ttft(c, step=small) for c in (1, 2, 4, 8, 32, 64, 65, 96, 128)]

    assert all(less <= more for less, more in pairwise(waits))
    assert waits[-1] > 1000 * 64 / throughput(small, LENGTHS, 128) * 0.8


def test_a_prompt_in_chunks_waits_for_as_many_steps() -> None:
    long = Lengths(20_000, 20_000, 500)
    whole, chunked = (
        predict(STEP, long, 8, Scheduler(8192, chunked_prefill=chunks), NO_FRONT_END).ttft.mean
        for chunks in (False, True)
    )

    assert whole is not None
    assert chunked is not None
    assert chunked > whole + 2 * 8


def test_an_engine_that_looks_for_requests_now_and_then_keeps_them_waiting_for_longer_the_fuller_it_is() -> None:
    unseen = replace(VARIED, steps_unseen=16)
    waits = [ttft(c, unseen) - ttft(c) for c in (1, 16, 256)]

    assert waits[0] == 0
    assert 16 * 8 * 15 / 16 * 7 / 8 < waits[1] < waits[2]


def test_answers_of_one_token_take_the_whole_round() -> None:
    point = predict(STEP, Lengths(1000, 1000, 1), 16, Scheduler(8192), VARIED)

    assert point.end_to_end.mean == pytest.approx(point.ttft.mean)
    assert point.itl.mean == 0


@pytest.mark.parametrize("engine", Engine)
def test_current_releases_were_measured_with_varied_lengths_and_those_of_2024_with_equal_ones(engine: Engine) -> None:
    for release in engine.spec.releases:
        assert (release.varied_clients is None) is release.is_old
