"""firsttoken itself: the operator's own `decide`, with a snapshot of the replayed deployment instead of a cluster's."""

from __future__ import annotations

from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import FleetSnapshot, ResourceSnapshot, ScalingPolicy, Sized, Target
from firsttoken_operator.domain.decision import Decision
from firsttoken_operator.replay.policies.view import View

TICK_SECONDS = 15.0
_UID = "replayed"


class Ours:
    """One resource without a pool, on the operator's interval."""

    name = "firsttoken"
    interval_seconds = TICK_SECONDS

    def __init__(self, sized: Sized, policy: ScalingPolicy) -> None:
        """`sized` and `policy` are what the operator would have made of the resource."""
        self._sized, self._policy = sized, policy
        self._memory = Memory()
        self.decisions: list[Decision] = []
        """Those that changed something, in order."""

    def initial(self) -> int:
        """As the operator creates a fleet in the cloud: for the declared average, else for the peak."""
        average = self._sized.replicas_for_declared_average
        replicas = self._sized.replicas_for_declared_peak if average is None else average
        return max(self._policy.min_replicas, replicas)

    def desired(self, view: View) -> int:
        """One tick of the operator."""
        target = Target(
            uid=_UID, kind="Deployment", name=_UID, replicas=view.replicas, ready=view.ready, starting=view.starting,
            terminating=view.terminating, gpus_per_replica=self._sized.configuration.gpus_per_replica,
        )  # fmt: skip
        resource = ResourceSnapshot(
            uid=_UID, namespace="", name=_UID, generation=1, policy=self._policy, sized=self._sized, target=target,
            metrics=view.metrics,
        )  # fmt: skip
        (decision,), self._memory = decide(FleetSnapshot(view.now_seconds, TICK_SECONDS, (resource,)), self._memory)
        if decision.changes:
            self.decisions.append(decision)
        return decision.to_replicas
