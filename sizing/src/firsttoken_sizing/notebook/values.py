"""Values of words as a notebook has them: numbers of any library, text, `None` for what is not said.

Each check gives the plain value, or raises `InvalidInput` that names the word and the fix.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields
from numbers import Real
from typing import Any, Final

from firsttoken_sizing.engines import Engine, is_called
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.optimize.places import Place
from firsttoken_sizing.workload import Pricing

MOST_REPLICAS: Final = 10_000
MOST_CONCURRENCY: Final = 1_000_000
_LARGEST_COUNT = 2**63
_WHOLE, _LIST = "use a whole number of 1 or more", "give a list, such as"


def number(word: str, value: object) -> float:
    """A finite real number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        fix = "write it without quotes" if isinstance(value, str) else "use a number"
        raise InvalidInput(word, f"{_shown(value)} is not a number", fix)
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise InvalidInput(word, f"{_shown(value)} is not a finite number", "use a number")
    # NB: a whole number stays one, as it was written.
    return value if isinstance(value, int) else found


def positive(word: str, value: object) -> float:
    """A number above 0."""
    found = number(word, value)
    if found <= 0:
        raise InvalidInput(word, f"{found:g} is not a positive number", "use a number above 0")
    return found


def count(word: str, value: object, least: int = 1, most: int = _LARGEST_COUNT) -> int:
    """A whole number, which may be written as 1e6."""
    found = number(word, value)
    if found != int(found):
        raise InvalidInput(word, f"{found:g} is not a whole number", _WHOLE)
    if found < least:
        raise InvalidInput(word, f"{int(found)} is below {least}", f"use {least} or more")
    if found > most:
        raise InvalidInput(word, f"{found:g} is above {most}", f"use {most} or less")
    return int(found)


def percent(word: str, value: object) -> float:
    """A number of percent; a share in its place is refused."""
    found = number(word, value)
    if 0 < found < 1:
        raise InvalidInput(word, f"{found:g} is below 1 percent", f"give percent, such as {100 * found:g}")
    return found


def text(word: str, value: object) -> str:
    """A name or one of several words."""
    if not isinstance(value, str):
        raise InvalidInput(word, f"{_shown(value)} is not text", "write a name in quotes")
    return value


def texts(word: str, value: object) -> tuple[str, ...]:
    """One name, or a list of them."""
    if isinstance(value, str):
        return (value,)
    return tuple(text(word, one) for one in several(word, value, '["H100"]'))


def several(word: str, value: object, example: str) -> list[Any]:
    """A list of values."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidInput(word, f"{_shown(value)} is not a list", f"{_LIST} {example}")
    return list(value)


def prices(word: str, value: object) -> Pricing:
    """Prices whose amounts are numbers."""
    if not isinstance(value, Pricing):
        raise InvalidInput(word, f"{_shown(value)} is no Pricing", "use Pricing(gpu_hour=2.5)")
    for field in fields(Pricing):
        amount = getattr(value, field.name)
        if field.name == "currency":
            text(f"{word} {field.name}", amount)
        elif amount is not None:
            number(f"{word} {field.name}", amount)
    return value


def place(value: object) -> Place:
    """A place whose names are text and whose GPUs are counted."""
    if not isinstance(value, Place):
        raise InvalidInput("places", f"{_shown(value)} is no Place", "use Place(name, gpu, Pricing(gpu_hour=2.5))")
    for field in ("name", "gpu", "location"):
        text(f"place {field}", getattr(value, field))
    for field in ("gpus_per_server", "most_gpus"):
        if (gpus := getattr(value, field)) is not None and count(f"place {field}", gpus) != gpus:
            raise InvalidInput(f"place {field}", f"{gpus} is not a whole number", _WHOLE)
    if value.pricing is not None:
        prices("place pricing", value.pricing)
    return value


def measured_word(word: str, value: object) -> str | float:
    """A word of `read_benchmarks`: the counts are whole, and the engine is one that is sized."""
    if word == "gpu_memory_percent":
        return percent(word, value)
    if word.endswith(("_parallel", "_size", "_tokens", "_bits")):
        return count(word, value)
    said = text(word, value)
    if word == "engine" and not (said and any(is_called(engine, said) for engine in Engine)):
        raise InvalidInput(word, f"{said!r} is not known", f"use one of {', '.join(Engine)}")
    return said


def _shown(value: object) -> str:
    """The value, short and on one line."""
    try:
        shown = " ".join(repr(value).split())
    except ValueError:
        # NB: Python does not write whole numbers of thousands of digits.
        shown = f"a {type(value).__name__}"
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
