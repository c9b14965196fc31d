"""The exceptions of `firsttoken_sizing`.

    SizingError
    ├── InvalidInput        a field that cannot be sized: names the field and the fix (exit status 2)
    │   ├── UnknownModel
    │   └── UnknownGPU
    └── UnreadableBenchmark a benchmark file that cannot be imported: names the file and the reason

An SLA that no size meets is not an error: it is a `Sizing` with `feasible=False` and its cause.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TypeVar

Word = TypeVar("Word", bound=StrEnum)


class SizingError(Exception):
    """Base of everything that sizing raises on purpose."""


class InvalidInput(SizingError):
    """A field that cannot be sized. `field` is its path as the user wrote it (`traffic.inputTokens`)."""

    def __init__(self, field: str, problem: str, fix: str) -> None:
        self.field = field
        self.problem = problem
        self.fix = fix
        super().__init__(f"{field}: {problem}; {fix}")


class UnknownModel(InvalidInput):
    """The model is not in the catalog."""


class UnknownGPU(InvalidInput):
    """The GPU is not in the catalog."""


class UnreadableBenchmark(SizingError):
    """A benchmark file that cannot be imported."""

    def __init__(self, file: str, problem: str) -> None:
        self.file = file
        self.problem = problem
        # NB: on one line, whatever a file is called.
        super().__init__(" ".join(f"{file}: {problem}".split()))


def one_of(words: type[Word], field: str, text: str) -> Word:
    """The value that a word means, in capitals or not, with `-` or `_` or nothing between its parts.

    Raises `InvalidInput` that names `field` and the words.
    """

    def plain(word: str) -> str:
        return re.sub("[-_ ]", "", word).casefold()

    for known in words:
        if plain(known.value) == plain(text):
            return known
    raise InvalidInput(field, f"{text!r} is not known", f"use one of {', '.join(words)}")
