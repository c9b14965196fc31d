"""The bounds table: how few and how many replicas a resource may have, before its pool is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_operator.domain import Reason, ScalingPolicy, Sized


@dataclass(frozen=True, slots=True)
class Bounds:
    """Inclusive limits in replicas; `limited_by` names what makes the upper one."""

    lower: int
    upper: int
    limited_by: Reason


def bounds(policy: ScalingPolicy, sized: Sized) -> Bounds:
    """Lower: `minReplicas`. Upper: the declared peak's size plus the burst headroom, and `maxReplicas`.

    A minimum above the headroom wins over it (the user asked for it), `maxReplicas` wins over both.
    """
    lower = max(1, policy.min_replicas)
    # NB: integer arithmetic: 39 x 1.1 is 42.900000000000006 in floating point.
    headroom = math.ceil(sized.replicas_for_declared_peak * (100 + policy.burst_headroom_percent) / 100)
    upper, limited_by = max(headroom, lower), Reason.BURST_HEADROOM
    if policy.max_replicas is not None and policy.max_replicas < upper:
        upper, limited_by = policy.max_replicas, Reason.MAX_REPLICAS
    return Bounds(lower=min(lower, upper), upper=upper, limited_by=limited_by)
