"""Label selectors as texts: what a scale subresource says of the pods that it counts.

Grammar: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

LONGEST_CHARACTERS = 4096
"""Length of a selector that is read: who may write a status may write a megabyte, and it is read between two ticks."""

# NB: what is possessive (`*+`) is never read in a second way, so that the time grows with the length and no faster.
_REQUIREMENT = re.compile(
    r"\s*+(?:(?P<absent>!)\s*+(?P<lacked>[^\s,!=()]++)"
    r"|(?P<name>[^\s,!=()]++)\s*+"
    r"(?:(?P<way>in|notin)\s*+\((?P<several>[^()]*+)\)|(?P<sign>==|=|!=)\s*+(?P<one>[^\s,!=()]*+))?)"
    r"\s*+(?:,|$)"
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on one label: `values` that it must have, or must not where `excludes`; None: any."""

    name: str
    values: frozenset[str] | None
    excludes: bool = False

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Tell whether the labels meet it; a label that is absent meets what excludes."""
        found = labels.get(self.name)
        met = found is not None and (self.values is None or found in self.values)
        return met is not self.excludes


Selector = tuple[Requirement, ...]
"""Conditions of which all must hold."""


def selector_of(labels: Mapping[str, str]) -> Selector:
    """The selector of what has these labels."""
    return tuple(Requirement(name, frozenset({value})) for name, value in labels.items())


def parse(text: str) -> Selector | None:
    """The selector that a text says; None: it says none, is longer than `LONGEST_CHARACTERS`, or cannot be read."""
    if len(text) > LONGEST_CHARACTERS:
        return None
    found: list[Requirement] = []
    at = 0
    while at < len(text):
        part = _REQUIREMENT.match(text, at)
        if part is None:
            return None
        found.append(_requirement(part))
        at = part.end()
    return tuple(found) or None


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Tell whether these labels meet every requirement."""
    return all(requirement.holds(labels) for requirement in selector)


def _requirement(part: re.Match[str]) -> Requirement:
    if part["absent"]:
        return Requirement(part["lacked"], None, excludes=True)
    if part["several"] is not None:
        values = frozenset(value.strip() for value in part["several"].split(","))
        return Requirement(part["name"], values, excludes=part["way"] == "notin")
    if part["sign"]:
        return Requirement(part["name"], frozenset({part["one"]}), excludes=part["sign"] == "!=")
    return Requirement(part["name"], None)
