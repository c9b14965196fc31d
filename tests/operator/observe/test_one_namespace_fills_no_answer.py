"""A tenant whose pods expose far too much: its own namespace is missing, and every other one is read as ever."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.domain import Metrics, Missing, Reason
from firsttoken_operator.families import BY_BOUND, FAMILIES, FAMILY, NIM1, SIGNAL, Signal, overview_query
from firsttoken_operator.families.promql import without
from firsttoken_operator.observe import containment
from firsttoken_operator.observe.collect import Collector
from firsttoken_operator.observe.containment import LeftOut, Shares
from firsttoken_operator.observe.freshness import LivePod
from firsttoken_operator.observe.measure import measure
from firsttoken_operator.observe.prometheus import PrometheusSource, SourceConfig
from firsttoken_operator.observe.source import Sample, Vector
from tests.operator.observe.fault_server import FaultServer, body, vector
from tests.operator.observe.readings import LIMIT, SETTINGS, sample

TIMES = {"window_seconds": SETTINGS.window_seconds, "recent_seconds": SETTINGS.longest_gap_seconds}
OVERVIEW = overview_query(FAMILIES, SETTINGS.window_seconds)
OF_NIM, BOUNDS_OF_NIM = NIM1.queries(**TIMES)
UP = "up"
SAID = {
    OVERVIEW: (UP,),
    OF_NIM: tuple(signal for signal in NIM1.signals if signal not in BY_BOUND),
    BOUNDS_OF_NIM: tuple(BY_BOUND),
}
"""Numbers of pods that answer a query."""
BYTE_CAP = 256 * 1024
LOUD_SERIES = 4000
LEAVES_OUT = re.compile(r',namespace=~"[^"]*",namespace!~"([^"]*)"')
Series = tuple[dict[str, str], str]


def good(signal: str, namespace: str) -> list[Series]:
    """Series of one healthy pod."""
    said, pod = sample(), {"namespace": namespace, "pod": "good"}
    if signal == UP:
        return [(pod, "1")]
    if signal == Signal.TTFT_BUCKETS:
        return [({**pod, "le": str(bound)}, str(value)) for bound, value in said.buckets.items()]
    if signal == Signal.ENDED:
        return [({**pod, "outcome": name}, str(value)) for name, value in said.ended.items()]
    if signal == Signal.TOKENS:
        return [({**pod, "part": name}, str(value)) for name, value in said.tokens.items()]
    return [(pod, str(said.values[Signal(signal)]))]


def bounds(namespace: str) -> list[Series]:
    """One pod with thousands of bounds."""
    return [({"namespace": namespace, "pod": "good", "le": f"{number}"}, "1") for number in range(LOUD_SERIES)]


def a_few_bounds(namespace: str) -> list[Series]:
    """A tenth of that: too much where twenty do it."""
    return bounds(namespace)[: LOUD_SERIES // 10]


def pods(namespace: str) -> list[Series]:
    """Thousands of pods."""
    return [({"namespace": namespace, "pod": f"pod-{number}"}, "1") for number in range(LOUD_SERIES)]


def long_names(namespace: str) -> list[Series]:
    """Few series with labels of half a megabyte."""
    return [({"namespace": namespace, "pod": f"{number}" + "p" * 500_000}, "1") for number in range(3)]


class Tenants:
    """Answers as Prometheus does, for a quiet namespace and for loud ones; leaves out those that a query does."""

    def __init__(self, flood: Callable[[str], list[Series]], signals: Iterable[str], *loud: str) -> None:
        self._flood, self._signals, self._loud = flood, frozenset(signals), loud
        self.asked: list[tuple[str, frozenset[str]]] = []
        """Every query, without what it leaves out, and the namespaces that it does."""

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        (query,) = parse_qs(urlsplit(request.path).query)["query"]
        found = LEAVES_OUT.search(query)
        left_out = frozenset(found[1].split("|")) if found else frozenset[str]()
        plain = LEAVES_OUT.sub("", query)
        self.asked.append((plain, left_out))
        series: list[Series] = [({FAMILY: NIM1.name}, "1")] if plain == OVERVIEW else []
        for signal in SAID.get(plain, ()):
            told = good(signal, "quiet")
            for namespace in self._loud:
                if signal in self._signals and namespace not in left_out:
                    told += self._flood(namespace)
            series += told if signal == UP else [({**labels, SIGNAL: signal}, value) for labels, value in told]
        body(json.dumps(vector(*series)).encode())(request)


async def look(source: PrometheusSource, *namespaces: str) -> list[Metrics]:
    reading = await Collector(source, **TIMES).read()
    return [measure(reading, [LivePod(name, "good", 3600.0)], LIMIT, SETTINGS) for name in namespaces]


@pytest.mark.parametrize("flood", [bounds, pods, long_names])
@pytest.mark.parametrize(
    "signals", [[Signal.TTFT_BUCKETS], [UP, Signal.AGE], [UP, *NIM1.signals]], ids=["1", "2", "all"]
)
async def test_it_is_missing_alone(flood: Callable[[str], list[Series]], signals: Iterable[str]) -> None:
    with FaultServer(Tenants(bounds, [])) as server:
        (alone,) = await look(open_source(server), "quiet")
    with FaultServer(Tenants(flood, signals, "loud")) as server:
        quiet, loud = await look(open_source(server), "quiet", "loud")

    assert alone.health is Reason.PRESENT
    assert quiet == alone
    assert (loud.health, loud.detail.split(":")[0]) == (Reason.MISSING, "TooManySeries")
    assert isinstance(loud.arrivals, Missing)


def open_source(server: FaultServer) -> PrometheusSource:
    return PrometheusSource(SourceConfig("default", server.url, byte_cap=BYTE_CAP), deadline_seconds=30.0)


@pytest.mark.slow
async def test_as_many_as_it_takes_are_left_out_within_the_same_tick() -> None:
    loud = [f"loud-{number}" for number in range(20)]
    with FaultServer(Tenants(a_few_bounds, [Signal.TTFT_BUCKETS], *loud)) as server:
        quiet, *others = await look(open_source(server), "quiet", *loud)

    assert quiet.health is Reason.PRESENT
    assert Reason.MISSING in {metrics.health for metrics in others}


async def test_it_is_not_asked_about_for_ten_ticks() -> None:
    with FaultServer(tenants := Tenants(bounds, [Signal.TTFT_BUCKETS], "loud")) as server:
        source = open_source(server)
        await look(source)
        first = Counter(query for query, _ in tenants.asked)
        tenants.asked.clear()
        await look(source)
        again = list(tenants.asked)

    assert first[BOUNDS_OF_NIM] == 2, "once with it, and once without"
    assert first[OVERVIEW] == first[OF_NIM] == 1
    assert Counter(query for query, _ in again if query in SAID) == dict.fromkeys(SAID, 1)
    assert {left_out for _, left_out in again} == {frozenset({"loud"})}


def test_after_that_it_is_asked_about_again() -> None:
    now = 0.0
    left_out = LeftOut(lambda: now)
    left_out.add(["a"])
    now = 100.0
    left_out.add(["a", "b"])
    assert left_out.names() == {"a", "b"}
    now = 150.0
    assert left_out.names() == {"b"}


@given(st.lists(st.text(max_size=70), max_size=5))
def test_no_text_of_a_tenant_gets_into_a_query(names: list[str]) -> None:
    left_out = LeftOut(lambda: 0.0)
    left_out.add(["fine", 'x"}) or vector(1e9) or up{a="', "a|b", ".*", *names])

    query = without(OVERVIEW, left_out.names())

    found = LEAVES_OUT.search(query)
    assert found
    assert LEAVES_OUT.sub("", query) == OVERVIEW
    assert re.fullmatch(r"[-a-z0-9|]*", found[1])
    assert len(found[1]) < 64 * containment.MOST_LEFT_OUT


def test_no_more_are_left_out_than_an_address_holds() -> None:
    left_out = LeftOut(lambda: 0.0)
    for number in range(200):
        left_out.add([f"{number}" + "n" * 60])

    assert len(left_out.names()) == containment.MOST_LEFT_OUT


async def test_a_server_that_leaves_nothing_out_is_not_asked_for_ever() -> None:
    flood = body(json.dumps(vector(*bounds("loud"))).encode())
    with FaultServer(flood) as server:
        answer = await open_source(server).query(OVERVIEW)

    assert isinstance(answer, Missing)
    assert answer.reason is Reason.BAD_RESPONSE
    assert len(server.requests) == 2


async def test_a_query_that_is_not_about_pods_is_asked_once() -> None:
    with FaultServer(body(json.dumps(vector(*bounds("loud"))).encode())) as server:
        source = open_source(server)
        answer = await source.query("sum by (namespace, name) (rate(gateway_total[60s]))")
        await source.query(OVERVIEW)

    assert isinstance(answer, Missing)
    assert "loud" not in server.requests[1][0], "and keeps nothing out of the others"


async def test_what_all_answers_say_together_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer is small enough."""
    monkeypatch.setattr(containment, "MOST_BYTES", 500_000)

    class Source:
        async def query(self, promql: str) -> Vector | Missing:
            told = [({"namespace": "loud", "pod": f"{number}"}, "1") for number in range(LOUD_SERIES // 10)]
            told.append(({"namespace": "quiet", "pod": "p"}, "1"))
            if promql == OVERVIEW:
                samples = [Sample({FAMILY: NIM1.name}, 1.0, 0.0), *(Sample(labels, 1.0, 0.0) for labels, _ in told)]
            else:
                samples = [
                    Sample({**labels, SIGNAL: signal}, 1.0, 0.0)
                    for signal in SAID.get(promql, ())
                    for labels, _ in told
                ]
            return Vector(tuple(samples))

    reading = await Collector(Source(), **TIMES).read()

    assert reading.overflowing == {"loud"}
    assert {namespace for namespace, _ in reading.pods} == {"quiet"}
    assert {namespace for namespace, _ in reading.up} == {"quiet"}
    assert set(reading.pods["quiet", "p"].values) == set(NIM1.signals) - {
        Signal.TTFT_BUCKETS,
        Signal.ENDED,
        Signal.TOKENS,
    }


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(1, 40)), max_size=200))
def test_the_largest_give_way_and_the_rest_fits(came: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(containment, "MOST_BYTES", 500)
        shares, kept = Shares(), Counter[str]()
        for namespace, size in came:
            if namespace not in shares.overflowing:
                kept[namespace] += size
            gone = shares.add(namespace, size)
            gone_sizes = [kept.pop(name) for name in gone]
            assert not gone or min(gone_sizes) >= max(kept.values(), default=0)
            assert kept.total() <= 500
            assert not kept.keys() & shares.overflowing

    total = Counter[str]()
    for namespace, size in came:
        total[namespace] += size
    assert 2 * sum(total[name] for name in shares.loudest()) >= total.total()
