"""With how many replicas a new deployment starts: the operator creates it with them, and a replay begins with them."""

from __future__ import annotations

from firsttoken_operator.decide.bounds import declared_bounds
from firsttoken_operator.domain import ScalingPolicy, Sized


def initial_replicas(
    policy: ScalingPolicy, sized: Sized, scheduled_requests_per_second: float | None = None, *, on_prem: bool
) -> int:
    """Replicas of a new deployment, inside its bounds and at least 1.

    On-prem the GPUs are there: those for the declared peak. In the cloud those for the declared average, where one is
    declared. `scheduled_requests_per_second`: the largest peak that a window declares from now until a new pod would be
    ready, None where none is open; it raises both bounds.

    NB: never 0, whatever `minReplicas` is: nothing is known of the traffic yet, and idleness has to be proven.
    """
    average = sized.replicas_for_declared_average
    wanted = sized.replicas_for_declared_peak if on_prem or average is None else average
    limits = declared_bounds(policy, sized, scheduled_requests_per_second)
    return max(1, min(max(wanted, limits.lower), limits.upper))
