"""A measurement is a type, not a number: unknown can never be mistaken for zero. And how far data can be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_operator.domain.reasons import Reason

LARGEST_VALUE = 1e12
"""No rate, count or latency of a fleet is larger; what claims to be is a broken exporter."""
MAXIMUM_ERROR_SHARE = 0.01
"""Failed requests, 0..1, above which nothing is lowered: latencies of requests that fail early look fine."""


@dataclass(frozen=True, slots=True)
class Value:
    """A number that was really measured. `coverage` is the share (0..1) of the pods that it should cover."""

    value: float
    age_seconds: float = 0.0
    coverage: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.value <= LARGEST_VALUE:
            raise ValueError(f"a measured value is in [0, {LARGEST_VALUE:g}], not {self.value}; see measured()")


@dataclass(frozen=True, slots=True)
class Idle:
    """Proven absence of traffic: every ready pod is up and scraped, and its request counters did not move."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Not known, and why. Never lowers a replica count."""

    reason: Reason
    detail: str = ""


Measurement = Value | Idle | Missing


@dataclass(frozen=True, slots=True)
class Shortcoming:
    """Something that metrics which can be trusted do not tell, and the change that mends it."""

    reason: Reason
    text: str


def measured(value: float, age_seconds: float = 0.0, coverage: float = 1.0) -> Value | Missing:
    """A number as it came from outside: a value if it can be one, else why not."""
    if math.isnan(value):
        return Missing(Reason.NOT_A_NUMBER)
    if not 0 <= value <= LARGEST_VALUE:
        return Missing(Reason.OUT_OF_RANGE, f"{value:g}")
    return Value(value, age_seconds, coverage)


@dataclass(frozen=True, slots=True)
class Health:
    """Trust in data of one state: what it may change."""

    may_raise: bool
    may_lower: bool


_TRUSTED, _LOWER_BOUND, _UNKNOWN = Health(True, True), Health(True, False), Health(False, False)
_HEALTH: dict[str, Health] = {
    Reason.PRESENT: _TRUSTED,
    Reason.IDLE: _TRUSTED,
    Reason.LOW_RESOLUTION: _TRUSTED,
    # A partial set of pods is a lower bound of the demand, and failed requests are demand.
    Reason.PARTIAL: _LOWER_BOUND,
    Reason.ERRORS_PRESENT: _LOWER_BOUND,
}


def health_of(state: str) -> Health:
    """Tell what data in this state of `MetricsHealthy` may change; any other word is no reason to change anything."""
    return _HEALTH.get(state, _UNKNOWN)
