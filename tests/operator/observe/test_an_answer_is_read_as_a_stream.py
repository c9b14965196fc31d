"""Instant vectors read piece by piece: the same as read whole, in little memory, and one namespace fills no other's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.domain import Missing, Reason
from firsttoken_operator.families import FAMILIES, FAMILY, SIGNAL, VLLM, overview_query
from firsttoken_operator.observe import containment, vector
from firsttoken_operator.observe.collect import Collector
from firsttoken_operator.observe.freshness import LivePod, MeasureSettings
from firsttoken_operator.observe.measure import measure
from firsttoken_operator.observe.source import Sample, Vector
from firsttoken_operator.observe.vector import read_vector
from tests.operator.observe.fault_server import vector as document_of


def pieces(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


def read(document: Any, size: int = 64) -> Vector | Missing:
    return read_vector(pieces(json.dumps(document).encode(), size))


LABELS = st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=3)
NUMBERS = st.sampled_from(["0", "1.5", "NaN", "+Inf", "-3e9"])


@given(
    st.lists(st.tuples(LABELS, NUMBERS), max_size=5),
    st.integers(1, 40),
    st.booleans(),
    st.sampled_from([{}, {"warnings": ['"result":[', "x"]}, {"infos": ["]"]}]),
)
def test_however_it_is_cut_it_is_the_same(
    samples: list[tuple[dict[str, str], str]], size: int, is_ascii: bool, extra: dict[str, Any]
) -> None:
    document = document_of(*samples, **extra)
    for order in (document, dict(reversed(document.items()))):
        content = json.dumps(order, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
        answer = read_vector(pieces(content, size))

        assert isinstance(answer, Vector)
        assert sorted((sorted(s.labels.items()), str(s.value)) for s in answer.samples) == sorted(
            (sorted(labels.items()), str(float(value))) for labels, value in samples
        )
        assert answer.warnings == tuple(extra.get("warnings", ()))


@pytest.mark.parametrize("cut", [1, 20, 60, 90, -1])
def test_an_answer_that_ends_early_is_none(cut: int) -> None:
    answer = read_vector(pieces(json.dumps(document_of(({"pod": "a"}, "1"))).encode()[:cut], 7))

    assert isinstance(answer, Missing)
    assert answer.reason is Reason.BAD_RESPONSE


@pytest.mark.parametrize("endless", [b'{"status":"', b'{"status":"success","data":{"result":[{"metric":{"a":"'])
def test_a_part_without_an_end_is_not_read_to_the_end(endless: bytes) -> None:
    taken = 0

    def chunks() -> Iterator[bytes]:
        nonlocal taken
        yield endless
        while True:
            taken += 1
            yield b"x" * 65536

    answer = read_vector(chunks())

    assert isinstance(answer, Missing)
    assert taken < 50


def test_of_a_namespace_with_too_many_series_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containment, "MOST_BYTES", 7 * 500)
    many = [({"namespace": "loud", "pod": f"p{number}"}, "1") for number in range(10)]
    few = [({"namespace": "quiet", "pod": f"p{number}"}, "1") for number in range(3)]
    answer = read(document_of(*many[:5], *few, *many[5:]))

    assert isinstance(answer, Vector)
    assert {sample.labels["namespace"] for sample in answer.samples} == {"quiet"}
    assert (len(answer.samples), answer.overflowing) == (3, frozenset({"loud"}))


async def test_it_is_missing_alone() -> None:
    class Source:
        async def query(self, promql: str) -> Vector | Missing:
            labels = {"namespace": "quiet", "pod": "p"}
            if promql == overview_query(FAMILIES, 60.0):
                return Vector((Sample(labels, 1.0, 0.0), Sample({FAMILY: VLLM.name}, 1.0, 0.0)))
            numbers, bounds = VLLM.queries(60.0, 38.0)
            signals = [Sample({**labels, SIGNAL: signal}, 1.0, 0.0) for signal in VLLM.signals]
            said = {numbers: Vector(tuple(signals)), bounds: Vector((), overflowing=frozenset({"loud"}))}
            return said.get(promql, Vector(()))

    reading = await Collector(Source(), window_seconds=60.0, recent_seconds=38.0).read()
    quiet, loud = (
        measure(reading, [LivePod(namespace, "p", 3600.0)], None, MeasureSettings(60.0, 15.0))
        for namespace in ("quiet", "loud")
    )

    assert loud.health is Reason.MISSING
    assert loud.detail.startswith("TooManySeries: the pods of namespace loud")
    assert "TooManySeries" not in quiet.detail
    assert isinstance(loud.arrivals, Missing)
    assert not isinstance(quiet.waiting, Missing)


@pytest.mark.parametrize("between", ['}, {"metric": ', '},\n{"metric":', '},{"value":'])
def test_another_way_of_writing_costs_no_copy_for_each_element(between: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters copied of the text that is left: as many as it has for each piece, and not for each element."""
    samples = [({"pod": f"p{number}"}, "1") for number in range(5000)]
    content = json.dumps(document_of(*samples), separators=(",", ":")).replace('},{"metric":', between)
    if "value" in between:
        content = json.dumps(
            {"status": "success", "data": {"resultType": "vector", "result": [
                {"value": [1.5, number], "metric": labels} for labels, number in samples]}},
            separators=(",", ":"),
        )  # fmt: skip
    assert '},{"metric":' not in content
    copied = 0

    class Counting(vector._Text):
        def __setattr__(self, name: str, value: Any) -> None:
            nonlocal copied
            copied += len(value) if name == "rest" else 0
            super().__setattr__(name, value)

    monkeypatch.setattr(vector, "_Text", Counting)
    answer = read_vector(pieces(content.encode(), 65536))

    assert isinstance(answer, Vector)
    assert len(answer.samples) == 5000
    assert copied < 10 * len(content)


PEAK = """
import resource
from firsttoken_operator.observe.vector import read_vector

def chunks():
    yield b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1.5,"1"]}'
    for part in range(64):
        yield b"".join(
            b',{"metric":{"namespace":"loud","pod":"p%d","le":"%d"},"value":[1.5,"1"]}' % (part, number)
            for number in range(15_000)
        )
    yield b"]}}"

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
answer = read_vector(chunks())
print(len(answer.samples), *answer.overflowing, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_an_answer_of_64_mebibytes_takes_less_memory_than_its_own_size() -> None:
    child = subprocess.run((sys.executable, "-c", PEAK), check=True, capture_output=True, text=True)
    kept, overflowing, kibibytes = child.stdout.split()

    assert (kept, overflowing) == ("1", "loud")
    assert int(kibibytes) < 48 * 1024
