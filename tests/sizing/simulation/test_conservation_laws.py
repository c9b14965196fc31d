from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.simulation import KvAdmission, Requests, Settings, client_pauses, equal_requests, simulate
from firsttoken_sizing.simulation.outcome import Outcome
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Batching, Routing
from tests.fixtures.hypothesis_scale import examples
from tests.sizing.simulation.strategies import Case, cases

STEP = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10, max_batch=16)


def most_at_once(begin: np.ndarray, end: np.ndarray) -> int:
    """Most of the intervals [begin, end) that hold one moment."""
    times = np.concatenate((end, begin))
    changes = np.repeat((-1, 1), len(begin))
    return int(np.cumsum(changes[np.argsort(times, kind="stable")]).max(initial=0))


@settings(max_examples=examples(100))
@given(cases(replicas=4))
def test_every_request_is_served_in_the_order_of_arrival_within_what_a_replica_holds(case: Case) -> None:
    step, requests, how = case

    outcome = simulate(step, requests, how)

    assert (requests.arrival_s <= outcome.admitted_s).all()
    assert (outcome.admitted_s < outcome.first_token_s).all()
    assert (outcome.first_token_s <= outcome.finish_s).all()
    assert (outcome.finish_s <= outcome.released_s * (1 + 1e-12)).all()
    for replica in range(how.replicas):
        here = outcome.replica == replica
        assert (np.diff(outcome.admitted_s[here]) >= 0).all()
        if not outcome.preemptions.any():
            assert most_at_once(outcome.admitted_s[here], outcome.released_s[here]) <= step.max_batch
    if how.kv_cache_tokens is not None:
        assert outcome.kv_reserved_peak_tokens.max() <= how.kv_cache_tokens
        assert outcome.kv_peak_tokens.max() <= outcome.kv_reserved_peak_tokens.max()


@settings(max_examples=examples(60))
@given(cases(replicas=4))
def test_the_batch_over_time_is_the_time_of_the_requests_in_it(case: Case) -> None:
    step, requests, how = case
    outcome = simulate(step, requests, replace(how, kv_admission=KvAdmission.RESERVED))

    in_the_batch = (outcome.released_s - outcome.admitted_s).sum()

    # Little's law, and no replica works longer than from the first arrival to the last answer.
    assert outcome.batch_seconds.sum() == pytest.approx(in_the_batch, rel=1e-9)
    assert outcome.busy_s.max() <= (outcome.released_s.max() - requests.arrival_s[0]) * (1 + 1e-9)


@settings(max_examples=examples(30))
@given(cases(replicas=4))
def test_the_same_question_has_the_same_answer(case: Case) -> None:
    first, second = simulate(*case), simulate(*case)

    assert np.array_equal(first.finish_s, second.finish_s)
    assert np.array_equal(first.replica, second.replica)


def test_what_is_counted_in_two_windows_is_what_is_counted_in_all() -> None:
    rng = np.random.default_rng(5)
    requests = equal_requests(Lengths(500, 500, 100), np.cumsum(rng.exponential(0.05, 200)))

    whole = simulate(STEP, requests)
    end = float(whole.released_s.max())
    parts = [
        simulate(STEP, requests, Settings(count_from_s=a, count_until_s=b)) for a, b in ((0.0, end / 3), (end / 3, end))
    ]

    assert sum(p.busy_s.sum() for p in parts) == pytest.approx(whole.busy_s.sum())
    assert sum(p.batch_seconds.sum() for p in parts) == pytest.approx(whole.batch_seconds.sum())
    assert [p.counted_s for p in parts] == pytest.approx([end / 3, end * 2 / 3])


def closed_loop(clients: int, count: int, how: Settings) -> Outcome:
    lengths = Lengths(500, 500, 100)
    pauses = client_pauses(count, np.random.default_rng(6))
    return simulate(STEP, equal_requests(lengths, pauses, clients), how)


@pytest.mark.parametrize("batching", Batching)
def test_a_closed_loop_never_has_more_requests_than_clients(batching: Batching) -> None:
    outcome = closed_loop(10, 300, Settings(batching=batching, replicas=3, routing=Routing.LEAST_LOADED))

    assert most_at_once(outcome.arrival_s, outcome.finish_s) == 10
    # Each of the later ones is sent a pause after some other one was answered.
    sent = np.sort(outcome.arrival_s[10:] - outcome.requests.arrival_s[10:])
    assert sent == pytest.approx(np.sort(outcome.finish_s)[: len(sent)], rel=1e-9)


def test_a_window_without_arrivals_counts_nothing() -> None:
    lengths = Lengths(100, 100, 10)

    outcome = simulate(STEP, equal_requests(lengths, np.array([0.0])), Settings(count_from_s=50.0))

    assert outcome.busy_s.sum() == 0.0
    assert outcome.counted_s == 0.0


def test_arrays_that_are_given_are_not_written_to() -> None:
    arrival = np.full(5, 0.1)
    requests = Requests(arrival, *(np.full(5, n) for n in (50, 50, 5)), concurrency=2)

    simulate(STEP, requests)

    assert (arrival == 0.1).all()
