"""An instant vector, read from its bytes as they come: memory is for what is kept, and no namespace fills it.

Of an answer that takes too much memory the largest namespaces are dropped and named (`containment`); the others are as
complete as ever. Of one that was cut off nothing is kept, and it is said who filled it.
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
from firsttoken_operator.observe.containment import Shares
from firsttoken_operator.observe.session import AnswerTooLarge
from firsttoken_operator.observe.source import CutOff, Sample, Vector

SAMPLE_BYTES = 300
"""Memory for a sample beside the texts of its labels."""
LARGEST_PART = 1024 * 1024
"""Characters of an element, and of all that is not elements."""
WARNING_CHARACTERS = 200
WARNINGS_KEPT = 3

_RESULT = re.compile(r'"result"\s*:\s*\[')
_NAMESPACE = re.compile(r'"namespace"\s*:\s*"([^"\\]*)"')
_NEXT = '},{"metric":'
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_decode_element = json.JSONDecoder().raw_decode


def read_vector(chunks: Iterator[bytes]) -> Vector | Missing:
    """The answer to an instant query; `BadResponse` for every shape that is not a vector of numbers."""
    shares, text = Shares(), _Text(chunks)
    try:
        return _read(text, shares)
    except AnswerTooLarge as failure:
        # NB: the element that was cut off may be most of the answer; its namespace comes before the pod's name.
        if (cut_off := _NAMESPACE.search(text.rest)) is not None:
            shares.add(cut_off[1], len(text.rest))
        return CutOff(failure.reason, failure.detail, shares.loudest())
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
            raise AnswerTooLarge(Reason.BAD_RESPONSE, f"a part of the answer is larger than {LARGEST_PART} characters")
        chunk = next(self._chunks, None)
        self.rest += self._decoder.decode(chunk or b"", final=chunk is None)
        return chunk is not None


def _read(text: _Text, shares: Shares) -> Vector | Missing:
    while (found := _RESULT.search(text.rest)) is None and text.more():
        pass
    if found is None:
        return _envelope(json.loads(text.rest)) or _bad("the answer is not an instant vector")
    # NB: the quotes of the key cannot stand inside a string, so what was found is the key.
    head, text.rest = text.rest[: found.end()], text.rest[found.end() :]
    samples, problem = _samples(text, shares)
    while text.more():
        pass
    document = json.loads(head + text.rest)
    if (refused := _envelope(document)) is not None or problem:
        return refused or _bad("an element of the vector has no labels or no number")
    warnings = document.get("warnings")
    kept = warnings if isinstance(warnings, list) else [] if warnings is None else [warnings]
    told = tuple(str(warning)[:WARNING_CHARACTERS] for warning in kept[:WARNINGS_KEPT])
    return Vector(tuple(samples), told, frozenset(shares.overflowing))


def _samples(text: _Text, shares: Shares) -> tuple[list[Sample], bool]:
    """Take the elements; what is left begins with the bracket that ends them. True: one of them was no sample."""
    kept: dict[str, list[Sample]] = defaultdict(list)
    shared, problem = dict[str, str](), False
    for element in _elements(text):
        try:
            labels = element["metric"]
            namespace = labels.get("namespace", "")
            if namespace not in shares.overflowing:
                kept[namespace].append(_sample(element, shared))
            gone = shares.add(namespace, SAMPLE_BYTES + sum(map(sys.getsizeof, labels.values())))
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
            problem = True
            continue
        if gone:
            shared.clear()
            for loud in gone:
                del kept[loud]
    return [sample for samples in kept.values() for sample in samples], problem


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
    labels = element["metric"]
    for name, label in labels.items():
        if not isinstance(label, str):
            raise TypeError("a label is not a string")
        # NB: names of pods come once for every number; each is kept once.
        labels[name] = shared.setdefault(label, label)
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
