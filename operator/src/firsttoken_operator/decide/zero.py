"""A resource that its own policy keeps at 0 replicas is scaled to zero, not broken: what calls it back, what it says.

A target that went to 0 while `minReplicas` was not 0 was taken out of service from outside, and is none of this.
"""

from __future__ import annotations

from firsttoken_operator.domain import Measurement, Missing, Reason, ResourceSnapshot, Target
from firsttoken_operator.estimate import can_wake_up

SLEEPING = frozenset({Reason.SCALED_TO_ZERO, Reason.NO_WAKE_UP_SIGNAL})
"""Reasons of the condition MetricsHealthy of a resource at 0 replicas that its own policy put there."""


def is_at_zero(resource: ResourceSnapshot) -> bool:
    """Tell whether the target has no replicas and `minReplicas: 0` allows that."""
    return isinstance(resource.target, Target) and resource.target.replicas == 0 == resource.policy.min_replicas


def can_come_back(resource: ResourceSnapshot) -> bool:
    """Tell whether a gateway that is heard would call the first replica back, or a schedule where there is none.

    A gateway that should count and is not heard is an outage, whatever else is declared.
    """
    started = resource.metrics.gateway_arrivals
    silent = isinstance(started, Missing) and started.reason is not Reason.SOURCE_NOT_CONFIGURED
    return can_wake_up(resource.metrics) or (resource.has_schedule and not silent)


def what_wakes_it_up(resource: ResourceSnapshot) -> str:
    """One clause about a resource at 0 replicas."""
    if can_wake_up(resource.metrics):
        also = " or a window of traffic.schedule" if resource.has_schedule else ""
        return f"scaled to 0; a request that the gateway counts{also} wakes it up"
    if can_come_back(resource):
        return "scaled to 0; a window of traffic.schedule wakes it up, requests before it are not seen"
    return f"scaled to 0, and nothing tells of requests ({_why_unknown(resource.metrics.gateway_arrivals)})"


def what_would_allow_zero(resource: ResourceSnapshot) -> str:
    """One sentence to who declared `minReplicas: 0` and sees one replica."""
    return (
        f"nothing would tell of requests at 0 replicas ({_why_unknown(resource.metrics.gateway_arrivals)}): one stays; "
        "have the chart name a counter of the gateway, or declare traffic.schedule"
    )


def _why_unknown(measurement: Measurement) -> str:
    if not isinstance(measurement, Missing):
        return "no gateway is counted"
    return f"{measurement.reason}: {measurement.detail}" if measurement.detail else str(measurement.reason)
