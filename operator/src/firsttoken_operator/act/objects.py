"""Reader of an API server's answers, such that no stored object can fill the memory or stop the reading.

A list comes in pages of a bounded size, and a page is read object by object: one of them is in memory beside the text.
What is nested more deeply than any object of Kubernetes is null: Python's reader would give up the whole answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from firsttoken_operator.act.errors import Unavailable
from firsttoken_operator.api.base import UNREADABLE

Json = dict[str, Any]

PAGE = 500
"""Objects that are listed at once."""
LARGEST_PAGE_BYTES = 8 * 1024 * 1024
"""A page that is larger is asked for again with fewer objects, in the end with one."""
LARGEST_OBJECT = 512 * 1024
"""Characters of a custom resource: ten times what one with every field has."""
DEEPEST = 60
_USUAL_BRACKETS = 500
_IDENTITY = ("name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp")
_ITEMS = re.compile(r'"items"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_decode = json.JSONDecoder().raw_decode


Page = Callable[[Mapping[str, str], float], Awaitable[str | None]]
"""Reads one page of a list, as text; None: it is larger than that many bytes."""


async def list_each(page: Page, query: Mapping[str, str], take: Callable[[Json], None]) -> Json:
    """Hand on every object of a list as soon as it is read; returns the metadata of its last page."""
    asked, limit = dict(query), PAGE
    while True:
        asked["limit"] = str(limit)
        text = await page(asked, LARGEST_PAGE_BYTES if limit > 1 else float("inf"))
        if text is None:
            limit = max(1, limit // 8)
            continue
        metadata = read_list(text, take)["metadata"]
        limit = min(PAGE, 2 * limit)
        if not metadata.get("continue"):
            return metadata  # type: ignore[no-any-return]
        asked["continue"] = metadata["continue"]


def read_list(text: str, take: Callable[[Json], None], largest: float = float("inf")) -> Json:
    """Hand on every object of a page; returns the page without them.

    Of an object with more characters than `largest` only its identity is handed on, and why. Raises `Unavailable` for
    what is no list.
    """
    try:
        # NB: the quotes of the key cannot stand inside a string, and no key before it holds a list.
        if (found := _ITEMS.search(text)) is None:
            page = json.loads(text)
        else:
            at = _next(text, found.end())
            while text[at] != "]":
                begin = at
                item, at = _value(text, at)
                take(item if at - begin <= largest else _identity(item, at - begin))
                del item  # Or it would be kept while the next one is read.
                at = _next(text, at)
            page = json.loads(text[: found.end()] + text[at:])
        page["metadata"]["resourceVersion"]
    except (ValueError, LookupError, TypeError) as error:
        raise Unavailable(f"a list is not readable: {type(error).__name__}") from error
    return page  # type: ignore[no-any-return]


def read_document(text: str) -> Any:
    """A whole answer. Raises ValueError for what is not JSON."""
    value, _ = _value(text, _next(text, 0))
    return value


def bounded_event(line: bytes) -> bytes:
    """The line of a watch event about a custom resource, itself or without what is too large and too deep in it."""
    if len(line) <= LARGEST_OBJECT and line.count(b"{") + line.count(b"[") <= _USUAL_BRACKETS:
        return line
    try:
        event = read_document(line.decode())
        if len(line) > LARGEST_OBJECT:
            event["object"] = _identity(event["object"], len(line))
    except (ValueError, LookupError, TypeError):
        return line
    return json.dumps(event).encode()


def _identity(body: Json, characters: int) -> Json:
    metadata = {name: body["metadata"][name] for name in _IDENTITY if name in body["metadata"]}
    about = f"the object has {characters // 1024} KiB, and no more than {LARGEST_OBJECT // 1024} are read"
    return {"apiVersion": body.get("apiVersion"), "kind": body.get("kind"), "metadata": metadata, UNREADABLE: about}


def _value(text: str, at: int) -> tuple[Any, int]:
    """The value at a place, and where it ends."""
    try:
        return _decode(text, at)
    except RecursionError:
        shallow, end = _shallow(text, at)
        return json.loads(shallow), end


def _shallow(text: str, at: int) -> tuple[str, int]:
    """The object or list at a place, with null for what is nested too deeply, and where it ends."""
    depth, begin, kept = 0, at, list[str]()
    for token in _TOKEN.finditer(text, at):
        if token[0] in "[{":
            depth += 1
            if depth == DEEPEST:
                kept.append(text[begin : token.start()] + "null")
        elif token[0] in "]}":
            if depth == DEEPEST:
                begin = token.end()
            depth -= 1
            if depth == 0:
                return "".join(kept) + text[begin : token.end()], token.end()
    raise ValueError("a value that has no end")


def _next(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return between.end() if between else at
