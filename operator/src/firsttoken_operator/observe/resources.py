"""Custom resources as the store keeps them: parsed, or with the problem that keeps them from being parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from firsttoken_operator.api.base import STORED, UNREADABLE, ApiModel
from firsttoken_operator.api.problems import problems_of
from firsttoken_operator.observe.projections import Body, count

PROBLEM_CHARACTERS = 300

Parsed = TypeVar("Parsed", bound=ApiModel)


@dataclass(frozen=True, slots=True)
class Stored(Generic[Parsed]):
    """A custom resource; `parsed` is None where `problem` is set."""

    uid: str
    namespace: str
    name: str
    generation: int
    created: str
    deleting: bool
    parsed: Parsed | None
    problem: str
    status: Any = None
    """Status that the API server has, as the model of the kind; empty where it cannot be read, None: it has none.

    NB: that of `parsed`, where there is one: a status is most of what a resource takes in memory.
    """


def read_resource(model: type[Parsed], body: Body) -> Stored[Parsed]:
    """Parse a custom resource; never raises for what its author wrote."""
    metadata, status = body["metadata"], body.get("status")
    parsed, problem = _parse(model, body)
    if parsed is None and status:
        # A newer operator may have written a status in a form that this one does not know.
        parsed, problem = _parse(model, {key: value for key, value in body.items() if key != "status"})
    return Stored(
        uid=metadata["uid"],
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        generation=count(metadata.get("generation")),
        created=str(metadata.get("creationTimestamp", "")),
        deleting=bool(metadata.get("deletionTimestamp")),
        parsed=parsed,
        problem=problem,
        status=getattr(parsed, "status", None) if parsed is not None else _status(model, status),
    )


def _status(model: type[ApiModel], written: object) -> ApiModel | None:
    """The status of an object that cannot be parsed; empty where it cannot be read either, None: the kind has none."""
    field = model.model_fields.get("status")
    if field is None:
        return None
    kind: type[ApiModel] = field.annotation  # type: ignore[assignment]
    try:
        return kind.model_validate(written)
    except ValidationError:
        return kind()


def _parse(model: type[Parsed], body: Body) -> tuple[Parsed | None, str]:
    """The object, or its first problem (field, problem, fix) and how many more there are."""
    if unread := body.get(UNREADABLE):
        return None, f"{unread}; take out what does not belong there"
    try:
        return model.model_validate(body, context=STORED), ""
    except ValidationError as error:
        problems = problems_of(error)
        first = problems[0]
        more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
        return None, f"{first.field}: {first.problem}; {first.fix}"[:PROBLEM_CHARACTERS] + more
