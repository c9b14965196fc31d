"""A whole tick over a fake API server where the decision fails for one resource: it is told on that resource alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from firsttoken_operator.act.kubernetes import ObjectRef
from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import FleetSnapshot
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run import isolation
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.observe.bodies import NAMESPACE, deployment, inference_deployment, node, pool
from tests.operator.run.looped import looped
from tests.operator.run.sizings import rest

API = "firsttoken.dev/v1alpha1"


class Played:
    """A loop over `good` and `bad`, and what the server has after its ticks."""

    def __init__(self) -> None:
        self.store = Store()
        objects: dict[ObjectRef, dict[str, Any]] = {ObjectRef(API, "GPUPool", "", "h100"): {"status": {}}}
        self.store.feed("GPUPool", None, pool(peakGPUs=8))
        self.store.feed("Node", None, node("gpu-1"))
        for name in ("good", "bad"):
            self.store.feed("InferenceDeployment", None, inference_deployment(name, target=name, pool="h100"))
            self.store.feed("Deployment", None, deployment(name))
            objects[ObjectRef(API, "InferenceDeployment", NAMESPACE, name)] = {"status": {}}
        self.cluster = FakeCluster(objects)
        self.loop, self.parts = looped(self.cluster, self.store)
        self.beats, self.metrics, self.sizer = self.parts.heartbeats, self.parts.metrics, self.parts.sizer

    async def tick(self) -> None:
        """One tick; what it asks to be sized is sized before the next one."""
        await self.loop.tick(time.monotonic())
        await self.parts.writes.settle()
        await rest(self.sizer)

    def ready(self, name: str) -> tuple[str, str]:
        status = self.cluster.objects[ObjectRef(API, "InferenceDeployment", NAMESPACE, name)]["status"]
        (found,) = [c for c in status["conditions"] if c["type"] == "Ready"]
        return found["status"], found["reason"]

    def events_about(self, name: str) -> list[str]:
        bodies = [body for ref, body in self.cluster.objects.items() if ref.kind == "Event"]
        return [body["reason"] for body in bodies if body["involvedObject"]["name"] == name]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    def failing(snapshot: FleetSnapshot, memory: Memory) -> Any:
        if any(resource.name == "bad" for resource in snapshot.resources):
            raise RuntimeError("unreadable")
        return decide(snapshot, memory)

    monkeypatch.setattr(isolation, "decide", failing)
    made = Played()
    yield made
    made.sizer.close()


async def test_the_resource_is_not_ready_and_an_event_tells(played: Played) -> None:
    for _ in range(2):
        await played.tick()

    assert played.ready("bad") == ("False", "DecisionFailed")
    assert played.events_about("bad") == ["DecisionFailed"]
    assert played.ready("good") == ("False", "Missing")
    assert "DecisionFailed" not in played.events_about("good")


async def test_the_process_stays_healthy_for_all_the_others(played: Played) -> None:
    await played.tick()

    assert played.beats.undecided_ticks == {f"{NAMESPACE}/good": 0, f"{NAMESPACE}/bad": 0}
    assert played.beats.problem(time.monotonic()) == ""
    assert b'firsttoken_decisions_total{outcome="error",reason="DecisionFailed"} 1.0' in played.metrics.render()


async def test_its_gpus_are_billed_like_those_of_the_others(played: Played) -> None:
    for _ in range(2):
        await played.tick()
    page = played.metrics.render().decode()

    for name in ("good", "bad"):
        assert f'firsttoken_gpu_hours_total{{name="{name}",namespace="{NAMESPACE}"}}' in page


async def test_its_gpus_stay_charged_to_the_pool(played: Played) -> None:
    await played.tick()
    status = played.cluster.objects[ObjectRef(API, "GPUPool", "", "h100")]["status"]

    assert (status["chargedGPUs"], status["freeGPUs"], status["observedGeneration"]) == (6, 2, 1)


async def test_the_error_is_logged_once_a_tick(played: Played, caplog: pytest.LogCaptureFixture) -> None:
    await played.tick()

    assert [r.getMessage() for r in caplog.records if r.exc_info] == [f"no decision for {NAMESPACE}/bad"]
