"""The bounds table: with how many replicas a resource starts, and how few and how many it may have."""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_operator.decide.zero import can_come_back
from firsttoken_operator.domain import Reason, ResourceSnapshot, ScalingPolicy, Sized
from firsttoken_sizing.rounding import ceiling


@dataclass(frozen=True, slots=True)
class Bounds:
    """Inclusive limits in replicas; `limited_by` names what makes the upper one, `lower_by` the lower one."""

    lower: int
    upper: int
    limited_by: Reason
    lower_by: Reason = Reason.MIN_REPLICAS


def declared_bounds(policy: ScalingPolicy, sized: Sized, scheduled_requests_per_second: float | None = None) -> Bounds:
    """`minReplicas`, or what a declared window asks for; and the declared peak with its headroom, or `maxReplicas`.

    Where the error band is wide, the declared peak takes what its careful end says: it may need that many.
    The declared peak is that of a window which is open or opens before a new pod would be ready, where that is more. A
    minimum above the headroom wins over it (the user asked for it), `maxReplicas` wins over both.
    """
    lower, lower_by = policy.min_replicas, Reason.MIN_REPLICAS
    declared = careful(sized, sized.replicas_for_declared_peak)
    if scheduled_requests_per_second is not None:
        scheduled = sized.table.replicas_for(scheduled_requests_per_second)
        declared = max(declared, scheduled)
        if scheduled > lower:
            lower, lower_by = scheduled, Reason.SCHEDULED_PEAK
    # NB: integer arithmetic: 39 x 1.1 is 42.900000000000006 in floating point.
    headroom = math.ceil(declared * (100 + policy.burst_headroom_percent) / 100)
    upper, limited_by = max(headroom, lower, 1), Reason.BURST_HEADROOM
    if policy.max_replicas is not None and policy.max_replicas < upper:
        upper, limited_by = policy.max_replicas, Reason.MAX_REPLICAS
    return Bounds(min(lower, upper), upper, limited_by, lower_by)


def careful(sized: Sized, replicas: int) -> int:
    """So many replicas as one that carries the least takes in place of `replicas`, where the error band is wide."""
    if sized.careful_share == 1:
        return replicas
    if replicas == sized.replicas_for_declared_peak:
        return max(replicas, sized.most_replicas_for_declared_peak)
    return ceiling(replicas / sized.careful_share)


def resource_bounds(resource: ResourceSnapshot, sized: Sized) -> Bounds:
    """The bounds now. The last replica goes only where something could call it back."""
    limits = declared_bounds(resource.policy, sized, resource.scheduled_requests_per_second)
    if limits.lower > 0 or can_come_back(resource):
        return limits
    return Bounds(1, limits.upper, limits.limited_by, Reason.NO_WAKE_UP_SIGNAL)


def initial_replicas(
    policy: ScalingPolicy, sized: Sized, scheduled_requests_per_second: float | None = None, *, on_prem: bool
) -> int:
    """Replicas of a new deployment, inside its bounds and at least 1.

    On-prem the GPUs are there: those for the declared peak. In the cloud those for the declared average, where one is
    declared. Both at the careful end of a wide error band: the first requests say how many are too many.
    `scheduled_requests_per_second`: the largest peak that a window declares from now until a new pod would be ready,
    None where none is open; it raises both bounds.

    NB: never 0, whatever `minReplicas` is: nothing is known of the traffic yet, and idleness has to be proven.
    """
    average = sized.replicas_for_declared_average
    wanted = careful(sized, sized.replicas_for_declared_peak if on_prem or average is None else average)
    limits = declared_bounds(policy, sized, scheduled_requests_per_second)
    return max(1, min(max(wanted, limits.lower), limits.upper))
