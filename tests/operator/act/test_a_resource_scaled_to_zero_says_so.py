"""Scaled to 0 by its own policy: the object says that it sleeps and what wakes it up, and no alarm is raised."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from firsttoken_operator.act.changes import transitions
from firsttoken_operator.act.scale import ScaleResult, Write
from firsttoken_operator.act.status import Answer, Observed, status_of
from firsttoken_operator.api.status import InferenceDeploymentStatus
from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import (
    Decision,
    FleetSnapshot,
    Idle,
    Measurement,
    Metrics,
    Missing,
    Outcome,
    PoolSnapshot,
    Reason,
    ScalingMode,
    ScalingPolicy,
    Value,
)
from tests.operator.decide.builders import POLICY, TICK_SECONDS, lost, metrics, resource, target

START = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
SLEEPY = replace(POLICY, min_replicas=0)
SILENT, NOT_COUNTED = Value(0.0), Missing(Reason.SOURCE_NOT_CONFIGURED, "no gateway counter is named for this source")
NO_PODS = lost(cause=Reason.NO_READY_PODS)


@dataclass
class Told:
    """A resource that is decided on, written and told about; its pods are ready when `ready` says so."""

    replicas: int
    policy: ScalingPolicy = SLEEPY
    has_schedule: bool = False
    scheduled: float | None = None
    pools: dict[str, PoolSnapshot] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    status: InferenceDeploymentStatus = field(default_factory=InferenceDeploymentStatus)
    events: list[str] = field(default_factory=list)
    ticks: int = 0

    def tick(self, seen: Metrics, gateway: Measurement, ready: int | None = None) -> Decision:
        serving = self.replicas if ready is None else ready
        about = resource(
            target(self.replicas, ready=serving, starting=self.replicas - serving),
            replace(seen, gateway_arrivals=gateway),
            policy=self.policy, has_schedule=self.has_schedule, scheduled_requests_per_second=self.scheduled,
            pool=next(iter(self.pools), None),
        )  # fmt: skip
        (decision,), self.memory = decide(
            FleetSnapshot(1000 + self.ticks * TICK_SECONDS, TICK_SECONDS, (about,), self.pools), self.memory
        )
        done = ScaleResult(Write.DONE if decision.changes else Write.NONE, replicas=decision.to_replicas)
        now = START + timedelta(seconds=self.ticks * TICK_SECONDS)
        status = status_of(self.status, Observed(about, decision, done, Answer(about.sized), now))
        self.events += [reason for reason, _ in transitions(self.status, status)]
        self.status, self.replicas = status, decision.to_replicas
        self.ticks += 1
        return decision

    def condition(self, kind: str) -> tuple[str, str, str]:
        (found,) = [c for c in self.status.conditions if c.type == kind]
        return found.status.value, found.reason, found.message

    def scale_to_zero(self, gateway: Measurement = SILENT) -> Decision:
        """Idle until the last replica goes, and one tick at 0."""
        for _ in range(40):
            went = self.tick(idle(), gateway)
            if went.changes:
                self.tick(NO_PODS, gateway)
                return went
        raise AssertionError("it stays awake")


def idle() -> Metrics:
    return metrics(0.0, health=Reason.IDLE, arrivals=Idle(), first_tokens=Idle(), error_share=Idle(), ttft=None,
                   running=Value(0), kv_percent=Value(0))  # fmt: skip


def test_at_zero_it_is_ready_and_its_metrics_are_healthy() -> None:
    told = Told(1)
    told.scale_to_zero()

    wakes = "scaled to 0; a request that the gateway counts wakes it up"
    assert told.condition("Ready") == ("True", "ScaledToZero", wakes)
    assert told.condition("MetricsHealthy") == ("True", "ScaledToZero", wakes)
    assert told.condition("ScalingActive")[:2] == ("True", "Active")
    assert told.condition("ScalingLimited")[:2] == ("False", "WithinLimits")
    assert told.condition("SLAMet")[0] == "Unknown"
    assert "(ScaledToZero)" in told.condition("SLAMet")[2]
    shown = told.status
    assert (shown.replicas, shown.ready_replicas, shown.desired_replicas) == (0, 0, 0)
    assert shown.last_decision_reason == "ScaledToZero"


def test_the_last_change_explains_itself() -> None:
    told = Told(1)
    told.scale_to_zero()
    (record,) = told.status.decisions

    assert (record.from_replicas, record.to_replicas) == (1, 0)
    assert "arrival rate 0.0 requests/s; nothing to predict without replicas; " in record.message


def test_scaling_to_zero_and_waking_up_raise_no_alarm() -> None:
    told = Told(1)
    told.scale_to_zero()
    at_zero = list(told.events)
    woken = told.tick(NO_PODS, Value(0.2))
    while_starting = told.tick(NO_PODS, Value(0.2), ready=0)

    assert (woken.outcome, woken.from_replicas, woken.to_replicas) == (Outcome.UP, 0, 1)
    assert while_starting.to_replicas == 1
    assert told.condition("MetricsHealthy")[:2] == ("False", "Missing")
    assert told.events == at_zero == []


def test_an_outage_after_the_first_pods_were_there_is_announced() -> None:
    told = Told(1)
    told.scale_to_zero()
    told.tick(NO_PODS, Value(0.2))
    told.tick(NO_PODS, Value(0.2), ready=0)
    told.tick(metrics(0.2), Value(0.2))
    told.tick(lost(), NOT_COUNTED)

    assert told.events == ["MetricsRecovered", "MetricsLost"]


@pytest.mark.parametrize(
    ("gateway", "schedule", "words"),
    [
        (SILENT, True, "a request that the gateway counts or a window of traffic.schedule wakes it up"),
        (NOT_COUNTED, True, "a window of traffic.schedule wakes it up, requests before it are not seen"),
    ],
)
def test_it_says_what_wakes_it_up(gateway: Measurement, schedule: bool, words: str) -> None:
    told = Told(1, has_schedule=schedule)
    told.scale_to_zero(gateway)

    assert words in told.condition("Ready")[2]


def test_a_window_that_opens_wakes_it_up_for_its_peak() -> None:
    told = Told(1, has_schedule=True)
    told.scale_to_zero(NOT_COUNTED)
    told.scheduled = 15.0
    woken = told.tick(NO_PODS, NOT_COUNTED)

    assert (woken.to_replicas, woken.reason) == (3, Reason.SCHEDULED_PEAK)


def test_scaled_to_zero_without_anything_that_tells_of_requests_is_not_ready() -> None:
    told = Told(1)
    told.scale_to_zero()
    told.tick(NO_PODS, Missing(Reason.SOURCE_UNREACHABLE, "connection refused"))

    assert told.condition("Ready")[:2] == ("False", "NoWakeUpSignal")
    status, reason, message = told.condition("MetricsHealthy")
    assert (status, reason) == ("False", "NoWakeUpSignal")
    assert "SourceUnreachable: connection refused" in message
    assert told.events == ["MetricsLost"]


def test_wanted_and_without_a_free_gpu_is_not_scaled_to_zero() -> None:
    told = Told(0, pools={"h100": PoolSnapshot("h100", 0, 0, False, 20, 600)})
    held = told.tick(NO_PODS, Value(2.0))

    assert (held.outcome, held.to_replicas) == (Outcome.HELD, 0)
    assert told.condition("Ready")[:2] == ("False", "PoolExhausted")
    assert told.condition("CapacityAvailable")[:2] == ("False", "PoolExhausted")


def test_paused_at_zero_is_not_scaled_to_zero() -> None:
    told = Told(0, policy=replace(SLEEPY, mode=ScalingMode.PAUSED))
    told.tick(NO_PODS, SILENT)

    assert told.condition("Ready") == ("False", "Paused", "paused by spec.scaling.mode: 0 replicas stay")


def test_one_replica_that_stays_for_lack_of_a_signal_says_which() -> None:
    told = Told(1)
    for _ in range(40):
        told.tick(idle(), NOT_COUNTED)

    assert told.replicas == 1
    status, reason, message = told.condition("ScalingLimited")
    assert (status, reason) == ("True", "NoWakeUpSignal")
    assert "no gateway counter is named for this source" in message
    assert "declare traffic.schedule" in message


def test_a_busy_replica_lacks_no_signal() -> None:
    told = Told(1)
    told.tick(metrics(2.0), NOT_COUNTED)

    assert told.condition("ScalingLimited")[:2] == ("False", "WithinLimits")


def test_a_target_that_was_taken_out_of_service_is_not_scaled_to_zero() -> None:
    told = Told(0, policy=POLICY)
    told.tick(NO_PODS, SILENT)

    assert told.condition("ScalingActive")[:2] == ("False", "TargetAtZero")
    assert told.condition("Ready")[:2] == ("False", "Missing")
    assert told.status.last_decision_reason == "TargetAtZero"


def test_advice_to_sleep_is_reported_and_not_limited() -> None:
    told = Told(1, policy=replace(SLEEPY, mode=ScalingMode.ADVISORY))
    went = told.scale_to_zero()

    assert went.to_replicas == 0
    assert told.condition("ScalingActive")[:2] == ("False", "Advisory")
