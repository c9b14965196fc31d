"""Demand: what arrived, not what was served, plus what drains the backlog in time."""

from __future__ import annotations

from dataclasses import dataclass

from firsttoken_operator.decide.memory import DemandSample
from firsttoken_operator.domain import Idle, Metrics, Reason, ScalingPolicy, Value

HEALTHY = frozenset({Reason.PRESENT, Reason.IDLE, Reason.LOW_RESOLUTION})
"""Data that may lower replicas."""

USABLE = HEALTHY | {Reason.PARTIAL, Reason.ERRORS_PRESENT}
"""Data that may raise replicas: a partial set of pods is a lower bound of the demand, failed requests are demand."""

DEADBAND_PERCENT = 5
"""A scale-down must still fit with this much more demand, so that noise does not bring the replica back."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests a second to be served now: arrivals, and the share that works off the backlog."""

    arrivals_per_second: float
    backlog_requests: float
    backlog_per_second: float

    @property
    def total_per_second(self) -> float:
        """What the replicas have to serve, requests a second."""
        return self.arrivals_per_second + self.backlog_per_second


def demand(metrics: Metrics, policy: ScalingPolicy) -> Demand | None:
    """The demand that the metrics prove, or None where they prove nothing (which is not zero)."""
    if metrics.health not in USABLE:
        return None
    if metrics.health is Reason.IDLE or isinstance(metrics.arrivals, Idle):
        return Demand(0.0, 0.0, 0.0)
    if not isinstance(metrics.arrivals, Value):
        return None
    waiting = metrics.waiting.value if isinstance(metrics.waiting, Value) else 0.0
    return Demand(metrics.arrivals.value, waiting, waiting / policy.backlog_drain_seconds)


def window_maximum(samples: tuple[DemandSample, ...]) -> float:
    """Largest raw demand of the samples, requests a second (0 without samples)."""
    return max((s.requests_per_second for s in samples), default=0.0)


def recent(samples: tuple[DemandSample, ...], clock_seconds: float, window_seconds: float) -> tuple[DemandSample, ...]:
    """The samples of the last `window_seconds`."""
    return tuple(s for s in samples if s.at_seconds >= clock_seconds - window_seconds)
