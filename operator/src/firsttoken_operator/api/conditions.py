"""Conditions of the Kubernetes API conventions: one list type shared by every status."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from firsttoken_operator.api.base import ApiModel, Int, described
from firsttoken_operator.api.quantities import MAX_INTEGER, Message, Timestamp


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """One aspect of the observed state."""

    type: Annotated[
        str, Field(max_length=64, pattern=r"^[A-Z][A-Za-z0-9]*$"), described("What the condition is about.")
    ]
    status: Annotated[ConditionStatus, described("Whether it holds; Unknown is neither.")]
    reason: Annotated[
        str,
        Field(min_length=1, max_length=64, pattern=r"^[A-Z][A-Za-z0-9]*$"),
        described("Why, in one CamelCase word; the same words as in Events, logs and metrics."),
    ]
    message: Annotated[Message, described("Why, in one sentence.")] = ""
    last_transition_time: Annotated[Timestamp, described("When `status` last changed.", unit="RFC 3339 time")]
    observed_generation: Annotated[
        Int | None,
        Field(ge=0, le=MAX_INTEGER),
        described("The metadata.generation that the condition was computed from.", unit="generation", absent="unknown"),
    ] = None


Conditions = Annotated[
    tuple[Condition, ...],
    Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    described("The observed state, one entry a condition type."),
]
