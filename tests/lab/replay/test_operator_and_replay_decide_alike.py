"""The operator's path and that of `firsttoken replay` make the same decision of the same facts, tick by tick.

The operator's: watch events -> store -> snapshot -> owners -> restored memory -> decision -> status. The replay's: a
view -> its policy. An hour of pods that start and go, of load that jumps, of metrics that go missing, with a window of
the schedule and a new process in the middle of it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from firsttoken_lab.replay.calendar import Calendar
from firsttoken_lab.replay.policies.ours import TICK_SECONDS, Ours
from firsttoken_lab.replay.policies.view import View
from firsttoken_operator.act.scale import ScaleResult, Write
from firsttoken_operator.act.status import Answer, Observed, document, sizing_status, status_of
from firsttoken_operator.api.convert import scaling_policy
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.schedule import schedule_of
from firsttoken_operator.api.status import InferenceDeploymentStatus
from firsttoken_operator.decide import Memory, Ownership, judge_facts, judge_owners, wrote
from firsttoken_operator.domain import Decision, Metrics, Outcome, Reason, Target, Value
from firsttoken_operator.observe.config import DEFAULT
from firsttoken_operator.observe.readiness import percentiles
from firsttoken_operator.observe.snapshot import build_snapshot
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.isolation import decide_isolated
from firsttoken_operator.run.restore import Restoring
from firsttoken_operator.run.settings import Settings
from tests.operator.decide.builders import SIZED, idle, late, lost, metrics, running, worked_table
from tests.operator.observe.bodies import EPOCH, deployment, inference_deployment, pod, replica_set
from tests.operator.run.lives import sizing

pytestmark = pytest.mark.slow


SEEDS = range(4)
UID = "replayed"
"""Uid of the resource: as the replay calls it, so that one memory fits both."""
HOUR_SECONDS = 3600.0
RESTART_SECONDS = 2100.0
SLOW_SECONDS = 1300
DRAIN_SECONDS = 45.0
# EPOCH is 2025-06-15T15:06:40 UTC, a Sunday: the window is open from second 2600 to second 3200.
WINDOW = {"days": ["Sun"], "start": "15:50", "end": "16:00", "peakRequestsPerSecond": "150"}
SCALING = {"minReplicas": 2, "scaleDownStabilizationSeconds": 120, "metricsLossGraceSeconds": 120}
SIZED_WITH_WORK = replace(SIZED, table=worked_table())


def resource(status: InferenceDeploymentStatus) -> dict[str, Any]:
    body = inference_deployment("rag", uid=UID, scaling=SCALING)
    body["spec"]["traffic"]["schedule"] = [WINDOW]
    return body | {"status": document(status)}


@dataclass
class Pod:
    name: str
    created_seconds: float
    ready_at_seconds: float
    was_there: bool = False
    """True where it is from before the first tick: its start was not seen."""
    going_seconds: float | None = None

    def body(self, now_seconds: float) -> dict[str, Any]:
        ready = self.ready_at_seconds if self.ready_at_seconds <= now_seconds else None
        going = {} if self.going_seconds is None else {"deletionTimestamp": "2025-06-15T16:00:00Z"}
        return pod(
            self.name, scheduled=self.created_seconds, ready=ready, restarts=int(self.was_there),
            creationTimestamp=datetime.fromtimestamp(EPOCH + self.created_seconds, UTC).isoformat(), **going,
        )  # fmt: skip


@dataclass
class Cluster:
    """A Deployment and its pods: the one truth of which both paths are told."""

    replicas: int
    rng: random.Random
    now_seconds: float = 0.0
    pods: list[Pod] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    """Since the last events."""
    made: int = 0
    starts_seconds: list[float] = field(default_factory=list)
    """Starts of the pods that this process saw becoming ready."""

    def __post_init__(self) -> None:
        for _ in range(self.replicas):
            self.create(was_there=True)

    def create(self, *, was_there: bool = False) -> None:
        # NB: some start for longer than any pod is waited for, until one of them has shown that it comes.
        took = 0 if was_there else SLOW_SECONDS if self.made % 7 == 0 else self.rng.randint(30, 400)
        self.pods.append(Pod(f"p{self.made}", self.now_seconds, self.now_seconds + took, was_there))
        self.made += 1

    @property
    def ready(self) -> list[Pod]:
        return [p for p in self.pods if p.going_seconds is None and p.ready_at_seconds <= self.now_seconds]

    @property
    def starting(self) -> list[Pod]:
        return [p for p in self.pods if p.going_seconds is None and p.ready_at_seconds > self.now_seconds]

    def pass_time(self, seconds: float) -> None:
        """Let pods become ready, and those that go be gone."""
        starting = self.starting
        self.now_seconds += seconds
        self.starts_seconds += [
            p.ready_at_seconds - p.created_seconds for p in starting if p.ready_at_seconds <= self.now_seconds
        ]
        for p in [p for p in self.pods if p.going_seconds and self.now_seconds - p.going_seconds >= DRAIN_SECONDS]:
            self.remove(p)

    def scale(self, replicas: int) -> None:
        """As a ReplicaSet does: those still starting go first."""
        while self.replicas < replicas:
            self.create()
            self.replicas += 1
        while self.replicas > replicas:
            if starting := self.starting:
                self.remove(starting[-1])
            else:
                self.ready[-1].going_seconds = self.now_seconds
            self.replicas -= 1

    def forget_starts(self) -> None:
        """A new process sees those only of which the pods are still there."""
        seen = [p for p in self.ready if not p.was_there]
        self.starts_seconds = [p.ready_at_seconds - p.created_seconds for p in seen]

    def remove(self, gone: Pod) -> None:
        self.pods.remove(gone)
        self.gone.append(gone.name)

    def tell(self, store: Store) -> None:
        """Tell the store what the watches deliver."""
        store.feed("Deployment", None, deployment(replicas=self.replicas))
        store.feed("ReplicaSet", None, replica_set())
        for name in self.gone:
            store.feed("Pod", "DELETED", {"metadata": {"uid": f"uid-{name}"}})
        self.gone.clear()
        for p in self.pods:
            store.feed("Pod", None, p.body(self.now_seconds))

    def view(self, seen: Metrics) -> View:
        """View that a replay shows its policies."""
        known = percentiles(self.starts_seconds[-DEFAULT.starts.kept :]) if self.starts_seconds else None
        return View(
            now_seconds=self.now_seconds, replicas=self.replicas, ready=len(self.ready), starting=len(self.starting),
            terminating=sum(p.going_seconds is not None for p in self.pods), running_requests=None,
            waiting_requests=None, read_metrics=lambda: seen,
            time_to_ready_seconds=known.p90_seconds if known else None,
            p99_start_seconds=known.p99_seconds if known else None,
            waits_seconds=tuple(self.now_seconds - p.created_seconds for p in self.starting),
        )  # fmt: skip


class OperatorProcess:
    """The operator's own collaborators around the decision; the API server is the status that it wrote last."""

    def __init__(self, status: InferenceDeploymentStatus) -> None:
        self.status, self.memory = status, Memory()
        self.store, self.restoring = Store(), Restoring()
        self.ownerships: Mapping[str, Ownership] = {}
        self.stuck = 0
        """Pods at the last tick."""

    def tick(self, cluster: Cluster, seen: Metrics) -> Decision:
        now, wall = cluster.now_seconds, EPOCH + cluster.now_seconds
        self.store.feed("InferenceDeployment", None, resource(self.status))
        cluster.tell(self.store)
        sizings, timing = {UID: SIZED_WITH_WORK}, Settings().timing
        built = build_snapshot(self.store, {UID: seen}, sizings, timing, now_seconds=now, wall_seconds=wall)
        owned = judge_owners(judge_facts(built, time_scale=timing.scale), self.ownerships, 600.0)
        self.restored = self.restoring.seeded(self.memory, owned.snapshot, self.store, wall)
        decided = decide_isolated(owned.snapshot, self.restored)
        (decision,), self.memory = decided.decisions, decided.memory
        assert owned.foreign == {}, "only the operator writes"
        written = {UID: wrote(owned.ownerships[UID], decision.to_replicas, now)} if decision.changes else {}
        self.ownerships = owned.ownerships | written
        done = ScaleResult(Write.DONE if decision.changes else Write.NONE, replicas=decision.to_replicas)
        at = datetime.fromtimestamp(wall, UTC)
        (told,) = owned.snapshot.resources
        assert isinstance(told.target, Target)
        self.stuck = told.target.stuck
        self.status = status_of(
            self.status, Observed(told, decision, done, Answer(told.sized, sizing_status(sizing(SIZED_WITH_WORK))), at)
        )
        return decision


def generated(rng: random.Random) -> list[Metrics]:
    """Metrics of an hour: the load jumps every few minutes, some of it comes late, and metrics are out for a while.

    It begins with a fleet that is far too large, so that the first replicas are given back before any start was seen.
    """
    made: list[Metrics] = []
    rate, kind, late_share = 8.0, "good", 0.0
    for tick in range(round(HOUR_SECONDS / TICK_SECONDS)):
        if tick > 40 and rng.random() < 0.06:
            rate = rng.choice([rng.uniform(1, 30), rng.uniform(20, 100)])
        if tick > 40 and rng.random() < 0.15:
            kind = rng.choice(["good"] * 5 + ["lost", "stale", "partial", "idle"])
            late_share = rng.choice([0.0, 0.0, 0.02, 0.12])
        known = SIZED_WITH_WORK.table
        inside = running(known, rate, max(1, round(rate / 4)), slowness=rng.uniform(0.9, 1.2))
        good = metrics(
            rate * rng.uniform(0.9, 1.1), running=Value(inside), ttft=late(late_share, 60 * rate),
            input_tokens=Value(rng.uniform(2500, 4000)), output_tokens=Value(rng.uniform(150, 250)),
        )  # fmt: skip
        others = {
            "lost": lost(), "stale": lost(Reason.STALE), "idle": idle(),
            "partial": replace(good, health=Reason.PARTIAL, arrivals=Value(rate / 2, coverage=0.5)),
        }  # fmt: skip
        made.append(others.get(kind, good))
    return made


def unnamed(decision: Decision) -> Decision:
    """Decision without the resource that it is about, which differs; nothing else may."""
    return replace(decision, uid="", namespace="", name="")


@cache
def hour(seed: int) -> list[tuple[Decision, Decision, int]]:
    """Decide at every tick of an hour by the operator and by the replay; beside it, the pods that are stuck then.

    The cluster does what the operator says.
    """
    rng = random.Random(seed)
    declared = InferenceDeployment.model_validate(resource(InferenceDeploymentStatus()))
    policy, calendar = scaling_policy(declared, None), Calendar(EPOCH, schedule_of(declared))
    cluster, operator = Cluster(30, rng), OperatorProcess(InferenceDeploymentStatus())
    ours = Ours(SIZED_WITH_WORK, policy, calendar=calendar)
    decisions: list[tuple[Decision, Decision, int]] = []
    for seen in generated(rng):
        restarts = cluster.now_seconds == RESTART_SECONDS
        if restarts:
            operator = OperatorProcess(operator.status)
            cluster.forget_starts()
        decision = operator.tick(cluster, seen)
        if restarts:
            known = replace(operator.restored.resources[UID], target_uid=UID)
            ours = Ours(SIZED_WITH_WORK, policy, calendar=calendar, memory=Memory(resources={UID: known}))
        decisions.append((unnamed(decision), unnamed(ours.decision(cluster.view(seen))), operator.stuck))
        cluster.scale(decision.to_replicas)
        cluster.pass_time(TICK_SECONDS)
    return decisions


@pytest.mark.parametrize("seed", SEEDS)
def test_an_hour_with_starts_gaps_and_a_restart_is_decided_alike(seed: int) -> None:
    for tick, (operators, replays, _) in enumerate(hour(seed)):
        assert operators == replays, f"at second {tick * TICK_SECONDS:.0f}"


def test_the_hours_hold_what_they_are_for() -> None:
    decided = [decision for seed in SEEDS for decision, _, _ in hour(seed)]
    first = [decision for seed in SEEDS for decision, _, _ in hour(seed)[: round(600 / TICK_SECONDS)]]
    reasons = {decision.reason for decision in decided}

    assert {Outcome.UP, Outcome.DOWN, Outcome.HELD, Outcome.STEADY} == {decision.outcome for decision in decided}
    assert Outcome.DOWN in {decision.outcome for decision in first}, "given back before any start was seen"
    assert {Reason.MISSING, Reason.STALE, Reason.PARTIAL, Reason.SCHEDULED_PEAK, Reason.DECLARED_PEAK} <= reasons
    assert any(decision.capacity_factor != 1 for decision in decided)
    assert all(any(stuck for _, _, stuck in hour(seed)) for seed in SEEDS), "pods that start for too long"
