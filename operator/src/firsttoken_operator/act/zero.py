"""What a resource says of itself while its own policy keeps it at 0 replicas: asleep is not broken. Pure.

Whether it goes to 0 and when it comes back is decided elsewhere. A target at 0 whose `minReplicas` is not 0 was taken
out of service by somebody, and is none of this.
"""

from __future__ import annotations

from firsttoken_operator.decide.bounds import can_come_back, resource_bounds
from firsttoken_operator.domain import Decision, Measurement, Missing, Reason, ResourceSnapshot, Sized, Target
from firsttoken_operator.estimate import can_wake_up


def is_at_zero(resource: ResourceSnapshot) -> bool:
    """Whether the target has no replicas and `minReplicas: 0` allows that."""
    return isinstance(resource.target, Target) and resource.target.replicas == 0 == resource.policy.min_replicas


def what_wakes_it_up(resource: ResourceSnapshot) -> str:
    """One clause about a resource at 0 replicas."""
    if can_wake_up(resource.metrics):
        also = " or a window of traffic.schedule" if resource.has_schedule else ""
        return f"scaled to 0; a request that the gateway counts{also} wakes it up"
    if can_come_back(resource):
        return "scaled to 0; a window of traffic.schedule wakes it up, requests before it are not seen"
    return f"scaled to 0, and nothing tells of requests ({_why_unknown(resource.metrics.gateway_arrivals)})"


def lacks_a_signal(resource: ResourceSnapshot, decision: Decision) -> bool:
    """Whether the last replica would go, if only something could call it back."""
    return (
        isinstance(resource.sized, Sized)
        and decision.recommended == 0
        and decision.to_replicas == 1
        and resource_bounds(resource, resource.sized).lower_by is Reason.NO_WAKE_UP_SIGNAL
    )


def what_would_allow_zero(resource: ResourceSnapshot) -> str:
    """One sentence to somebody who declared `minReplicas: 0` and sees one replica."""
    return (
        f"nothing would tell of requests at 0 replicas ({_why_unknown(resource.metrics.gateway_arrivals)}): one stays; "
        "have the chart name a counter of the gateway, or declare traffic.schedule"
    )


def _why_unknown(measurement: Measurement) -> str:
    if not isinstance(measurement, Missing):
        return "no gateway is counted"
    return f"{measurement.reason}: {measurement.detail}" if measurement.detail else str(measurement.reason)
