"""A tick ends by its deadlines, whatever hangs: a restart would not help, and what waits to be decided waits longer.

That writes that hang are given up shows test_writes_have_a_budget, and that lists of rendered objects are
test_a_new_deployment_takes_no_more_than_its_pool_has.
"""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler

import pytest

from firsttoken_operator.families import FAMILY, VLLM
from firsttoken_operator.observe.prometheus import query_deadline_seconds
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.health import Heartbeats
from firsttoken_operator.run.measuring import Measuring
from firsttoken_operator.run.process import write_deadline_seconds
from firsttoken_operator.run.rendering import STATES_SECONDS
from firsttoken_operator.run.settings import Settings
from tests.operator.observe.bodies import EPOCH, deployment, inference_deployment
from tests.operator.observe.fault_server import FaultServer, document, vector

ROUNDS = 2
"""Rounds of questions to a Prometheus, one after the other: which families there are, then what they say."""
TICKS = [0.5, 1, 5, 10, 12, 15, 17, 20, 30, 60, 300]
COMPUTING_SHARE = 0.15
"""Share of the allowed time, for what a tick computes while it waits for nothing."""


@pytest.mark.parametrize("tick_seconds", TICKS)
def test_all_that_a_tick_waits_for_is_over_in_time(tick_seconds: float) -> None:
    questions = ROUNDS * query_deadline_seconds(tick_seconds)
    longest = questions + STATES_SECONDS + write_deadline_seconds(tick_seconds)
    allowed = Heartbeats(tick_seconds, 0.0).allowed_seconds

    # The one before ended at once, so that this one began a whole interval later.
    assert tick_seconds + longest <= (1 - COMPUTING_SHARE) * allowed


@pytest.mark.parametrize("tick_seconds", TICKS)
def test_no_decision_is_older_than_three_intervals(tick_seconds: float) -> None:
    acting = STATES_SECONDS + write_deadline_seconds(tick_seconds)
    between = max(tick_seconds, acting) + ROUNDS * query_deadline_seconds(tick_seconds)

    assert between <= (1 - COMPUTING_SHARE) * max(3 * tick_seconds, 45.0)


async def test_a_source_that_hangs_at_its_second_round_ends_it_by_its_deadline() -> None:
    store = Store()
    store.feed("Deployment", None, deployment())
    store.feed("InferenceDeployment", None, inference_deployment())
    pods, first_round = document(vector(({FAMILY: VLLM.name}, "1"))), 2

    def answer(request: BaseHTTPRequestHandler) -> None:
        if len(source.requests) > first_round:
            source.stopping.wait(30)
        pods(request)

    with FaultServer(answer) as source:
        settings = Settings.model_validate({"tickSeconds": 2.0, "prometheus": {"default": {"url": source.url}}})
        measuring = Measuring(settings)
        began = time.monotonic()
        await measuring.metrics(store, EPOCH)
        seconds = time.monotonic() - began
        measuring.close()

    assert len(source.requests) > first_round, "it came to a second round"
    assert seconds < ROUNDS * query_deadline_seconds(2.0) + 5.0
