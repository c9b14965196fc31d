"""Queries of a `Collector` and the join of their answers: against a source that answers by query text."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping

import pytest

from firsttoken_operator.domain import Missing, Reason
from firsttoken_operator.families import (
    FAMILIES,
    FAMILY,
    NIM1,
    SIGNAL,
    SYMPTOM,
    VLLM,
    MetricFamily,
    Signal,
    Symptom,
    TokenPart,
    overview_query,
    symptoms_query,
)
from firsttoken_operator.observe.collect import Collector
from firsttoken_operator.observe.source import Sample, Vector

WINDOW_SECONDS, RECENT_SECONDS = 4.5, 3.0
POD = {"namespace": "ns", "pod": "a"}
OVERVIEW, SYMPTOMS = overview_query(FAMILIES, WINDOW_SECONDS), symptoms_query(FAMILIES)


def of(family: MetricFamily) -> str:
    """The query for its numbers."""
    return family.queries(WINDOW_SECONDS, RECENT_SECONDS)[0]


def bounds(family: MetricFamily) -> str:
    return family.queries(WINDOW_SECONDS, RECENT_SECONDS)[1]


class Script:
    """A `MetricsSource` that answers from a table; every other query with an empty vector."""

    def __init__(self, answers: Mapping[str, Vector | Missing]) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []

    async def query(self, promql: str) -> Vector | Missing:
        self.asked.append(promql)
        await asyncio.sleep(0)
        return self.answers.get(promql, Vector(()))


def one(value: float, **labels: str) -> Sample:
    return Sample({**POD, **labels}, value, 0.0)


def said(signal: Signal, value: float, **labels: str) -> Sample:
    return one(value, **{SIGNAL: signal.value}, **labels)


def there(*families: MetricFamily, up: tuple[Sample, ...] = ()) -> Vector:
    """The overview of a cluster with these families."""
    return Vector((*up, *(Sample({FAMILY: family.name}, 1.0, 0.0) for family in families)))


def collector(source: Script, now: list[float] | None = None) -> Collector:
    times = [0.0] if now is None else now
    return Collector(source, window_seconds=WINDOW_SECONDS, recent_seconds=RECENT_SECONDS, clock=lambda: times[-1])


async def test_a_cluster_without_series_costs_two_queries() -> None:
    source = Script({})

    reading = await collector(source).read()

    assert source.asked == [OVERVIEW, SYMPTOMS]
    assert (reading.pods, reading.up, reading.failures) == ({}, {}, ())


@pytest.mark.parametrize("pods", [1, 500])
async def test_a_family_costs_two_queries_whatever_the_number_of_pods(pods: int) -> None:
    samples = [Sample({"namespace": "ns", "pod": f"p{index}", SIGNAL: Signal.AGE}, 1.0, 0.0) for index in range(pods)]
    source = Script({OVERVIEW: there(NIM1), of(NIM1): Vector(tuple(samples))})

    reading = await collector(source).read()

    assert source.asked == [OVERVIEW, SYMPTOMS, of(NIM1), bounds(NIM1)]
    assert len(reading.pods) == pods


async def test_what_was_there_before_is_asked_for_at_once_and_what_is_new_in_the_same_tick() -> None:
    source = Script({OVERVIEW: there(NIM1), of(NIM1): Vector((said(Signal.AGE, 1.0),))})
    reader = collector(source)
    await reader.read()

    source.answers[OVERVIEW] = there(NIM1, VLLM)
    source.asked.clear()
    await reader.read()

    assert source.asked == [OVERVIEW, of(NIM1), bounds(NIM1), of(VLLM), bounds(VLLM)]


async def test_a_family_that_is_gone_is_asked_for_no_more() -> None:
    source = Script({OVERVIEW: there(NIM1, VLLM)})
    reader = collector(source)
    await reader.read()
    source.answers[OVERVIEW] = there(VLLM)
    await reader.read()
    source.asked.clear()
    await reader.read()

    assert source.asked == [OVERVIEW, of(VLLM), bounds(VLLM)]


async def test_where_the_overview_fails_what_was_there_is_read_on_and_pods_may_be_hidden() -> None:
    source = Script({OVERVIEW: there(NIM1), of(NIM1): Vector((said(Signal.AGE, 1.0),))})
    reader = collector(source)
    await reader.read()
    source.answers[OVERVIEW] = Missing(Reason.SERVER_ERROR, "HTTP 503")

    for _ in range(2):
        reading = await reader.read()

        assert set(reading.pods) == {("ns", "a")}
        assert [(failure.family, failure.hides_pods) for failure in reading.failures] == [("", True)]


async def test_an_overview_with_too_many_series_without_a_namespace_is_none() -> None:
    source = Script({OVERVIEW: there(NIM1), of(NIM1): Vector((said(Signal.AGE, 1.0),))})
    reader = collector(source)
    await reader.read()
    source.answers[OVERVIEW] = Vector((), overflowing=frozenset({""}))

    await reader.read()

    assert source.asked[-2:] == [of(NIM1), bounds(NIM1)]


async def test_how_pods_are_scraped_is_asked_once_a_window_and_remembered() -> None:
    symptoms = Vector((one(1.0, **{SYMPTOM: Symptom.TWICE}),))
    now = [0.0]
    source = Script({OVERVIEW: there(), SYMPTOMS: symptoms})
    reader = collector(source, now)

    seen = []
    for at in (0.0, WINDOW_SECONDS / 2, WINDOW_SECONDS):
        now.append(at)
        seen.append((await reader.read()).symptoms)

    assert seen == [{("ns", "a"): frozenset({Symptom.TWICE})}] * 3
    assert source.asked.count(SYMPTOMS) == 2
    now.append(2 * WINDOW_SECONDS)
    source.answers[SYMPTOMS] = Missing(Reason.SERVER_ERROR, "HTTP 503")
    assert (await reader.read()).symptoms == seen[0], "what explains is no part of the health"


async def test_a_window_with_a_fraction_is_written_in_milliseconds() -> None:
    assert not any(word in query for word in ("WINDOW", "RECENT") for query in (*map(of, FAMILIES), OVERVIEW))
    assert all("[4500ms]" in of(family) and "offset 4500ms" in of(family) for family in FAMILIES)


async def test_a_pod_that_exposes_two_families_belongs_to_the_first() -> None:
    source = Script(
        {
            OVERVIEW: there(VLLM, NIM1),
            of(VLLM): Vector((said(Signal.AGE, 1.0), said(Signal.RUNNING, 10.0))),
            of(NIM1): Vector((said(Signal.AGE, 2.0), said(Signal.RUNNING, 20.0))),
        }
    )

    reading = await collector(source).read()

    assert reading.pods["ns", "a"].family == "vLLM"
    assert reading.pods["ns", "a"].values == {Signal.AGE: 1.0, Signal.RUNNING: 10.0}
    assert reading.pods["ns", "a"].others == ("NIM 1.x",)


async def test_answers_are_joined_by_pod_and_numbers_are_left_as_they_came() -> None:
    samples = (
        said(Signal.AGE, 0.5),
        said(Signal.FIRST_TOKENS, math.inf),
        said(Signal.ENDED, 3.0, outcome="served"),
        said(Signal.ENDED, 1.0, outcome="failed"),
        said(Signal.TOKENS, 900.0, part="prompt tokens"),
        one(7.0, **{SIGNAL: "of another version"}),
        one(7.0),
    )
    buckets = said(Signal.TTFT_BUCKETS, 2.0, le="1.0"), said(Signal.TTFT_BUCKETS, 3.0, le="+Inf")
    overview = there(NIM1, up=(one(1.0),))
    source = Script({OVERVIEW: overview, of(NIM1): Vector(samples), bounds(NIM1): Vector(buckets)})

    reading = await collector(source).read()

    pod = reading.pods["ns", "a"]
    assert reading.up == {("ns", "a"): 1.0}
    assert pod.values == {Signal.AGE: 0.5, Signal.FIRST_TOKENS: math.inf}
    assert pod.buckets == {1.0: 2.0, math.inf: 3.0}
    assert (pod.ended_rate, pod.failed_rate) == (4.0, 1.0)
    assert pod.tokens == {TokenPart.PROMPT_TOKENS: 900.0}


async def test_failures_and_warnings_are_told_apart_and_do_not_hide_the_rest() -> None:
    partial = Vector((said(Signal.AGE, 0.5), said(Signal.RUNNING, 3.0)), warnings=("a store is gone",))
    unavailable = Missing(Reason.SERVER_ERROR, "HTTP 503")
    source = Script({OVERVIEW: there(VLLM, NIM1), of(VLLM): unavailable, of(NIM1): partial})

    reading = await collector(source).read()

    assert reading.pods["ns", "a"].values == {Signal.AGE: 0.5, Signal.RUNNING: 3.0}
    assert [(failure.family, failure.reason, failure.hides_pods) for failure in reading.failures] == [
        ("vLLM", Reason.SERVER_ERROR, True), ("NIM 1.x", Reason.PARTIAL_RESPONSE, False),
    ]  # fmt: skip
