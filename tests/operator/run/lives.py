"""A resource that is decided on, scaled and told about tick after tick, and a process that takes over from it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType

from firsttoken_operator.act.scale import ScaleResult, Write
from firsttoken_operator.act.status import Answer, Observed, document, sizing_status, status_of
from firsttoken_operator.api.status import InferenceDeploymentStatus
from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import (
    Decision,
    FleetSnapshot,
    Metrics,
    PoolSnapshot,
    ResourceSnapshot,
    ScalingPolicy,
    Sized,
    Tick,
)
from firsttoken_operator.run.restore import restored
from firsttoken_sizing.band import Band
from firsttoken_sizing.request import Basis, Sizing
from firsttoken_sizing.workload import Arrivals
from tests.fixtures.worked_examples import call_center
from tests.operator.decide.builders import POLICY, SIZED, TICK_SECONDS, resource, target

EPOCH = 1_790_000_000.0
UID = "r-1"
POOL = PoolSnapshot("h100", budget_gpus=100, inventory_gpus=100, on_prem=False, scale_down_limit_percent=20,
                    scale_down_limit_window_seconds=600)  # fmt: skip


def sizing(sized: Sized = SIZED) -> Sizing:
    """The whole answer that `sized` is a part of."""
    capacity = sized.table.capacity_requests_per_second
    point = sized.table.at(capacity)
    return Sizing(
        request=call_center(),
        feasible=True, reason="", cause=None, configuration=sized.configuration, arrivals=Arrivals.POISSON,
        table=sized.table, replicas=40, replicas_low=40, replicas_high=41, replicas_for_average=6,
        gpus=40, servers=5, peak_requests_per_second=200.0,
        requests_per_second_per_replica=capacity, requests_per_second_per_server=8 * capacity,
        concurrency_per_replica=10.0, ttft=point.ttft, itl=point.itl, end_to_end=point.end_to_end,
        binding_constraint="TTFT P95", basis=Basis.MEASURED, band=Band(0.99, 1.01), utilization_cap_percent=50.0,
    )  # fmt: skip


def read_back(status: InferenceDeploymentStatus) -> InferenceDeploymentStatus:
    """The status as another process reads it from the API server."""
    return InferenceDeploymentStatus.model_validate(document(status))


@dataclass
class Life:
    """One resource under one process. Its pods become ready at once; what is decided is written and told."""

    replicas: int
    policy: ScalingPolicy = POLICY
    memory: Memory = field(default_factory=Memory)
    status: InferenceDeploymentStatus = field(default_factory=InferenceDeploymentStatus)
    ticks: int = 0

    @property
    def now_epoch(self) -> float:
        """Wall clock of the next tick."""
        return EPOCH + self.ticks * TICK_SECONDS

    def snapshot(self, metrics: Metrics) -> FleetSnapshot:
        """Snapshot of the next tick."""
        seen = resource(target(self.replicas), metrics, policy=self.policy, pool=POOL.name)
        now = 50.0 + self.ticks * TICK_SECONDS
        return FleetSnapshot(now, TICK_SECONDS, (seen,), {POOL.name: POOL}, epoch_seconds=self.now_epoch)

    def tick(self, metrics: Metrics) -> Decision:
        """Decide, write, tell; one interval passes."""
        snapshot = self.snapshot(metrics)
        (decision,), self.memory = decide(snapshot, self.memory)
        self.tell(snapshot.resources[0], decision)
        self.replicas = decision.to_replicas
        self.ticks += 1
        return decision

    def tell(self, seen: ResourceSnapshot, decision: Decision) -> None:
        """Write the status that follows from a decision that was carried out."""
        done = ScaleResult(Write.DONE, decision.reason, "", decision.to_replicas)
        result = done if decision.changes else ScaleResult(Write.NONE)
        now = datetime.fromtimestamp(self.now_epoch, UTC)
        answer = Answer(seen.sized, sizing_status(sizing()) if isinstance(seen.sized, Sized) else None)
        self.status = status_of(self.status, Observed(seen, decision, result, answer, now))

    def successor(self, metrics: Metrics) -> Memory:
        """The memory of a process that starts now: what the status says, and the past as Prometheus has it."""
        seen = self.snapshot(metrics).resources[0]
        seed = restored(read_back(self.status), seen, Tick(0.0, TICK_SECONDS, self.now_epoch, TICK_SECONDS))
        known = self.memory.resources.get(UID)
        if seed is None or known is None:
            return Memory()
        return Memory(resources=MappingProxyType({UID: replace(seed, forecast=known.forecast)}))
