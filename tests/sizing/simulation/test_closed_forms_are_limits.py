from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.performance import closed_loop
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.static_batch import batch_seconds, predict_static
from firsttoken_sizing.simulation import Settings, client_pauses, equal_requests, poisson_arrivals, simulate
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Batching

LLAMA_8B = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10)
RAG = Lengths(2000, 2000, 200)


def alone(step: StepModel, lengths: Lengths, settings: Settings) -> tuple[float, float]:
    """TTFT and E2E of one request on an idle replica, seconds."""
    outcome = simulate(step, equal_requests(lengths, np.array([3.0])), settings)
    return float(outcome.ttft_s[0]), float(outcome.end_to_end_s[0])


@pytest.mark.parametrize("batching", [Batching.IN_FLIGHT, Batching.STATIC])
def test_a_request_alone_takes_its_prefill_and_its_decode_steps(batching: Batching) -> None:
    ttft, end_to_end = alone(LLAMA_8B, RAG, Settings(batching=batching))

    assert ttft == pytest.approx(LLAMA_8B.base_seconds + LLAMA_8B.prefill_seconds(2000))
    assert end_to_end == pytest.approx(ttft + 199 * LLAMA_8B.decode_seconds(1, RAG.context_tokens))


def test_chunks_of_one_prompt_cost_its_whole_attention_and_a_step_each() -> None:
    how = Settings(batching=Batching.CHUNKED_PREFILL, scheduler=Scheduler(tokens_per_step=512))

    ttft, _ = alone(LLAMA_8B, RAG, how)

    assert ttft == pytest.approx(4 * LLAMA_8B.base_seconds + LLAMA_8B.prefill_seconds(2000))


def test_a_cached_prefix_saves_its_prefill_and_still_counts_as_context() -> None:
    half = Lengths(2000, 1000, 200)

    ttft, end_to_end = alone(LLAMA_8B, half, Settings())

    assert ttft == pytest.approx(LLAMA_8B.base_seconds + LLAMA_8B.prefill_seconds(1000.0, 1000.0))
    assert end_to_end - ttft == pytest.approx(199 * LLAMA_8B.decode_seconds(1, 2100))


def test_a_pipeline_delays_a_prompt_by_its_further_stages() -> None:
    ttft, end_to_end = alone(replace(LLAMA_8B, pipeline_stages=3), RAG, Settings())

    assert ttft == pytest.approx(LLAMA_8B.base_seconds + 3 * LLAMA_8B.prefill_seconds(2000))
    assert end_to_end == pytest.approx(ttft + 199 * LLAMA_8B.decode_seconds(1, 2100))


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_single_tokens_one_at_a_time_are_the_queue_of_pollaczek_and_khinchine(load: float) -> None:
    step, lengths = replace(LLAMA_8B, max_batch=1), Lengths(2000, 2000, 1)
    service = step.base_seconds + step.prefill_seconds(2000)
    arrivals = poisson_arrivals(load / service, 200_000, np.random.default_rng(11))

    outcome = simulate(step, equal_requests(lengths, arrivals))

    # M/D/1: the mean wait is rho / (1 - rho) / 2 services, and the server is busy a share rho of the time.
    assert outcome.waiting_s.mean() == pytest.approx(load / (1 - load) / 2 * service, rel=0.03)
    assert outcome.busy_s[0] / outcome.counted_s == pytest.approx(load, rel=0.01)
    # Queued are those who find two: one in service, whose end would not have let them in yet.
    assert outcome.queued.mean() == pytest.approx(1 - (1 - load) * math.exp(load), abs=0.01)


@pytest.mark.parametrize("clients", [1, 20, 100, 256])
@pytest.mark.parametrize("lengths", [RAG, Lengths(200, 200, 500)], ids=["2000/200", "200/500"])
def test_a_closed_loop_completes_what_its_formula_says(clients: int, lengths: Lengths) -> None:
    count = 30 * clients
    requests = equal_requests(lengths, client_pauses(count, np.random.default_rng(12)), clients)

    outcome = simulate(LLAMA_8B, requests, Settings(scheduler=Scheduler()))

    # Whole rounds, because equal requests are done in groups.
    finished = np.sort(outcome.finish_s)
    rate = 25 * clients / (finished[27 * clients - 1] - finished[2 * clients - 1])
    assert rate == pytest.approx(closed_loop.throughput(LLAMA_8B, lengths, clients), rel=0.03)


@pytest.mark.parametrize("batch", [1, 8, 64])
def test_static_batches_of_equal_requests_take_what_their_formula_says(batch: int) -> None:
    outcome = simulate(LLAMA_8B, equal_requests(RAG, np.zeros(batch)), Settings(batching=Batching.STATIC))

    predicted = predict_static(LLAMA_8B, RAG, batch)
    assert outcome.busy_s[0] == pytest.approx(batch_seconds(LLAMA_8B, RAG, batch))
    assert 1000 * outcome.ttft_s.mean() == pytest.approx(predicted.ttft.mean)
    assert 1000 * outcome.itl_s.mean() == pytest.approx(predicted.itl.mean)
