"""Terms on which the pods of a rendered deployment may be replaced."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RolloutPolicy(StrEnum):
    """Moment at which pods that are out of date are replaced."""

    IMMEDIATE = "Immediate"
    WHEN_IDLE = "WhenIdle"
    MANUAL = "Manual"


@dataclass(frozen=True, slots=True)
class RolloutTerms:
    """`spec.runtime.rolloutPolicy`, and the revision of the pods that the resource releases by its annotation."""

    policy: RolloutPolicy = RolloutPolicy.IMMEDIATE
    released: str = ""
