"""Problems of an object, in the words of a person: field, problem, fix. Translates pydantic's errors.

The API server has its own words for a broken schema; the messages of rules are the same on both sides (see `base`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from firsttoken_operator.api.base import RULE_ERROR
from firsttoken_operator.api.errors import InvalidDocument
from firsttoken_operator.api.forms import FORMS

_TYPES = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "finite_number": "a finite number",
    "float_type": "a number",
    "string_type": "a string",
    "bool_type": "true or false",
    "dict_type": "a map",
    "model_type": "a map of fields",
    "tuple_type": "a list",
}
_BOUNDS = {
    "greater_than_equal": "use {ge:.15g} or more",
    "greater_than": "use more than {gt:.15g}",
    "less_than_equal": "use {le:.15g} or less",
    "string_too_long": "use at most {max_length} characters",
    "string_too_short": "use at least {min_length} characters",
    "too_long": "write at most {max_length}",
    "too_short": "write at least {min_length}",
}
MAX_SHOWN = 60
MAX_NAMED = 30
"""Most fields that are named: a list of more would hide what is wrong."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One refusal. `field` is the camelCase path from the top of the object."""

    field: str
    problem: str
    fix: str


def refusal_of(problems: Sequence[Problem], file: str, object_name: str) -> InvalidDocument:
    """The refusal of an object that has these problems: the first in full, the others counted."""
    first, *rest = problems
    return InvalidDocument(file, object_name, first.field, first.problem, first.fix, more=len(rest))


def problems_of(error: ValidationError) -> list[Problem]:
    """Every problem of one object, in the order of its fields."""
    found = error.errors(include_url=False)
    # NB: a list whose only entry is broken is also "too short" to pydantic; the deeper problem is the real one.
    return [_problem(d) for d in found if not any(_is_inside(other["loc"], d["loc"]) for other in found)]


def unknown_fields(model: type[BaseModel], document: Mapping[str, Any], path: str = "") -> list[Problem]:
    """Fields that the schema does not have (mostly typos), down to the deepest.

    Metadata is the API server's, and status is written by programs: neither is looked at.
    """
    found: list[Problem] = []
    fields = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
    for key, value in document.items():
        where = f"{path}.{_key(key)}" if path else _key(key)
        if key not in fields:
            found.append(Problem(where, "unknown field", _advice(str(key), list(fields))))
        elif not (path == "" and key in ("metadata", "status")):
            inner = _model_in(fields[key])
            if inner is not None:
                for index, part in enumerate(value if isinstance(value, list) else [value]):
                    if isinstance(part, dict):
                        at = f"{where}[{index}]" if isinstance(value, list) else where
                        found += unknown_fields(inner, part, at)
    return found


def _advice(key: str, known: list[str]) -> str:
    near = get_close_matches(key, known, n=2, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"use one of {', '.join(known)}" if len(known) <= MAX_NAMED else "leave it out"


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside `Model`, `Model | None` or `tuple[Model, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        if (inner := _model_in(argument)) is not None:
            return inner
    return None


def _is_inside(location: tuple[int | str, ...], outer: tuple[int | str, ...]) -> bool:
    return len(location) > len(outer) and location[: len(outer)] == outer


def _problem(details: ErrorDetails) -> Problem:
    kind, context = details["type"], details.get("ctx", {})
    field = _path(details["loc"])
    if kind == RULE_ERROR:
        return Problem(".".join(filter(None, (field, context["field"]))), context["problem"], context["fix"])
    if kind == "missing":
        return Problem(field, "is required", "add it")
    shown = _shown(details["input"])
    if kind in ("enum", "literal_error"):
        allowed = str(context["expected"]).replace("'", "").replace(" or ", ", ")
        return Problem(field, f"{shown} is not supported", f"use one of {allowed}")
    if kind == "string_pattern_mismatch":
        form = FORMS[context["pattern"]]
        return Problem(field, f"{shown} is not {form.words}", f"write it as in {form.example}")
    if kind in _TYPES:
        return Problem(field, f"{shown} is not {_TYPES[kind]}", f"write {_TYPES[kind]}")
    if kind in _BOUNDS:
        what = f"{context['actual_length']} entries are" if kind in ("too_long", "too_short") else f"{shown} is"
        return Problem(field, f"{what} out of bounds", _BOUNDS[kind].format(**context))
    return Problem(field, f"{shown} is not valid ({details['msg']})", "correct it")


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{_key(part)}"
    return path.removeprefix(".")


def _key(key: object) -> str:
    """A name in a path: as it is written, or quoted as in JSON where it would not fit on the line."""
    text = str(key)
    return text if text.isprintable() and len(text) <= MAX_SHOWN else _shown(text)


def _shown(value: object) -> str:
    """The value as evidence: spelled as in JSON, short, on one line."""
    if isinstance(value, dict | list | tuple):
        return "a map" if isinstance(value, dict) else "a list"
    text = json.dumps(value, default=str)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
