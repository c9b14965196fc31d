"""A measurement is a type, not a number: unknown can never be mistaken for zero."""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_operator.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class Value:
    """A number that was really measured. `coverage` is the share (0..1) of the pods that it should speak for."""

    value: float
    age_seconds: float = 0.0
    coverage: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value >= 0):
            raise ValueError(f"a measured value is finite and >= 0, not {self.value}; use Missing(OutOfRange)")


@dataclass(frozen=True, slots=True)
class Idle:
    """Proven absence of traffic: every ready pod is up and scraped, and its request counters did not move."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Not known, and why. Never lowers a replica count."""

    reason: Reason
    detail: str = ""


Measurement = Value | Idle | Missing
