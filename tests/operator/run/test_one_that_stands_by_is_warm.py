"""An operator that stands by does everything but write, and decides on what it has seen itself once it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from firsttoken_operator.act.kubernetes import ObjectRef
from firsttoken_operator.domain import Decision, Metrics, Outcome, Reason
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.loop import Loop
from firsttoken_operator.run.measuring import Measuring
from firsttoken_operator.run.sizer import Sizer
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.decide.builders import metrics
from tests.operator.observe.bodies import NAMESPACE, deployment, inference_deployment, pod, replica_set
from tests.operator.run.looped import looped
from tests.operator.run.sizings import settled

REF = ObjectRef("firsttoken.dev/v1alpha1", "InferenceDeployment", NAMESPACE, "rag")
TARGET = ObjectRef("apps/v1", "Deployment", NAMESPACE, "nim")
TICK_SECONDS, WINDOW_SECONDS = 15.0, 300.0


class Quiet:
    """A Prometheus that says that hardly any request arrives."""

    async def metrics(self, store: Store, wall_seconds: float) -> Mapping[str, Metrics]:
        return {uid: replace(metrics(0.5)) for uid in store.resources}

    def outcomes(self) -> Mapping[tuple[str, str], int]:
        return {}


class Standby:
    """A process with one resource of six replicas, which stands by until `leads` is set."""

    def __init__(self) -> None:
        self.leads, self.now = False, 1000.0
        resource, target = inference_deployment("rag"), deployment("nim", replicas=6)
        self.cluster = FakeCluster({REF: resource | {"status": {}}, TARGET: target})
        self.store, self.sizer = Store(), Sizer()
        self.store.feed("InferenceDeployment", None, resource)
        self.show(6)
        self.store.feed("ReplicaSet", None, replica_set())
        for number in range(6):
            self.store.feed("Pod", None, pod(f"p{number}", ready=1))
        self.loop, self.parts = looped(
            self.cluster, self.store, clock=lambda: self.now, sizer=self.sizer, leads=lambda: self.leads
        )
        self.parts = replace(self.parts, measuring=cast(Measuring, Quiet()))
        self.loop = Loop(self.loop._settings, self.parts, lambda: self.now)

    def show(self, replicas: int) -> None:
        """Show the target as the watch does."""
        self.store.feed("Deployment", None, deployment("nim", replicas=replicas))

    async def tick(self) -> Decision:
        """One tick, with its writes; one interval passes."""
        (decision,) = await self.loop.tick(self.now)
        await self.parts.writes.settle()
        self.now += TICK_SECONDS
        return decision

    async def stand_by(self, seconds: float) -> Decision:
        """Tick for so long without leading."""
        await settled(self.sizer, self.store)
        until = self.now + seconds
        while self.now < until:
            decision = await self.tick()
        return decision


async def test_it_decides_and_writes_nothing_and_publishes_no_decision() -> None:
    process = Standby()
    decision = await process.stand_by(WINDOW_SECONDS + 4 * TICK_SECONDS)

    assert decision.outcome is Outcome.DOWN
    assert process.cluster.writes() == []
    assert b"firsttoken_desired_replicas{" not in process.parts.metrics.render()
    assert process.parts.heartbeats.has_ticked
    assert process.parts.heartbeats.problem(process.now) == ""
    process.sizer.close()


async def test_what_it_watched_for_a_whole_window_lets_it_lower_at_once() -> None:
    process = Standby()
    await process.stand_by(WINDOW_SECONDS + 4 * TICK_SECONDS)
    process.leads = True
    await process.tick()

    assert process.cluster.writes()[:1] == ["patch_scale"]
    assert b"firsttoken_desired_replicas{" in process.parts.metrics.render()
    process.sizer.close()


async def test_what_it_did_not_watch_itself_lowers_nothing() -> None:
    process = Standby()
    await process.stand_by(WINDOW_SECONDS / 2)
    process.leads = True
    decision = await process.tick()

    assert (decision.outcome, decision.reason) == (Outcome.STEADY, Reason.STABILIZING)
    assert "patch_scale" not in process.cluster.writes()
    process.sizer.close()


async def test_what_the_leader_wrote_is_no_foreign_write_also_when_it_shows_after_the_takeover() -> None:
    process = Standby()
    await process.stand_by(4 * TICK_SECONDS)
    for replicas in (5, 6, 5):
        process.show(replicas)
        await process.tick()
    process.leads = True
    process.show(6)
    decision = await process.tick()
    events = [made for ref, made in process.cluster.objects.items() if ref.kind == "Event"]

    assert decision.reason is not Reason.CONFLICT
    assert "ForeignWrite" not in {event["reason"] for event in events}
    process.show(4)
    await process.tick()
    events = [made for ref, made in process.cluster.objects.items() if ref.kind == "Event"]
    assert "ForeignWrite" in {event["reason"] for event in events}, "from then on others are noticed"
    process.sizer.close()


async def test_ticks_of_a_leader_that_fail_come_no_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    process, ticks = Standby(), 0

    async def failing(store: Store, wall_seconds: float) -> Mapping[str, Metrics]:
        nonlocal ticks
        ticks += 1
        raise RuntimeError("no metrics")

    monkeypatch.setattr(process.parts.measuring, "metrics", failing)
    process.leads, stop = True, asyncio.Event()
    running: asyncio.Task[Any] = asyncio.create_task(process.loop.run(stop))
    await asyncio.sleep(0.3)
    stop.set()
    await running
    process.sizer.close()

    assert ticks == 1, "the clock stands still: no second one is due"


async def test_it_does_not_wait_for_its_next_tick_to_take_over() -> None:
    process = Standby()
    await settled(process.sizer, process.store)
    stop = asyncio.Event()
    running: asyncio.Task[Any] = asyncio.create_task(process.loop.run(stop))
    while not process.parts.heartbeats.has_ticked:
        await asyncio.sleep(0.01)
    assert process.cluster.writes() == []
    process.leads = True
    async with asyncio.timeout(10):
        # The clock stands still: no next tick ever comes due.
        while not process.cluster.writes():
            await asyncio.sleep(0.01)
    stop.set()
    await running
    process.sizer.close()


async def test_it_writes_nothing_before_it_has_seen_what_the_last_leader_wrote() -> None:
    process, caught_up = Standby(), False

    async def catch_up() -> bool:
        return caught_up

    process.parts = replace(process.parts, catch_up=catch_up)
    process.loop = Loop(process.loop._settings, process.parts, lambda: process.now)
    await process.stand_by(WINDOW_SECONDS + 4 * TICK_SECONDS)
    process.leads = True
    await process.tick()
    assert process.cluster.writes() == []

    caught_up = True
    await process.tick()
    assert process.cluster.writes()[:1] == ["patch_scale"]
    process.sizer.close()
