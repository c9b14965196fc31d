"""Small builders for the values that a decision reads, and a stepper that runs ticks with memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import (
    Decision,
    FleetSnapshot,
    Metrics,
    Missing,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    ScaleDown,
    ScalingMode,
    ScalingPolicy,
    Sized,
    Target,
    TargetMissing,
    TtftInterval,
    Unsized,
    Value,
)
from firsttoken_sizing.performance.table import CapacityTable
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.workload import Limit, Percentile, Sla

TICK_SECONDS = 15.0
SLA = Sla(time_to_first_token=Limit(300, Percentile.P95))


def table(capacity: float = 5.0) -> CapacityTable:
    """A table whose TTFT P95 is 60 ms when idle and reaches the SLA of 300 ms exactly at the capacity."""
    rates = np.linspace(0.05, 2.0, 40) * capacity
    p95 = 60 + 240 * (rates / capacity) ** 2
    columns = np.column_stack([p95 / 2, p95 / 2, p95 * 0.8, p95, p95 * 1.3])
    return CapacityTable(
        rates=rates,
        ttft=columns,
        itl=np.full_like(columns, 8.0),
        end_to_end=columns + 1600,
        kv_percent=np.minimum(100.0, 20 * rates / capacity),
        capacity_requests_per_second=capacity,
        saturation_requests_per_second=2.0 * capacity,
    )


SIZED = Sized(
    configuration=ConfigurationKey("meta-llama/Meta-Llama-3-8B-Instruct", "H100-SXM-80GB", "FP8"),
    table=table(),
    sla=SLA,
    replicas_for_declared_peak=40,
    replicas_for_declared_average=6,
)

POLICY = ScalingPolicy(
    mode=ScalingMode.ACTIVE,
    min_replicas=2,
    max_replicas=None,
    burst_headroom_percent=50,
    scale_down=ScaleDown.ALWAYS,
    stabilization_seconds=300,
    scale_down_step_percent=25,
    backlog_drain_seconds=60,
    metrics_loss_grace_seconds=900,
)


def target(replicas: int, **changes: object) -> Target:
    """A settled target: every replica is ready."""
    base = Target(
        uid="d-1",
        kind="Deployment",
        name="nim",
        replicas=replicas,
        ready=replicas,
        gpus_per_replica=1,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def metrics(arrivals: float, /, **changes: object) -> Metrics:
    """Healthy metrics with this arrival rate, nothing waiting and a TTFT well inside the SLA."""
    base = Metrics(
        health=Reason.PRESENT,
        detail="",
        arrivals=Value(arrivals),
        first_tokens=Value(arrivals),
        waiting=Value(0),
        running=Value(arrivals * 2),
        error_share=Value(0),
        kv_percent=Value(10),
        ttft=TtftInterval(60, 100, 80, 1000),
        window_seconds=60,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def lost(health: Reason = Reason.MISSING, cause: Reason = Reason.SOURCE_UNREACHABLE) -> Metrics:
    """Metrics that say nothing."""
    nothing = Missing(cause)
    return Metrics(health, str(cause), nothing, nothing, nothing, nothing, nothing, nothing, None, 60)


def resource(tgt: Target | TargetMissing, mtr: Metrics, **changes: object) -> ResourceSnapshot:
    """One resource without a pool."""
    base = ResourceSnapshot(
        uid="r-1",
        namespace="call-center",
        name="support-rag",
        generation=1,
        policy=POLICY,
        sized=SIZED,
        target=tgt,
        metrics=mtr,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


@dataclass
class Fleet:
    """Runs ticks over one resource whose pods become ready at once, carrying memory from tick to tick."""

    replicas: int
    policy: ScalingPolicy = POLICY
    sized: Sized | Unsized = SIZED
    memory: Memory = field(default_factory=Memory)
    now_seconds: float = 1000.0
    pools: dict[str, PoolSnapshot] = field(default_factory=dict)
    pool: str | None = None

    def tick(self, mtr: Metrics, apply: bool = True, **target_changes: object) -> Decision:
        """Decide once, apply the decision, and let one interval pass."""
        tgt = target(self.replicas, **target_changes)
        r = resource(tgt, mtr, policy=self.policy, sized=self.sized, pool=self.pool)
        snapshot = FleetSnapshot(self.now_seconds, TICK_SECONDS, (r,), self.pools)
        (decision,), self.memory = decide(snapshot, self.memory)
        if apply:
            self.replicas = decision.to_replicas
        self.now_seconds += TICK_SECONDS
        return decision

    def run(self, mtr: Metrics, seconds: float, **target_changes: object) -> list[Decision]:
        """Tick with the same metrics for `seconds`."""
        return [self.tick(mtr, **target_changes) for _ in range(round(seconds / TICK_SECONDS))]

    def restart(self) -> None:
        """A new process: everything remembered is gone."""
        self.memory = Memory()
