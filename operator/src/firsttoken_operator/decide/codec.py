"""The memory as JSON and back: shows that it is all data, so that a decision can be continued anywhere.

Driven by the type hints of the dataclasses: a new field needs no code here. What comes in is checked against them to
the last field, because a document is the one way to a memory that no tick has made. The operator does not store one (a
restart rebuilds what it needs from status and history); it is for tests, replays and reports of a decision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from firsttoken_operator.decide.memory import Memory

VERSION = 1
"""Of the frame around the memory. A field that comes or goes is noticed by itself."""

_NOT_FINITE = frozenset({"inf", "-inf", "nan"})
"""JSON has no such numbers; they are written as text."""


def to_document(memory: Memory) -> dict[str, object]:
    """The memory in terms of JSON: dicts, lists, strings, finite numbers, booleans and None."""
    return {"version": VERSION, "memory": _encoded(memory)}


def from_document(document: object) -> tuple[Memory, str]:
    """The memory that was written, and an empty text; or an empty memory and what is wrong with the document.

    Raises nothing, whatever the document is.
    """
    if not isinstance(document, Mapping) or document.get("version") != VERSION:
        return Memory(), f"version: is not {VERSION}; the document was not written by this version"
    try:
        decoded = _decoded(document.get("memory"), Memory, "memory")
    except _Unreadable as error:
        return Memory(), str(error)
    assert isinstance(decoded, Memory), "decoded as what was asked for"
    return decoded, ""


class _Unreadable(Exception):
    """Where in the document, and what is wrong there."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


def _encoded(value: Any) -> object:
    if is_dataclass(value):
        return {field.name: _encoded(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: _encoded(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_encoded(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a memory holds no {type(value).__name__}")


def _decoded(value: Any, kind: Any, path: str) -> object:
    """The value as `kind` (a type hint) says; raises `_Unreadable`."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _decoded_union(value, get_args(kind), path)
    if origin is tuple:
        return _decoded_tuple(value, get_args(kind), path)
    if origin is Mapping:
        return _decoded_mapping(value, get_args(kind), path)
    if is_dataclass(kind):
        return _decoded_dataclass(value, kind, path)
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            raise _Unreadable(path, f"is no {kind.__name__}") from None
    return _decoded_scalar(value, kind, path)


def _decoded_scalar(value: Any, kind: Any, path: str) -> object:
    # NB: True is an int to Python, and JSON may write the float 3.0 as 3.
    if kind is float and isinstance(value, str) and value in _NOT_FINITE:
        return float(value)
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise _Unreadable(path, "is too large a number") from None
    if kind in (bool, str, NoneType) and isinstance(value, kind):
        return value
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _Unreadable(path, f"is not of the type {getattr(kind, '__name__', kind)}")


def _decoded_union(value: Any, kinds: tuple[Any, ...], path: str) -> object:
    """The first kind that fits; of an optional value the problem of what it is where it is there."""
    if value is None and NoneType in kinds:
        return None
    problem = _Unreadable(path, "fits nothing that may be here")
    for kind in kinds:
        if kind is not NoneType:
            try:
                return _decoded(value, kind, path)
            except _Unreadable as error:
                problem = error
    raise problem


def _decoded_tuple(value: Any, kinds: tuple[Any, ...], path: str) -> object:
    if not isinstance(value, (list, tuple)):
        raise _Unreadable(path, "is no list")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise _Unreadable(path, f"has {len(value)} items instead of {len(kinds)}")
    return tuple(_decoded(item, kind, f"{path}[{i}]") for i, (item, kind) in enumerate(zip(value, kinds, strict=True)))


def _decoded_mapping(value: Any, kinds: tuple[Any, ...], path: str) -> object:
    if not isinstance(value, Mapping):
        raise _Unreadable(path, "is no object")
    return MappingProxyType(
        {_decoded(key, kinds[0], path): _decoded(item, kinds[1], f"{path}.{key}") for key, item in value.items()}
    )


def _decoded_dataclass(value: Any, kind: Any, path: str) -> object:
    if not isinstance(value, Mapping):
        raise _Unreadable(path, "is no object")
    hints = _hints(kind)
    if value.keys() != hints.keys():
        missing, unknown = sorted(hints.keys() - value.keys()), sorted(map(str, value.keys() - hints.keys()))
        raise _Unreadable(path, f"lacks {missing} and has {unknown} besides")
    try:
        return kind(**{name: _decoded(value[name], hint, f"{path}.{name}") for name, hint in hints.items()})
    except (TypeError, ValueError) as error:
        raise _Unreadable(path, f"is refused: {error}") from None


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Types of the fields of a dataclass, in their order."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}
