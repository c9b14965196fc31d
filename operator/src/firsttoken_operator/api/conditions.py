"""Conditions of the Kubernetes API conventions: one list type shared by every status."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from firsttoken_operator.api.base import ApiModel, Int, described, optional
from firsttoken_operator.api.quantities import MAX_INTEGER, Message, ReasonWord, Timestamp


class ConditionStatus(StrEnum):
    """Truth of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """One aspect of the observed state."""

    type: ReasonWord = described("What the condition is about.")
    status: ConditionStatus = described("Whether it holds; Unknown is neither.")
    reason: ReasonWord = described(
        "Why, in one CamelCase word; the same words as in Events, logs and metrics.", min_length=1
    )
    message: Message = described("Why, in one sentence.", default="")
    last_transition_time: Timestamp = described("When `status` last changed.", unit="RFC 3339 time")
    observed_generation: Int | None = optional(
        "The metadata.generation that the condition was computed from.",
        unit="generation",
        absent="unknown",
        ge=0,
        le=MAX_INTEGER,
    )


Conditions = Annotated[
    tuple[Condition, ...],
    described("The observed state, one entry a condition type.", max_length=16, map_keys=["type"]),
]
