"""Tenants of a GPUPool: which namespaces may use it, how many of its GPUs, and how urgent they may call themselves."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from firsttoken_operator.api import forms
from firsttoken_operator.api.base import ApiModel, Int, Rule, described, optional
from firsttoken_operator.api.quantities import LabelValue, Name

MAX_GPUS = 1_000_000
MAX_PRIORITY = 1_000_000

Gpus = Annotated[Int, Field(ge=0, le=MAX_GPUS)]
LabelKey = Annotated[str, Field(max_length=317, pattern=forms.LABEL_KEY)]


class LabelOperator(StrEnum):
    """Comparison of a label with values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


_COMPARE = frozenset({LabelOperator.IN, LabelOperator.NOT_IN})


class LabelRequirement(ApiModel):
    """One requirement on a label."""

    RULES = (
        Rule(
            cel="(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            problem="In and NotIn compare with values, Exists and DoesNotExist with none",
            fix="list values, or change operator",
            holds=lambda r: (r.operator in _COMPARE) == bool(r.values),
            field="values",
        ),
    )

    key: LabelKey = described("Key of the label.")
    operator: LabelOperator = described("How the label is compared.")
    values: tuple[LabelValue, ...] = described(
        "Values to compare with.", absent="operator compares with none", default=(), max_length=16
    )

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Tell whether labels meet it, as Kubernetes does: what is absent is not in any list."""
        match self.operator:
            case LabelOperator.IN:
                return labels.get(self.key) in self.values
            case LabelOperator.NOT_IN:
                return labels.get(self.key) not in self.values
            case LabelOperator.EXISTS:
                return self.key in labels
            case LabelOperator.DOES_NOT_EXIST:
                return self.key not in labels


class LabelSelector(ApiModel):
    """A label selector of Kubernetes: all that it lists has to hold, and an empty one selects everything."""

    match_labels: dict[str, LabelValue] = described(
        "Labels that are there with these values.", absent="none is asked for", default_factory=dict, max_length=8
    )
    match_expressions: tuple[LabelRequirement, ...] = described(
        "Requirements on labels.", absent="none is asked for", default=(), max_length=8
    )

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Tell whether it selects what has these labels."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.holds(labels) for requirement in self.match_expressions
        )


class Admits(StrEnum):
    """Deployments of a tenant that are in the pool."""

    NAMED = "Named"
    ALL = "All"


class TenantSpec(ApiModel):
    """A group of namespaces that shares a part of the pool."""

    name: Name = described("Name of the tenant in this pool.")
    namespace_selector: LabelSelector = described(
        "Namespaces of the tenant, by their labels; kubernetes.io/metadata.name is the name of each."
    )
    quota_gpus: Gpus | None = optional(
        "Most GPUs that its deployments may hold together, minimums included.",
        unit="GPUs",
        absent="the whole pool",
    )
    max_priority: Annotated[Int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] | None = optional(
        "Highest priority of its deployments; a higher capacity.priority counts as this one.",
        unit="rank",
        absent="no limit",
    )
    weight: Int = described(
        "Share of the tenant where GPUs are short and priorities are equal, against the weights of the others.",
        default=1,
        unit="parts",
        ge=1,
        le=1000,
    )
    admits: Admits = described(
        "Named: deployments that name the pool. All: also those that name none and may use its GPU type, whose default "
        "pool it is.",
        default=Admits.NAMED,
    )
