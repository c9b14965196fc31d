"""The input of the estimators at one tick, in one value that goes through all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_operator.domain import Metrics, ResourceSnapshot, Sized, Target, Tick, lead_seconds
from firsttoken_operator.estimate.calibration import budget_consumption, capacity_factor, irreducible_miss_rate
from firsttoken_operator.estimate.config import EstimatorConfig
from firsttoken_operator.estimate.memory import ResourceMemory


@dataclass(frozen=True, slots=True)
class Situation:
    """A resource that can be scaled, at one tick, with what is remembered of it."""

    resource: ResourceSnapshot
    target: Target
    sized: Sized
    memory: ResourceMemory
    tick: Tick
    config: EstimatorConfig

    @property
    def metrics(self) -> Metrics:
        """Live signals of the last window."""
        return self.resource.metrics

    @property
    def lead_seconds(self) -> float:
        """Time to look ahead: until a pod that is ordered now is ready."""
        return lead_seconds(self.resource.next_replica_seconds, self.tick.interval_seconds)

    @property
    def capacity_factor(self) -> float:
        """The corrected capacity of a replica as a share of the sized one."""
        return capacity_factor(self.memory.calibration, self.config)

    @property
    def irreducible_miss_rate(self) -> float:
        """Share of first tokens, 0..1, that are late on any number of replicas."""
        return irreducible_miss_rate(self.memory.calibration, self.metrics, self.sized, self.config)

    @property
    def consumed_budgets(self) -> float:
        """Error budgets that about the last day consumed; 1 is what is aimed at."""
        return budget_consumption(self.memory.calibration, self.sized.sla, self.config)

    @property
    def is_settled(self) -> bool:
        """True where the window shows one fleet: nothing came, went or changed in it. Else it says nothing of it."""
        target, memory = self.target, self.memory
        in_transition = target.starting or target.terminating or target.rollout or target.ready < target.replicas
        changes = [at for at in (memory.changed_seconds, memory.ready_changed_seconds) if at is not None]
        settled = self.tick.clock_seconds - max(changes, default=-math.inf) > self.metrics.window_seconds
        return settled and not in_transition and target.ready > 0
