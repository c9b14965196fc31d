"""An instant vector, read from its bytes as they come: memory is for what is kept, and no namespace fills it.

Anybody's pod may expose any number of series. Of a namespace with more than `SERIES_PER_NAMESPACE` nothing is kept,
and it is named; the others are as complete as ever.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from firsttoken_operator.domain import Missing, Reason
from firsttoken_operator.observe.source import Sample, Vector

SERIES_PER_NAMESPACE = 50_000
"""Series of one answer at most: 2,000 pods with 25 buckets each."""
LARGEST_PART = 1024 * 1024
"""Characters of an element, and of all that is not elements."""
WARNING_CHARACTERS = 200
WARNINGS_KEPT = 3

_RESULT = re.compile(r'"result"\s*:\s*\[')
_NEXT = '},{"metric":'
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_decode_element = json.JSONDecoder().raw_decode


def read_vector(chunks: Iterator[bytes]) -> Vector | Missing:
    """The answer to an instant query; `BadResponse` for every shape that is not a vector of numbers."""
    try:
        return _read(_Text(chunks))
    except (ValueError, RecursionError):
        return _bad("the answer is not JSON")


class _Text:
    """The part of a text that was not taken yet."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.rest = ""

    def more(self) -> bool:
        """Append what came next; False: that was all."""
        if len(self.rest) > LARGEST_PART:
            raise ValueError("a part that has no end")
        chunk = next(self._chunks, None)
        self.rest += self._decoder.decode(chunk or b"", final=chunk is None)
        return chunk is not None


def _read(text: _Text) -> Vector | Missing:
    while (found := _RESULT.search(text.rest)) is None and text.more():
        pass
    if found is None:
        return _envelope(json.loads(text.rest)) or _bad("the answer is not an instant vector")
    # NB: the quotes of the key cannot stand inside a string, so what was found is the key.
    head, text.rest = text.rest[: found.end()], text.rest[found.end() :]
    samples, overflowing, problem = _samples(text)
    while text.more():
        pass
    document = json.loads(head + text.rest)
    if (refused := _envelope(document)) is not None or problem:
        return refused or _bad("an element of the vector has no labels or no number")
    warnings = document.get("warnings")
    kept = warnings if isinstance(warnings, list) else [] if warnings is None else [warnings]
    return Vector(
        tuple(samples), tuple(str(warning)[:WARNING_CHARACTERS] for warning in kept[:WARNINGS_KEPT]), overflowing
    )


def _samples(text: _Text) -> tuple[list[Sample], frozenset[str], bool]:
    """Take the elements; what is left begins with the bracket that ends them. True: one of them was no sample."""
    kept: dict[str, list[Sample]] = defaultdict(list)
    overflowing, shared, problem = set[str](), dict[str, str](), False
    for element in _elements(text):
        try:
            namespace = element["metric"].get("namespace", "")
            if namespace in overflowing:
                continue
            kept[namespace].append(_sample(element, shared))
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
            problem = True
            continue
        if len(kept[namespace]) > SERIES_PER_NAMESPACE:
            overflowing.add(namespace)
            del kept[namespace]
    return [sample for samples in kept.values() for sample in samples], frozenset(overflowing), problem


def _elements(text: _Text) -> Iterator[Any]:
    whole = at = 0
    while True:
        if not at:
            # As many as there are at once, as Prometheus writes them: less than half the time of one by one.
            whole = text.rest.rfind(_NEXT) + 1
        at = _after(text.rest, at)
        if text.rest.startswith("]", at):
            text.rest = text.rest[at:]
            return
        try:
            if at < whole:
                yield from json.loads(f"[{text.rest[at:whole]}]")
                at = whole
            else:
                element, at = _decode_element(text.rest, at)
                yield element
        except ValueError:
            # NB: cut off once for all elements before, and not for each: there are hundreds in a piece.
            text.rest, at = text.rest[at:], 0
            if not text.more():
                raise


def _after(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return between.end() if between else at


def _sample(element: Any, shared: dict[str, str]) -> Sample:
    timestamp, value = element["value"]
    if not isinstance(value, str):
        raise TypeError("Prometheus writes numbers as strings; anything else is not Prometheus")
    # NB: names of pods come once for every bucket; each is kept once. What is no string has no such name.
    labels = {sys.intern(name): shared.setdefault(label, label) for name, label in element["metric"].items()}
    if not all(isinstance(label, str) for label in labels.values()):
        raise TypeError("a label is not a string")
    return Sample(labels, float(value), float(timestamp))


def _envelope(document: Any) -> Missing | None:
    """Find why a document, its elements aside, is no answer with a vector; None: it is one."""
    if not isinstance(document, dict):
        return _bad("the answer is not an object")
    if document.get("status") != "success":
        return _bad(f"status is not success (errorType {str(document.get('errorType'))[:40]})")
    data = document.get("data")
    if not isinstance(data, dict) or data.get("resultType") != "vector" or not isinstance(data.get("result"), list):
        return _bad("the answer is not an instant vector")
    return None


def _bad(detail: str) -> Missing:
    return Missing(Reason.BAD_RESPONSE, detail)
