"""A replica that is driven from outside runs on the kernel of `simulate`: the same arrivals, the same times."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_sizing.simulation import KvAdmission, Requests, Settings, simulate
from firsttoken_sizing.simulation.online import OnlineReplica
from firsttoken_sizing.simulation.online_requests import Request
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Batching
from tests.fixtures.hypothesis_scale import examples
from tests.sizing.simulation.strategies import Case, cases

STEP = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10)


@dataclass
class Tally:
    """Sums of what an observer is told."""

    tokens: int = 0
    itl_seconds: float = 0.0
    events: list[float] = field(default_factory=list)

    def prefilled(self, request: Request) -> None:
        self.tokens += 1
        self.events.append(request.first_token)

    def decoded(self, steps: int, requests: int, first_seconds: float, growth_seconds: float) -> None:
        self.tokens += steps * requests
        self.itl_seconds += requests * (steps * first_seconds + growth_seconds * steps * (steps - 1) / 2)

    def finished(self, request: Request) -> None:
        self.events.append(request.finish)


def played(case: Case, looks: list[float]) -> tuple[list[Request], Tally]:
    """Every request submitted at its arrival, with looks at the replica in between."""
    step, requests, how = case
    tally = Tally()
    replica = OnlineReplica(step, how, observer=tally)
    columns = (requests.arrival_s, requests.input_tokens, requests.uncached_input_tokens, requests.output_tokens)
    served: list[Request] = []
    for number, (arrival, prompt, uncached, output) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        served.append(replica.submit(arrival, prompt, output, cached_tokens=prompt - uncached))
        following = float(requests.arrival_s[number + 1]) if number + 1 < len(requests) else arrival + 5
        for look in looks:
            moment = arrival + look * (following - arrival)
            replica.advance(moment)
            replica.report()
            tokens = sum(replica.tokens_generated(request) for request in served)
            if how.batching is Batching.STATIC:  # told at the end of the batch, which is when its slots are free
                assert tokens >= tally.tokens or step.pipeline_stages > 1
            elif step.pipeline_stages == 1:  # else what the observer is told leaves the first stage only
                assert tokens == tally.tokens
                assert replica.running + replica.waiting == replica.in_flight
            assert replica.running <= step.max_batch
            assert 0 <= replica.kv_used_tokens <= (how.kv_cache_tokens or math.inf)
            if moment < following:
                event = replica.next_event_seconds()
                assert (event is None) == (replica.in_flight == 0)
                assert event is None or event > moment
    replica.advance(math.inf)
    assert replica.in_flight == replica.kv_used_tokens == 0
    assert replica.preemptions == sum(request.preemptions for request in served)
    return served, tally


@settings(max_examples=examples(200))
@given(cases(), st.sampled_from([1, 3]), st.lists(st.floats(0, 1, exclude_max=True), max_size=4).map(sorted))
def test_every_time_is_exactly_that_of_the_simulation_of_the_whole_list(
    case: Case, stages: int, looks: list[float]
) -> None:
    step, requests, how = replace(case[0], pipeline_stages=stages), case[1], case[2]
    outcome = simulate(step, requests, how)

    served, tally = played((step, requests, how), looks)

    assert [r.admitted for r in served] == outcome.admitted_s.tolist()
    assert [r.first_token for r in served] == outcome.first_token_s.tolist()
    assert [r.finish for r in served] == outcome.finish_s.tolist()
    assert [r.preemptions for r in served] == outcome.preemptions.tolist()
    assert [r.queued for r in served] == outcome.queued.tolist()
    assert tally.tokens == requests.output_tokens.sum()
    assert tally.events == sorted(tally.events)
    if stages == 1:
        assert tally.itl_seconds == pytest.approx((outcome.finish_s - outcome.first_token_s).sum(), rel=1e-9, abs=1e-9)


def test_so_it_is_where_caches_are_taken_away() -> None:
    rng = np.random.default_rng(3)
    prompt = rng.integers(50, 150, 60)
    requests = Requests(np.cumsum(rng.exponential(0.02, 60)), prompt, prompt, rng.integers(100, 300, 60))
    for batching in (Batching.IN_FLIGHT, Batching.CHUNKED_PREFILL):
        how = Settings(batching, kv_cache_tokens=1200, kv_admission=KvAdmission.PAGED)

        served, tally = played((STEP, requests, how), [0.3, 0.9])

        outcome = simulate(STEP, requests, how)
        assert outcome.preemptions.sum() > 10
        assert [r.finish for r in served] == outcome.finish_s.tolist()
        assert tally.itl_seconds == pytest.approx((outcome.finish_s - outcome.first_token_s).sum(), rel=1e-9)


def served_by(replica: OnlineReplica) -> Request:
    request = replica.submit(2e6, 100, 20)
    replica.advance(math.inf)
    return request


@settings(max_examples=examples(200))
@given(cases(), st.data())
def test_whatever_is_aborted_the_others_are_served_and_nothing_stays_behind(case: Case, data: st.DataObject) -> None:
    step, requests, how = case
    replica = OnlineReplica(step, how)
    columns = (requests.arrival_s, requests.input_tokens, requests.output_tokens)
    served: list[Request] = []
    for arrival, prompt, output in zip(*(c.tolist() for c in columns), strict=True):
        served.append(replica.submit(arrival, prompt, output))
        if data.draw(st.booleans()):
            replica.advance(arrival + data.draw(st.sampled_from([0.0, 0.001, 0.1])))
            replica.abort(served[data.draw(st.integers(0, len(served) - 1))])
    asked = requests.output_tokens.tolist()
    replica.advance(1e6)

    assert all(request.is_done for request in served)
    assert replica.in_flight == replica.running == replica.waiting == replica.kv_used_tokens == 0
    for request, tokens in zip(served, asked, strict=True):
        assert (request.finish_reason == "abort") == request.is_aborted
        assert request.output <= tokens if request.is_aborted else request.output == tokens
        if not request.is_aborted:
            assert request.arrival <= request.admitted < request.first_token <= request.finish
    # What was reserved is free: a last request is alone.
    last, alone = (served_by(r) for r in (replica, OnlineReplica(step, how)))
    assert last.finish == alone.finish
