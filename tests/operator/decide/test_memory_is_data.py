"""The memory can be written as JSON and read back, and the decisions go on as if nothing had happened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.decide import Memory
from firsttoken_operator.decide.codec import VERSION, from_document, to_document
from tests.operator.decide.builders import Fleet, lost, metrics
from tests.operator.decide.strategies import examples

numbers = st.floats(allow_nan=False)
"""Without NaN, which is not equal to itself."""


def any_of(hint: Any) -> st.SearchStrategy[Any]:
    """Whatever a type hint allows: the fields of a dataclass are drawn too, those with a default as well."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is float:
        return numbers
    if isinstance(hint, type) and is_dataclass(hint):
        return st.builds(hint, **{name: any_of(kind) for name, kind in get_type_hints(hint).items()})
    if origin in (Union, UnionType):
        return st.one_of([any_of(kind) for kind in arguments])
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(any_of(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(any_of(kind) for kind in arguments))
    if origin is Mapping:
        pairs = st.dictionaries(any_of(arguments[0]), any_of(arguments[1]), max_size=2)
        return pairs.map(MappingProxyType)
    return st.none() if hint is NoneType else st.from_type(hint)


memories = any_of(Memory)
scraps = st.one_of(
    st.none(), st.booleans(), st.integers(), numbers, st.text(max_size=3), st.just([]), st.just({}), st.just([1]),
    st.just({"factor": 1.0}), st.just(10**400),
)  # fmt: skip


def copied(memory: Memory) -> Memory:
    """The memory after a journey through JSON text."""
    back, problem = from_document(json.loads(json.dumps(to_document(memory), allow_nan=False)))
    assert problem == ""
    return back


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every container in a document with every key in it."""
    keys = document.keys() if isinstance(document, dict) else range(len(document) if isinstance(document, list) else 0)
    return [place for key in list(keys) for place in ((document, key), *places(document[key]))]


@given(memory=memories)
@settings(max_examples=examples(50), deadline=None)
def test_what_was_written_is_read_back(memory: Memory) -> None:
    assert copied(memory) == memory


@given(data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_a_broken_document_is_an_empty_memory_and_a_reason_or_still_a_memory(data: st.DataObject) -> None:
    document = json.loads(json.dumps(to_document(BUSY)))
    container, key = data.draw(st.sampled_from(places(document)))
    if data.draw(st.booleans()):
        container[key] = data.draw(scraps)
    elif isinstance(container, dict):
        del container[key]

    memory, problem = from_document(document)

    assert memory == Memory() if problem else isinstance(to_document(memory), dict)


@pytest.mark.parametrize("document", [None, 7, "{}", [], {}, {"version": 0}, {"version": VERSION}, {"version": [1]}])
def test_what_is_no_such_document_says_so(document: object) -> None:
    memory, problem = from_document(document)

    assert memory == Memory()
    assert problem.startswith(("version: ", "memory: "))


def test_the_reason_names_the_field() -> None:
    document = json.loads(json.dumps(to_document(BUSY)))
    document["memory"]["resources"]["r-1"]["decreases"][0]["gpus"] = 2.5

    assert from_document(document)[1] == "memory.resources.r-1.decreases[0].gpus: is not of the type int"


def busy() -> Memory:
    """A memory in which something has happened."""
    fleet = Fleet(replicas=40)
    fleet.run(metrics(60.0), 600)
    fleet.run(lost(), 60)
    return fleet.memory


BUSY = busy()

signals = st.one_of(st.floats(0, 300).map(metrics), st.just(lost()))


@given(before=st.lists(signals, min_size=1, max_size=30), after=st.lists(signals, min_size=1, max_size=15))
@settings(max_examples=examples(20), deadline=None)
def test_the_decisions_go_on_as_if_it_had_never_been_written(before: list[Any], after: list[Any]) -> None:
    one, other = Fleet(replicas=30), Fleet(replicas=30)
    for seen in before:
        one.tick(seen)
        other.tick(seen)
    other.memory = copied(other.memory)

    assert [one.tick(seen) for seen in after] == [other.tick(seen) for seen in after]
    assert one.memory == other.memory
