"""firsttoken itself: the operator's own `decide`, with a snapshot of the replayed deployment instead of a cluster's."""

from __future__ import annotations

from dataclasses import replace

from firsttoken_lab.replay.calendar import Calendar
from firsttoken_lab.replay.policies.view import View
from firsttoken_operator.decide import Memory, decide, initial_replicas, judge_facts
from firsttoken_operator.domain import (
    DEPLOYMENT,
    UNKNOWN_TIME_TO_WAKE_SECONDS,
    Decision,
    FleetSnapshot,
    ResourceSnapshot,
    ScalingPolicy,
    Sized,
    Target,
    lead_seconds,
    ready_seconds,
)
from firsttoken_operator.estimate import DEFAULT, EstimatorConfig

TICK_SECONDS = 15.0
_UID = "replayed"


def resource_seen(
    view: View, sized: Sized, policy: ScalingPolicy, uid: str = _UID, namespace: str = ""
) -> ResourceSnapshot:
    """Snapshot of a replayed deployment, in no pool and without a schedule."""
    target = Target(
        uid=uid, kind=DEPLOYMENT, name=uid, replicas=view.replicas, ready=view.ready, starting=view.starting,
        terminating=view.terminating, draining=view.terminating, gpus_per_replica=sized.configuration.gpus_per_replica,
        waits_seconds=view.waits_seconds, p99_start_seconds=view.p99_start_seconds, standby=view.standby,
        asleep=view.asleep,
    )  # fmt: skip
    wake_seconds = view.time_to_wake_seconds
    return ResourceSnapshot(
        uid=uid, namespace=namespace, name=uid, generation=1, policy=policy, sized=sized, target=target,
        metrics=view.metrics, time_to_ready_seconds=ready_seconds(view.time_to_ready_seconds),
        time_to_wake_seconds=UNKNOWN_TIME_TO_WAKE_SECONDS if wake_seconds is None else wake_seconds,
    )  # fmt: skip


class Ours:
    """One resource without a pool, on the operator's interval."""

    name = "firsttoken"

    def __init__(
        self,
        sized: Sized,
        policy: ScalingPolicy,
        interval_seconds: float = TICK_SECONDS,
        calendar: Calendar | None = None,
        *,
        on_prem: bool = False,
        memory: Memory | None = None,
        config: EstimatorConfig = DEFAULT,
    ) -> None:
        """`sized` and `policy` are what the operator would have made of the resource; `interval_seconds`: its tick.

        `calendar`: when the trace happens and what is declared for then; None: a week from Monday without windows.
        `on_prem`: the resource is in a pool of GPUs that are there anyway. `memory`: what a process begins with that
        takes over from another one; None: nothing. `config`: other constants than those that ship.
        """
        self.interval_seconds = interval_seconds
        self._sized, self._policy = sized, policy
        self._calendar = calendar or Calendar()
        self._memory, self._config = memory or Memory(), config
        self.initial = initial_replicas(policy, sized, self._scheduled(0.0, ready_seconds(None)), on_prem=on_prem)
        self.standby = 0
        """Replicas that are to sleep, as decided last."""
        self.decisions: list[Decision] = []
        """Those that changed something, in order."""
        self.capacity_factors: list[tuple[float, float]] = []
        """Capacity as it was learned: when (seconds), and the factor on the sized one, each time it changed."""

    def desired(self, view: View) -> int:
        """One tick of the operator; what changed something is kept."""
        decision = self.decision(view)
        if decision.changes:
            self.decisions.append(decision)
        if not self.capacity_factors or decision.capacity_factor != self.capacity_factors[-1][1]:
            self.capacity_factors.append((view.now_seconds, decision.capacity_factor))
        self.standby = decision.to_standby
        return decision.to_replicas

    def decision(self, view: View) -> Decision:
        """One tick of the operator, with all that it decides."""
        seen = resource_seen(view, self._sized, self._policy)
        resource = replace(
            seen,
            scheduled_requests_per_second=self._scheduled(view.now_seconds, seen.time_to_ready_seconds),
            has_schedule=bool(self._calendar.windows),
        )
        snapshot = FleetSnapshot(
            view.now_seconds,
            self.interval_seconds,
            (resource,),
            epoch_seconds=self._calendar.epoch_seconds(view.now_seconds),
        )
        (decision,), self._memory = decide(judge_facts(snapshot, config=self._config), self._memory, self._config)
        return decision

    def _scheduled(self, now_seconds: float, time_to_ready_seconds: float) -> float | None:
        return self._calendar.scheduled_peak(now_seconds, lead_seconds(time_to_ready_seconds, self.interval_seconds))
