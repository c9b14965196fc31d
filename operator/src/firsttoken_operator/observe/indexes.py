"""Indexes of the store: objects by uid, and the members of an owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from firsttoken_operator.observe.projections import AutoscalerView, Body

View = TypeVar("View")
Handlers = tuple[Callable[[Body], None], Callable[[str], object]]
"""Pair of a function that takes an object, and one that drops that of a uid."""


def kept(views: dict[str, View], read: Callable[[Body], View]) -> Handlers:
    """Make the handlers of objects that are kept by uid, and of which nothing else depends."""

    def put(body: Body) -> None:
        view = read(body)
        views[body["metadata"]["uid"]] = view

    return put, lambda uid: views.pop(uid, None)


def named_labels(body: Body) -> tuple[str, Mapping[str, str]]:
    """Name and labels of an object."""
    return body["metadata"]["name"], dict(body["metadata"].get("labels") or {})


def scaled(view: AutoscalerView) -> str:
    """Key of what an autoscaler scales."""
    return f"{view.target_kind}/{view.namespace}/{view.target_name}"


def unlink(index: dict[str, set[str]], owner: str, member: str) -> None:
    """Take a member out of the set of its owner; a set that is empty goes."""
    members = index.get(owner)
    if members is not None:
        members.discard(member)
        if not members:
            del index[owner]
