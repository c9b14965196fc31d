"""Answers of an API server are read whatever was stored: an object at a time, not too deep and not too large."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from firsttoken_operator.act.errors import Unavailable
from firsttoken_operator.act.objects import LARGEST_OBJECT, bounded_event, read_document, read_list
from firsttoken_operator.api.base import UNREADABLE
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.observe.resources import read_resource

Event = dict[str, Any]
DEEP = ['{"x":' * 9000 + "1" + "}" * 9000, "[" * 9000 + "]" * 9000, '[{"\\"}]":' * 1500 + '"{["' + "}]" * 1500]
"""Nested as deeply as an API server takes it, and with what only looks like nesting."""


def pod(uid: str, **more: Any) -> Event:
    return {"metadata": {"uid": uid, "resourceVersion": "1"}, **more}


def with_spec(uid: str, spec: str) -> str:
    return json.dumps(pod(uid, spec="@")).replace('"@"', spec)


def depth(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth, parts), default=0)


@pytest.mark.parametrize("deep", DEEP, ids=["maps", "lists", "strings"])
def test_what_is_nested_too_deeply_is_cut_and_the_rest_is_read(deep: str) -> None:
    text = f'{{"metadata":{{"resourceVersion":"7"}},"items":[{with_spec("a", deep)},{with_spec("b", "1")}]}}'
    taken: list[Event] = []
    page = read_list(text, taken.append)

    assert page == {"metadata": {"resourceVersion": "7"}, "items": []}
    assert [body["metadata"]["uid"] for body in taken] == ["a", "b"]
    assert 10 < depth(taken[0]) < 100
    assert taken[1] == pod("b", spec=1)


def test_a_document_that_is_not_too_deep_is_read_as_it_is() -> None:
    text = " " + "[" * 500 + '"]"' + "]" * 500

    assert read_document(text) == json.loads(text)


@pytest.mark.parametrize("deep", DEEP[:2], ids=["maps", "lists"])
def test_a_deep_answer_that_is_cut_off_is_no_answer(deep: str) -> None:
    with pytest.raises(ValueError, match="no end"):
        read_document(deep[:-1])


def test_of_an_object_that_is_too_large_its_identity_is_kept_and_why() -> None:
    large = pod("a", kind="InferenceDeployment", spec=["x" * 100] * 6000)
    large["metadata"] |= {"name": "big", "namespace": "team-a", "managedFields": ["long"], "generation": 4}
    taken: list[Event] = []
    read_list(
        json.dumps({"metadata": {"resourceVersion": "7"}, "items": [large, pod("b")]}), taken.append, LARGEST_OBJECT
    )
    stored = read_resource(InferenceDeployment, taken[0])

    assert taken[1] == pod("b")
    assert (stored.uid, stored.namespace, stored.name, stored.generation) == ("a", "team-a", "big", 4)
    assert stored.parsed is None
    assert stored.problem == (
        "the object has 609 KiB, and no more than 512 are read; take out what does not belong there"
    )


def test_an_event_about_an_object_is_bounded_in_the_same_way() -> None:
    large = json.dumps({"type": "MODIFIED", "object": pod("a", spec="x" * 600_000)}).encode()
    deep = f'{{"type":"ADDED","object":{with_spec("b", DEEP[0])}}}'.encode()
    bounded = [json.loads(bounded_event(line)) for line in (large, deep)]

    assert [event["type"] for event in bounded] == ["MODIFIED", "ADDED"]
    assert [event["object"]["metadata"]["uid"] for event in bounded] == ["a", "b"]
    assert UNREADABLE in bounded[0]["object"]
    assert depth(bounded[1]) < 100


@pytest.mark.parametrize("line", [b'{"type":"ADDED","object":{"a":1}}', b"[" * 600, b"x" * 600_000, b"\xff" * 600_000])
def test_a_usual_event_and_what_is_none_are_passed_on_as_they_are(line: bytes) -> None:
    assert bounded_event(line) is line


@pytest.mark.slow
def test_one_object_of_a_page_is_in_memory_beside_its_text() -> None:
    def one_by_one() -> Iterator[str]:
        for number in range(20):
            yield json.dumps(pod(f"p{number}", spec=[{}] * 50_000))

    text = '{"metadata":{"resourceVersion":"1"},"items":[' + ",".join(one_by_one()) + "]}"
    uids: list[str] = []
    tracemalloc.start()
    read_list(text, lambda body: uids.append(body["metadata"]["uid"]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(uids) == 20
    assert peak < 1.5 * 50_000 * 72, "all of them together are 20 times that"


@pytest.mark.parametrize(
    "text",
    [
        '{"metadata":{"resourceVersion":"7"},"items":[]}',
        '{"metadata":{"resourceVersion":"7"},"items":null}',
        '{"metadata":{"resourceVersion":"7"}}',
        '{ "items" : [ ], "metadata" : { "resourceVersion" : "7" } }',
    ],
)
def test_an_empty_list_has_its_version(text: str) -> None:
    assert read_list(text, lambda body: None)["metadata"]["resourceVersion"] == "7"


def test_a_string_that_looks_like_a_list_is_none() -> None:
    tricky = pod("a", spec='},{"items":[],"metadata":{"resourceVersion":"6"}')
    taken: list[Event] = []
    read = read_list(json.dumps({"metadata": {"resourceVersion": "7"}, "items": [tricky, pod("b")]}), taken.append)

    assert read["metadata"] == {"resourceVersion": "7"}
    assert taken == [tricky, pod("b")]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"metadata":{}}', '{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{}', "x"]
)
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(Unavailable):
        read_list(text, lambda body: None)
