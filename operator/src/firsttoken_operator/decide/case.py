"""The input of a decision: one resource at one tick, in one value that goes from the proposal to its explanation."""

from __future__ import annotations

from dataclasses import dataclass

from firsttoken_operator.decide.bounds import Bounds
from firsttoken_operator.domain import Reason, ResourceSnapshot, Target
from firsttoken_operator.estimate import Demand, Forecast, ResourceMemory, Situation


@dataclass(frozen=True, slots=True)
class Case(Situation):
    """A resource that can be scaled: it is sized, its target is there, and no other writer owns the replicas.

    `demand` is None where the metrics prove none, `forecast` where there is none.
    """

    demand: Demand | None
    forecast: Forecast | None
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Unscalable:
    """A resource of which the replicas stay as they are, and why."""

    resource: ResourceSnapshot
    memory: ResourceMemory
    reason: Reason

    @property
    def replicas(self) -> int:
        """Those of the target; 0 where there is none."""
        target = self.resource.target
        return target.replicas if isinstance(target, Target) else 0
