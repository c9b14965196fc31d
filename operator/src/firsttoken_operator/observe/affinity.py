"""Required node affinity of a pod template, as far as it tells on which nodes its pods may come. Pure.

Terms are alternatives; all expressions of one hold together, and a term without any selects no node, as for the
scheduler (Kubernetes 1.36, `nodeaffinity.go`). What is not understood selects no node either: nothing is held back for
where pods only might come.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from firsttoken_operator.domain.target_kinds import at
from firsttoken_operator.observe.nodes import NodeView
from firsttoken_operator.observe.projections import Body

REQUIRED = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
MOST_KEPT = 100
"""Size up to which an affinity is kept: alternatives, expressions of one, and values of an expression."""
_INTEGER = re.compile(r"[+-]?\d{1,18}")


@dataclass(frozen=True, slots=True)
class Expression:
    """A comparison of a label of a node with values; the key of a field is `metadata.name`."""

    key: str
    operator: str
    values: tuple[str, ...]

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a node with these labels is selected."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
        return False

    def _compares(self, value: str | None) -> bool:
        texts = (value or "", *self.values)
        if len(texts) != 2 or not all(_INTEGER.fullmatch(text) for text in texts):
            return False
        number, other = map(int, texts)
        return number > other if self.operator == "Gt" else number < other


@dataclass(frozen=True, slots=True)
class Alternative:
    """Expressions about the labels and about the fields of a node, of which there is its name: one term."""

    labels: tuple[Expression, ...]
    fields: tuple[Expression, ...]

    def selects(self, node: NodeView) -> bool:
        """Tell whether all of them hold for a node."""
        name = {"metadata.name": node.name}
        return all(each.holds(node.labels) for each in self.labels) and all(each.holds(name) for each in self.fields)


Affinity = tuple[Alternative, ...]
"""Alternatives, of which one selects a node; with none, no node is selected."""


def affinity_of(pod_spec: Body) -> Affinity | None:
    """The required affinity; None: every node will do. Terms that are too large are left out, and so select none."""
    terms = at(pod_spec, REQUIRED)
    if terms is None:
        return None
    found = (_term(term) for term in islice(terms, MOST_KEPT))
    return tuple(term for term in found if term is not None)


def _term(body: Body) -> Alternative | None:
    labels, fields = body.get("matchExpressions") or (), body.get("matchFields") or ()
    sizes = [len(each.get("values") or ()) for each in (*labels, *fields)]
    if not sizes or max(len(sizes), *sizes) > MOST_KEPT:
        return None
    return Alternative(tuple(map(_expression, labels)), tuple(map(_expression, fields)))


def _expression(body: Body) -> Expression:
    values = tuple(str(value) for value in body.get("values") or ())
    return Expression(str(body.get("key", "")), str(body.get("operator", "")), values)
