from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.simulation import KvAdmission, Requests, Settings, equal_requests, poisson_arrivals, simulate
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Batching, Routing

LLAMA_8B = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10)
CHAT = Lengths(500, 500, 200)


def chat(rate: float, count: int = 4000) -> Requests:
    return equal_requests(CHAT, poisson_arrivals(rate, count, np.random.default_rng(21)))


def test_in_flight_batching_answers_sooner_than_static() -> None:
    requests = chat(20.0)

    in_flight = simulate(LLAMA_8B, requests)
    static = simulate(LLAMA_8B, requests, Settings(batching=Batching.STATIC))

    assert 5 * in_flight.ttft_s.mean() < static.ttft_s.mean()
    assert in_flight.end_to_end_s.mean() < static.end_to_end_s.mean()


def test_a_static_batch_holds_its_slots_until_its_longest_request_is_done() -> None:
    tokens = np.array([10, 10, 10])
    requests = Requests(np.zeros(3), tokens, tokens, np.array([5, 50, 500]))

    outcome = simulate(LLAMA_8B, requests, Settings(batching=Batching.STATIC))

    assert (np.diff(outcome.finish_s) > 0).all()
    assert (outcome.released_s == outcome.finish_s[2]).all()


def test_chunks_spare_those_who_decode_while_a_long_prompt_comes() -> None:
    prompt = np.array([100, 30_000])
    requests = Requests(np.array([0.0, 0.1]), prompt, prompt, np.array([30, 2]))

    whole = simulate(LLAMA_8B, requests)
    chunked = simulate(
        LLAMA_8B, requests, Settings(batching=Batching.CHUNKED_PREFILL, scheduler=Scheduler(tokens_per_step=1024))
    )

    # Its steps are no longer than a chunk, so the running request makes tokens meanwhile; the prompt pays for it.
    assert chunked.finish_s[0] < whole.finish_s[0]
    assert chunked.first_token_s[1] > whole.first_token_s[1]


def test_a_scheduler_with_chunks_is_chunked_prefill() -> None:
    requests = chat(20.0, 500)
    scheduler = Scheduler(tokens_per_step=600, chunked_prefill=True)

    by_scheduler = simulate(LLAMA_8B, requests, Settings(scheduler=scheduler))
    by_batching = simulate(
        LLAMA_8B,
        requests,
        Settings(batching=Batching.CHUNKED_PREFILL, scheduler=Scheduler(tokens_per_step=600)),
    )

    assert np.array_equal(by_scheduler.finish_s, by_batching.finish_s)


def test_taking_the_cache_as_tokens_are_made_runs_more_requests_at_once_than_reserving_it() -> None:
    lengths = Lengths(100, 100, 900)
    requests = equal_requests(lengths, np.zeros(100))
    settings = {way: Settings(kv_cache_tokens=20_000, kv_admission=way) for way in KvAdmission}

    reserved, paged = (simulate(LLAMA_8B, requests, settings[way]) for way in KvAdmission)

    assert reserved.preemptions.sum() == 0
    assert (reserved.admitted_s == 0).sum() == 20
    assert (paged.admitted_s == 0).sum() == 100
    assert paged.preemptions.sum() > 0


@pytest.mark.parametrize(
    ("slots", "kv_tokens", "queued"),
    [(2, None, [False, False, True]), (3, None, [False, False, False]), (3, 250, [False, False, True])],
    ids=["no slot is free", "all fit", "no KV cache is free"],
)
def test_queued_is_who_waits_for_more_than_the_running_step(
    slots: int, kv_tokens: int | None, queued: list[bool]
) -> None:
    tokens = np.full(3, 50)
    requests = Requests(np.array([0.0, 0.1, 0.2]), tokens, tokens, tokens)

    outcome = simulate(replace(LLAMA_8B, max_batch=slots), requests, Settings(kv_cache_tokens=kv_tokens))

    assert outcome.queued.tolist() == queued
    assert (outcome.waiting_s > 0.02).tolist() == queued


def test_the_least_loaded_replica_waits_less_than_a_random_one() -> None:
    requests = chat(60.0)
    waits = {
        routing: simulate(LLAMA_8B, requests, Settings(replicas=3, routing=routing)).ttft_s.mean()
        for routing in Routing
    }

    assert waits[Routing.LEAST_LOADED] < waits[Routing.ROUND_ROBIN] * 1.02
    assert waits[Routing.ROUND_ROBIN] < waits[Routing.RANDOM]


def test_every_replica_of_a_random_splitter_is_a_replica_by_itself() -> None:
    requests = chat(60.0, 600)

    fleet = simulate(LLAMA_8B, requests, Settings(replicas=4, seed=9))

    for replica in range(4):
        here = fleet.replica == replica
        own = simulate(LLAMA_8B, equal_requests(CHAT, requests.arrival_s[here]))
        assert own.finish_s == pytest.approx(fleet.finish_s[here], rel=1e-12)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (Settings(replicas=0), "replicas"),
        (Settings(scheduler=Scheduler(tokens_per_step=0)), "scheduler.tokens_per_step"),
        (Settings(kv_cache_tokens=699), "kv_cache_tokens"),
    ],
)
def test_settings_that_can_serve_no_request_are_refused(settings: Settings, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        simulate(LLAMA_8B, chat(1.0, 5), settings)
    assert refused.value.field == field


def test_a_model_whose_steps_take_no_time_is_refused() -> None:
    with pytest.raises(InvalidInput, match="takes no time"):
        simulate(StepModel(0, 0, 0, 1e-5, 0), chat(1.0, 5))
