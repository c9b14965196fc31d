"""Predictions at the declared peak with one replica fewer, as sized, and one more. For both kinds of report.

Two different questions are answered side by side, because their answers may differ: are the predicted latencies inside
the limits, and is the load inside the capacity that the size was taken from? Capacity is also bound by the largest
utilization (Poisson), and by what was measured rather than interpolated (closed loop).
"""

from __future__ import annotations

from dataclasses import dataclass

from firsttoken_sizing.performance.limits import bounds, meets
from firsttoken_sizing.performance.table import Operating
from firsttoken_sizing.request import Sizing
from firsttoken_sizing.workload import Sla


@dataclass(frozen=True, slots=True)
class Prediction:
    """One replica of `replicas` that share the declared peak evenly."""

    replicas: int
    operating: Operating
    inside_sla: bool | None
    """True where the predicted latencies keep every limit; None without limits, or where a statistic is not known."""
    inside_capacity: bool
    load_percent: float
    """Rate as a share of the largest one inside the SLA."""
    saturated: bool
    """The rate is above all that is known: latencies grow with every request, the ones shown are lower bounds."""


def predictions(sizing: Sizing) -> tuple[Prediction, ...]:
    """Predictions at N-1 (where that is at least 1), N and N+1 replicas; none for an infeasible sizing."""
    table, peak = sizing.table, sizing.peak_requests_per_second
    if table is None:
        return ()
    result = []
    for replicas in range(max(1, sizing.replicas - 1), sizing.replicas + 2):
        operating = table.at(peak / replicas)
        inside_capacity = table.replicas_for(peak) <= replicas
        # NB: a measured curve ends at its fastest point, which is known and which the size may stand on.
        saturated = operating.saturated and not inside_capacity
        result.append(
            Prediction(
                replicas=replicas,
                operating=operating,
                inside_sla=_inside(operating, sizing.request.sla, saturated),
                inside_capacity=inside_capacity,
                load_percent=100 * peak / replicas / table.capacity_of_one_among(replicas),
                saturated=saturated,
            )
        )
    return tuple(result)


def _inside(at: Operating, sla: Sla, saturated: bool) -> bool | None:
    if not any(bounds(at, sla)):
        return None
    return False if saturated else meets(at, sla)
