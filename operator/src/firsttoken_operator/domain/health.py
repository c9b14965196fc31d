"""What live data may change: which state of the metrics may raise replicas, and which may lower them."""

from __future__ import annotations

from dataclasses import dataclass

from firsttoken_operator.domain.reasons import Reason

MAXIMUM_ERROR_SHARE = 0.01
"""Failed requests, 0..1, above which nothing is lowered: latencies of requests that fail early look fine."""


@dataclass(frozen=True, slots=True)
class Health:
    """How far data in one state can be trusted."""

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
    """What data in this state of `MetricsHealthy` may change; any other word is no reason to change anything."""
    return _HEALTH.get(state, _UNKNOWN)
