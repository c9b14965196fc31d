"""Small builders for the values that a decision reads, and a stepper that runs ticks with memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import (
    DEPLOYMENT,
    Decision,
    FleetSnapshot,
    Idle,
    LateShare,
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
from firsttoken_operator.estimate import DEFAULT, Calibration, ResourceMemory, capacity_factor
from firsttoken_sizing.performance.table import CapacityTable
from firsttoken_sizing.performance.work import Work
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


WORK = Work(
    seconds_per_prefill_token=2e-5, seconds_per_prefill_token_squared=0.0, seconds_per_output_token=2e-4,
    seconds_per_context_token=0.0, input_tokens=3000.0, uncached_share=1.0, output_tokens=201.0,
)  # fmt: skip
"""A request of the declared lengths costs 60 ms of prefill and 40 ms of decoding."""


def worked_table(capacity: float = 5.0) -> CapacityTable:
    """`table` with what tokens cost, and steps that grow with the batch: the requests inside tell the speed."""
    plain = table(capacity)
    return replace(plain, itl=np.outer(8 + 6 * plain.rates / capacity, np.ones(5)), work=WORK)


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
        kind=DEPLOYMENT,
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


def late(share: float, requests: float = 1000) -> TtftInterval:
    """A TTFT histogram with this share of first tokens after the limit of `SLA`, known exactly."""
    low, high = (60.0, 300.0) if share <= 0.05 else (300.0, 600.0)
    return TtftInterval(low, high, (low + high) / 2, requests, LateShare(share, share, share))


def idle(**changes: object) -> Metrics:
    """Metrics that prove that no request comes."""
    quiet = {"arrivals": Idle(), "first_tokens": Idle(), "error_share": Idle(), "ttft": None, "running": Value(0)}
    return metrics(0, health=Reason.IDLE, **(quiet | changes))


def running(
    known: CapacityTable, rate: float, replicas: int, slowness: float = 1.0, output_tokens: float = 201
) -> float:
    """Requests inside replicas that take `slowness` times as long for every step as modeled, by Little's law."""
    each = rate / replicas * slowness
    ttft, itl = known.means_at(each, replicas)
    assert ttft is not None
    assert itl is not None
    return each * (ttft + (output_tokens - 1) * itl) / 1000 * replicas


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
    epoch_seconds: float | None = None
    """Wall clock; None: as the machine's clock."""
    resource_changes: dict[str, object] = field(default_factory=dict)
    """Further fields of the resource's snapshot."""
    interval_seconds: float = TICK_SECONDS
    """Time that passes from one tick to the next; less than the nominal one: they come early."""

    def tick(self, mtr: Metrics, apply: bool = True, **target_changes: object) -> Decision:
        """Decide once, apply the decision, and let one interval pass."""
        tgt = target(self.replicas, **target_changes)
        r = resource(tgt, mtr, policy=self.policy, sized=self.sized, pool=self.pool, **self.resource_changes)
        snapshot = FleetSnapshot(self.now_seconds, TICK_SECONDS, (r,), self.pools, self.epoch_seconds)
        (decision,), self.memory = decide(snapshot, self.memory)
        if apply:
            self.replicas = decision.to_replicas
        self.now_seconds += self.interval_seconds
        if self.epoch_seconds is not None:
            self.epoch_seconds += self.interval_seconds
        return decision

    def run(self, mtr: Metrics, seconds: float, **target_changes: object) -> list[Decision]:
        """Tick with the same metrics for `seconds`."""
        return [self.tick(mtr, **target_changes) for _ in range(round(seconds / self.interval_seconds))]

    @property
    def known(self) -> ResourceMemory:
        """Memory of the resource."""
        return self.memory.resources["r-1"]

    @property
    def capacity_factor(self) -> float:
        """The corrected capacity of a replica as a share of the sized one."""
        return capacity_factor(self.known.calibration, DEFAULT)

    def restart(self) -> None:
        """A new process: everything remembered is gone."""
        self.memory = Memory()

    def calibrate(self, calibration: Calibration) -> None:
        """Put a calibration into the memory, which one tick at least has made."""
        known = replace(self.known, calibration=calibration)
        self.memory = replace(self.memory, resources=MappingProxyType({"r-1": known}))
