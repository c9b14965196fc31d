"""Queries of `collect` and the join of their answers: against a source that answers by query text."""

from __future__ import annotations

import asyncio
import math

import pytest

from firsttoken_operator.domain import Missing, Reason
from firsttoken_operator.families import DETECTION, FAMILIES, NIM1, UP_QUERY, VLLM, Signal, TokenPart
from firsttoken_operator.observe.collect import collect
from firsttoken_operator.observe.source import Sample, Vector

WINDOW_SECONDS, RECENT_SECONDS = 4.5, 3.0
POD = {"namespace": "ns", "pod": "a"}
DETECTING = 2 + len(DETECTION) * len(FAMILIES)
"""Queries whatever is found: what is up, how pods are scraped, and which of them have a family."""


class Script:
    """A `MetricsSource` that answers from a table; every other query with an empty vector."""

    def __init__(self, answers: dict[str, Vector | Missing]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def query(self, promql: str) -> Vector | Missing:
        self.asked.append(promql)
        await asyncio.sleep(0)
        return self.answers.get(promql, Vector(()))


def one(value: float, **labels: str) -> Vector:
    return Vector((Sample({**POD, **labels}, value, 0.0),))


def nim(signal: Signal) -> str:
    return NIM1.query(signal, WINDOW_SECONDS, RECENT_SECONDS)


def vllm(signal: Signal) -> str:
    return VLLM.query(signal, WINDOW_SECONDS, RECENT_SECONDS)


async def test_a_cluster_without_series_costs_only_the_detection() -> None:
    source = Script({})

    reading = await collect(source, window_seconds=WINDOW_SECONDS, recent_seconds=RECENT_SECONDS)

    assert len(source.asked) == DETECTING
    assert (reading.pods, reading.up, reading.failures) == ({}, {}, ())


@pytest.mark.parametrize("pods", [1, 500])
async def test_the_number_of_queries_does_not_depend_on_the_number_of_pods(pods: int) -> None:
    many = Vector(tuple(Sample({"namespace": "ns", "pod": f"p{index}"}, 1.0, 0.0) for index in range(pods)))
    source = Script({nim(Signal.AGE): many})

    reading = await collect(source, window_seconds=WINDOW_SECONDS, recent_seconds=RECENT_SECONDS)

    assert len(source.asked) == len(set(source.asked)) == DETECTING + len(NIM1.signals) - len(DETECTION)
    assert len(reading.pods) == pods


async def test_a_window_with_a_fraction_is_written_in_milliseconds() -> None:
    source = Script({})

    await collect(source, window_seconds=WINDOW_SECONDS, recent_seconds=RECENT_SECONDS)

    assert not any(word in query for word in ("WINDOW", "RECENT") for query in source.asked)
    assert sum("[4500ms]" in query for query in source.asked) == len(FAMILIES)
    assert sum("offset 4500ms" in query for query in source.asked) == len(FAMILIES)


async def test_a_pod_that_exposes_two_families_belongs_to_the_first() -> None:
    source = Script(
        {
            vllm(Signal.AGE): one(1.0), nim(Signal.AGE): one(2.0),
            vllm(Signal.RUNNING): one(10.0), nim(Signal.RUNNING): one(20.0),
        }
    )  # fmt: skip

    reading = await collect(source, window_seconds=WINDOW_SECONDS, recent_seconds=RECENT_SECONDS)

    assert reading.pods["ns", "a"].family == "vLLM"
    assert reading.pods["ns", "a"].values == {Signal.AGE: 1.0, Signal.RUNNING: 10.0}
    assert reading.pods["ns", "a"].others == ("NIM 1.x",)


async def test_answers_are_joined_by_pod_and_numbers_are_left_as_they_came() -> None:
    source = Script(
        {
            UP_QUERY: one(1.0),
            nim(Signal.AGE): one(0.5),
            nim(Signal.FIRST_TOKENS): one(math.inf),
            nim(Signal.TTFT_BUCKETS): Vector(
                (Sample({**POD, "le": "1.0"}, 2.0, 0), Sample({**POD, "le": "+Inf"}, 3.0, 0))
            ),
            nim(Signal.ENDED): Vector(
                (Sample({**POD, "outcome": "served"}, 3.0, 0), Sample({**POD, "outcome": "failed"}, 1.0, 0))
            ),
            nim(Signal.TOKENS): one(900.0, part="prompt tokens"),
        }
    )

    reading = await collect(source, window_seconds=WINDOW_SECONDS, recent_seconds=RECENT_SECONDS)

    pod = reading.pods["ns", "a"]
    assert reading.up == {("ns", "a"): 1.0}
    assert pod.values == {Signal.AGE: 0.5, Signal.FIRST_TOKENS: math.inf}
    assert pod.buckets == {1.0: 2.0, math.inf: 3.0}
    assert (pod.ended_rate, pod.failed_rate) == (4.0, 1.0)
    assert pod.tokens == {TokenPart.PROMPT_TOKENS: 900.0}


async def test_failures_and_warnings_are_told_apart_and_do_not_hide_the_rest() -> None:
    source = Script(
        {
            nim(Signal.AGE): one(0.5),
            nim(Signal.WAITING): Missing(Reason.SERVER_ERROR, "HTTP 503"),
            nim(Signal.RUNNING): Vector(one(3.0).samples, warnings=("a store is gone",)),
        }
    )

    reading = await collect(source, window_seconds=WINDOW_SECONDS, recent_seconds=RECENT_SECONDS)

    assert reading.pods["ns", "a"].values == {Signal.AGE: 0.5, Signal.RUNNING: 3.0}
    assert {(failure.signal, failure.reason) for failure in reading.failures} == {
        (Signal.WAITING, Reason.SERVER_ERROR), (Signal.RUNNING, Reason.PARTIAL_RESPONSE),
    }  # fmt: skip
    assert not any(failure.hides_pods for failure in reading.failures)
