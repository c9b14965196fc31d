"""Laws that hold for any queue, and the sizing model's own closed loop, on one engine."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.performance.closed_loop import predict
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.simulation.fleet import Settings
from firsttoken_sizing.simulation.online import OnlineReplica
from firsttoken_sizing.simulation.online_requests import Request, RequestTooLarge
from firsttoken_sizing.step.model import StepModel

MODEL = StepModel(0.0057, 2e-5, 9.2e-8, 1.45e-5, 1e-10, max_batch=64)


@pytest.mark.parametrize("rate", [1.0, 5.0, 9.0])
def test_mean_number_in_flight_is_arrival_rate_times_mean_time_in_the_system(rate):
    rng = np.random.default_rng(7)
    arrivals = np.cumsum(rng.exponential(1 / rate, 3000))
    engine = OnlineReplica(MODEL)
    outputs = rng.integers(1, 400, len(arrivals)).tolist()
    requests: list[Request] = []
    looks = np.linspace(0, arrivals[-1], 20_001)[1:]
    counted, due = [], 0
    for look in looks:
        while due < len(arrivals) and arrivals[due] <= look:
            requests.append(engine.submit(float(arrivals[due]), 2000, outputs[due]))
            due += 1
        engine.advance(float(look))
        counted.append(engine.in_flight)
    engine.advance(float("inf"))
    mean_time = np.mean([request.end_to_end_seconds for request in requests])

    assert np.mean(counted) == pytest.approx(len(requests) / arrivals[-1] * mean_time, rel=0.02)


@pytest.mark.parametrize("concurrency", [1, 2, 5, 10, 25, 50])
def test_closed_loop_agrees_with_the_sizing_model(concurrency):
    rng = np.random.default_rng(3)
    clients = [(float(rng.exponential(0.002)), number) for number in range(concurrency)]
    heapq.heapify(clients)
    finished: list[Request] = []

    class Loop:
        def prefilled(self, request):
            pass

        def decoded(self, *_):
            pass

        def finished(self, request):
            finished.append(request)
            heapq.heappush(clients, (request.finish + float(rng.exponential(0.002)), len(finished)))

    engine = OnlineReplica(MODEL, observer=Loop())
    while len(finished) < 30 * concurrency:
        boundary = engine.next_event_seconds()
        if clients and (boundary is None or clients[0][0] < boundary):
            engine.submit(heapq.heappop(clients)[0], 2000, 200)
        else:
            engine.advance(boundary)
    settled = finished[10 * concurrency :]
    rate = len(settled) / (settled[-1].finish - finished[10 * concurrency - 1].finish)
    expected = predict(MODEL, Lengths(2000, 2000, 200), concurrency, Scheduler())

    assert rate == pytest.approx(expected.requests_per_second, rel=0.02)
    assert 1000 * np.mean([s.ttft_seconds for s in settled]) == pytest.approx(expected.ttft.mean, rel=0.05)
    assert 1000 * np.mean([s.itl_seconds for s in settled]) == pytest.approx(expected.itl.mean, rel=0.03)


def test_a_request_that_cannot_fit_an_empty_cache_is_refused():
    engine = OnlineReplica(MODEL, Settings(kv_cache_tokens=1000))
    with pytest.raises(RequestTooLarge, match="900 input \\+ 200 output tokens exceed the KV cache of 1000 tokens"):
        engine.submit(0.0, 900, 200)
    assert engine.in_flight == 0


def test_an_aborted_request_leaves_at_the_end_of_the_step_and_frees_its_space():
    engine = OnlineReplica(MODEL, Settings(kv_cache_tokens=5000))
    first, second = engine.submit(0.0, 2000, 200), engine.submit(0.0, 2500, 400)
    engine.advance(0.2)
    assert (engine.running, engine.waiting) == (1, 1), "the second does not fit beside the first"

    engine.abort(first)
    engine.advance(0.2 + 0.01)

    assert first.is_aborted
    assert first.finish < 0.21
    assert 1 < first.output < 200
    assert (engine.running, engine.waiting) == (1, 0)
    engine.advance(100)
    assert engine.tokens_generated(second) == 400
    assert engine.kv_used_tokens == 0


def test_a_killed_engine_returns_everything_unfinished():
    engine = OnlineReplica(MODEL)
    requests = [engine.submit(0.01 * number, 2000, 200) for number in range(5)]
    engine.advance(0.045)

    assert engine.drop_all() == requests
    assert engine.in_flight == engine.kv_used_tokens == 0


def test_cached_prompt_tokens_are_attended_to_but_not_computed_and_fill_the_cache():
    cold, warm = OnlineReplica(MODEL), OnlineReplica(MODEL)
    a, b = cold.submit(0.0, 2000, 10), warm.submit(0.0, 2000, 10, cached_tokens=1500)
    cold.advance(1)
    warm.advance(1)

    assert b.ttft_seconds == pytest.approx(MODEL.base_seconds + MODEL.prefill_seconds(500, 1500))
    assert a.ttft_seconds == pytest.approx(MODEL.base_seconds + MODEL.prefill_seconds(2000))
    assert a.itl_seconds == pytest.approx(b.itl_seconds), "decoding reads the whole context either way"
