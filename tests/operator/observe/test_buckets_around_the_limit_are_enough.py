"""Buckets around the limits: what is decided on them is what all buckets say, for a few of twenty numbers a pod."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.domain import Missing, Reason, TtftInterval
from firsttoken_operator.families import FAMILIES, FAMILY, NO_BOUND, SIGNAL, VLLM, Metric, Signal, overview_query
from firsttoken_operator.observe.bounds import MOST_BOUNDS, around, seconds_of
from firsttoken_operator.observe.collect import Collector, PodSample, SourceReading
from firsttoken_operator.observe.config import DEFAULT
from firsttoken_operator.observe.freshness import LivePod, MeasureSettings
from firsttoken_operator.observe.measure import measure
from firsttoken_operator.observe.source import Sample, Vector
from firsttoken_operator.observe.ttft import interval
from firsttoken_sizing.workload import Limit, Percentile

TIMES = {"window_seconds": 60.0, "recent_seconds": 40.0}
LIMIT = Limit(300.0, Percentile.P95)
BOUNDS = [*(f"{bound:g}" for bound in VLLM.series(Metric.TTFT).bounds), NO_BOUND]
LAYOUTS = st.lists(st.sampled_from([0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5]), unique=True, max_size=7)


def layout(*pods: Iterable[float]) -> dict[str, float]:
    """Answer of the query of the layouts, for pods with these bounds and one that holds all."""
    return dict(Counter(f"{bound:g}" for pod in pods for bound in pod) | {NO_BOUND: len(pods)})


def at_limits(known: Mapping[str, float], *milliseconds: float, unit_seconds: float = 1.0) -> list[float]:
    kept = around(known, [each / 1000 for each in milliseconds], unit_seconds)
    return sorted(float(bound) for bound in kept)


@pytest.mark.parametrize(
    ("limit", "pods", "kept"),
    [
        (300, [(0.1, 0.25, 0.5, 1)], [0.25, 0.5]),
        (250, [(0.1, 0.25, 0.5, 1)], [0.1, 0.25, 0.5]),
        (300, [(0.1, 0.25, 0.5), (0.1, 0.25, 0.3, 0.5)], [0.25, 0.3, 0.5]),
        (300, [(0.1, 0.5), (0.2, 0.5)], [0.1, 0.2, 0.5]),
        (50, [(0.1, 0.5)], [0.1]),
        (900, [(0.1, 0.5)], [0.5]),
        (300, [(0.1, 0.5, 1), ()], [0.1, 0.5, 1]),
    ],
)
def test_the_next_bounds_of_every_layout_are_asked_for(
    limit: float, pods: list[tuple[float, ...]], kept: list[float]
) -> None:
    assert at_limits(layout(*pods), limit) == [*kept, math.inf]


def test_a_bound_that_is_spelled_twice_is_asked_for_twice() -> None:
    kept = around({"0.5": 1, "0.50": 1, "1": 2, NO_BOUND: 2}, [0.6], 1.0)

    assert kept == {"0.5", "0.50", "1", NO_BOUND}


def test_histograms_in_milliseconds_have_bounds_in_milliseconds() -> None:
    assert at_limits(layout((100, 250, 500, 1000)), 300, unit_seconds=0.001) == [250, 500, math.inf]


@pytest.mark.parametrize("known", [{}, {"0.25": 3}, {f"{bound}": 1 for bound in range(MOST_BOUNDS)} | {NO_BOUND: 2}])
def test_where_the_layouts_are_not_known_or_too_many_all_is_asked_for(known: Mapping[str, float]) -> None:
    assert around(known, [50.0], 1.0) == frozenset()


def test_what_is_no_bound_is_not_asked_for() -> None:
    assert around({"nan": 2, "x": 2, "-1": 2, "0.5": 2, NO_BOUND: 2}, [0.3], 1.0) == {"0.5", NO_BOUND}


def test_half_and_twice_the_limit_tell_how_far_from_it_the_percentile_is() -> None:
    assert seconds_of([LIMIT]) == {0.15, 0.3, 0.6}
    assert seconds_of([None]) == seconds_of([Limit(300, Percentile.MEAN)]) == {0.25, 1.0, 4.0}


@given(
    layouts=st.lists(LAYOUTS, min_size=1, max_size=3),
    limits=st.lists(st.sampled_from([50, 150, 250, 299, 300, 600, 5000]), min_size=1, max_size=3),
    steps=st.lists(st.integers(0, 20), min_size=8, max_size=8),
    percentile=st.sampled_from([Percentile.P50, Percentile.P95]),
)
def test_what_is_decided_is_the_same_as_with_all_buckets(
    layouts: list[list[float]], limits: list[float], steps: list[int], percentile: Percentile
) -> None:
    declared = [Limit(milliseconds, percentile) for milliseconds in limits]
    asked = {float(bound) for bound in around(layout(*layouts), seconds_of(declared), 1.0)}
    for bounds in layouts:
        counts = [float(sum(steps[: place + 1])) for place in range(len(bounds) + 1)]
        whole = dict(zip([*sorted(bounds), math.inf], counts, strict=True))
        kept = {bound: rate for bound, rate in whole.items() if bound in asked}
        for limit in declared:
            full, few = (interval([pod(buckets)], limit, 60.0, DEFAULT.first_token) for buckets in (whole, kept))

            assert (full is None) == (few is None)
            if full is None or few is None:
                continue
            assert (few.late, few.requests, few.mean_milliseconds) == (full.late, full.requests, full.mean_milliseconds)
            assert (few.low_milliseconds > limit.milliseconds) == (full.low_milliseconds > limit.milliseconds)
            assert _is_inside(few.high_milliseconds, limit) == _is_inside(full.high_milliseconds, limit)


def _is_inside(high: float | None, limit: Limit) -> bool:
    return high is not None and high <= limit.milliseconds


def pod(buckets: Mapping[float, float]) -> PodSample:
    rate = max(buckets.values())
    return PodSample("vLLM", {Signal.FIRST_TOKENS: rate, Signal.TTFT_SUM: 0.2 * rate}, buckets)


def measured(reading: SourceReading, name: str, limit: Limit = LIMIT) -> TtftInterval:
    settings = MeasureSettings(window_seconds=60.0, scrape_interval_seconds=15.0)
    ttft = measure(reading, [LivePod("ns", name, ready_seconds=600.0)], limit, settings).ttft
    assert ttft is not None
    return ttft


class Histograms:
    """A source with pods of vLLM, which answers with the buckets that it is asked for; `pods` has their bounds."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.pods = {"a": BOUNDS}
        self.unknown: Missing | None = None
        """Answer to the question which bounds there are, where there is none."""

    async def query(self, promql: str) -> Vector | Missing:
        self.asked.append(promql)
        of_pods = [({"namespace": "ns", "pod": pod}, bounds) for pod, bounds in self.pods.items()]
        if promql == VLLM.layout(TIMES["window_seconds"]):
            held = Counter(bound for _, bounds in of_pods for bound in bounds)
            return self.unknown or Vector(tuple(Sample({"le": bound}, n, 0.0) for bound, n in held.items()))
        if promql == overview_query(FAMILIES, TIMES["window_seconds"]):
            return Vector((Sample({FAMILY: VLLM.name}, 1.0, 0.0),))
        if promql == VLLM.numbers(**TIMES):
            said = {Signal.AGE: 1.0, Signal.SAMPLES: 4.0, Signal.FIRST_TOKENS: 1.0, Signal.TTFT_SUM: 0.2}
            return Vector(tuple(Sample(of | {SIGNAL: s}, value, 0.0) for of, _ in of_pods for s, value in said.items()))
        matcher = re.search(r'_bucket{[^}]*le=~"([^"]*)"', promql)
        told = [(of, le) for of, bounds in of_pods for le in bounds if matcher and re.fullmatch(matcher[1], le)]
        return Vector(tuple(Sample(of | {SIGNAL: Signal.TTFT_BUCKETS, "le": le}, 1.0, 0.0) for of, le in told))

    def buckets(self) -> list[str]:
        return [promql for promql in self.asked if promql.startswith("label_replace(") and "_bucket" in promql]


def collector(source: Histograms, now: list[float]) -> Collector:
    return Collector(source, **TIMES, clock=lambda: now[-1])


async def test_a_collection_asks_for_the_buckets_around_the_limits() -> None:
    source = Histograms()

    reading = await collector(source, [0.0]).read(seconds_of([LIMIT]))

    assert sorted(reading.pods["ns", "a"].buckets) == [0.1, 0.25, 0.5, 0.75, math.inf]
    assert not reading.failures


async def test_layouts_are_asked_for_once_a_window() -> None:
    source, now = Histograms(), [0.0]
    reader = collector(source, now)
    for seconds in (0.0, 15.0, 59.0, 60.0, 75.0):
        now.append(seconds)
        await reader.read(seconds_of([LIMIT]))

    assert source.asked.count(VLLM.layout(TIMES["window_seconds"])) == 2
    assert len(source.buckets()) == 5


async def test_a_new_limit_has_its_buckets_at_once() -> None:
    source = Histograms()
    reader = collector(source, [0.0])
    await reader.read(seconds_of([LIMIT]))

    reading = await reader.read(seconds_of([LIMIT, Limit(6000, Percentile.P99)]))

    assert {5.0, 7.5} <= set(reading.pods["ns", "a"].buckets)


async def test_of_a_limit_that_changed_while_the_source_answered_it_is_unknown_what_is_late() -> None:
    source, edited = Histograms(), Limit(3000, Percentile.P95)
    reader = collector(source, [0.0])
    reading = await reader.read(seconds_of([LIMIT]))

    assert reading.tells_late(LIMIT, [("ns", "a")])
    assert measured(reading, "a", limit=LIMIT).late is not None
    assert measured(reading, "a", limit=edited).late is None

    assert measured(await reader.read(seconds_of([edited])), "a", limit=edited).late is not None


async def test_of_a_pod_that_came_after_the_bounds_were_asked_for_it_is_unknown_what_is_late() -> None:
    source, now = Histograms(), [0.0]
    reader = collector(source, now)
    await reader.read(seconds_of([LIMIT]))
    source.pods["b"] = ["0.2", "0.4", NO_BOUND]
    now.append(15.0)

    early = await reader.read(seconds_of([LIMIT]))
    assert early.newcomers == {("ns", "b")}
    assert measured(early, "a").late is not None
    assert measured(early, "b").late is None

    now.append(20.0)
    later = await reader.read(seconds_of([LIMIT]))
    assert not later.newcomers
    assert sorted(later.pods["ns", "b"].buckets) == [0.2, 0.4, math.inf]
    assert measured(later, "b").late is not None


@pytest.mark.parametrize("reason", [Reason.BAD_RESPONSE, Reason.SERVER_ERROR])
async def test_where_the_layouts_are_not_told_all_buckets_are_read(reason: Reason) -> None:
    source = Histograms()
    source.unknown = Missing(reason, "")

    reading = await collector(source, [0.0]).read(seconds_of([LIMIT]))

    assert len(reading.pods["ns", "a"].buckets) == len(BOUNDS)
    assert not reading.failures


async def test_a_source_that_hangs_holds_up_the_buckets_once() -> None:
    source = Histograms()
    source.unknown = Missing(Reason.SOURCE_UNREACHABLE, "no answer")

    reading = await collector(source, [0.0]).read(seconds_of([LIMIT]))

    assert not source.buckets()
    assert [failure.reason for failure in reading.failures] == [Reason.SOURCE_UNREACHABLE]


def test_bounds_of_a_tenant_are_no_pattern() -> None:
    query = VLLM.buckets(60.0, ["0.25", "1e+06", NO_BOUND])

    assert 'le=~"[+]Inf|0[.]25|1e[+]06"' in query
