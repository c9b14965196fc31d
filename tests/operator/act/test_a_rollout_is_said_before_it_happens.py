"""`spec.runtime.rolloutPolicy` on a real API server: what would replace pods waits, is named, outlives a restart."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.objects import Json
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.render import Renderer, RenderResult
from firsttoken_operator.api.convert import rollout_terms
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.runtime import RELEASED_ROLLOUT
from firsttoken_operator.domain import Claims, FleetSnapshot, Metrics, Reason, ResourceSnapshot, TargetMissing
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.rendering import Rendered
from tests.operator.act.objects import NAMESPACE, scale_to
from tests.operator.act.test_rendering_never_touches_replicas import nim
from tests.operator.decide.builders import idle, metrics, resource, target
from tools.cluster import Cluster

pytestmark = pytest.mark.cluster

NUMBERS = itertools.count()
IMAGE = "nvcr.io/nim/meta/llama3-8b-instruct:1.0.4"


class Counting(KubernetesCluster):
    """A client that counts its requests."""

    requests = 0

    async def _request(self, *arguments: Any, **more: Any) -> Json:
        self.requests += 1
        return await super()._request(*arguments, **more)


class Held:
    """A resource with a rollout policy that is rendered at every tick."""

    def __init__(self, api: KubernetesCluster, live: Json) -> None:
        self.api, self.name, self.uid = Counting(api._client), live["metadata"]["name"], live["metadata"]["uid"]
        self.store, self.exists, self.seen = Store(), False, metrics(20.0)
        self.feed(live)
        self.restart()

    def restart(self) -> None:
        """Forget all that this process knows."""
        self.rendered = Rendered(Renderer(self.api, WriteQueue()), monitor_labels={}, scrape_interval_seconds=15)

    def feed(self, live: Json) -> None:
        self.live = live
        self.store.feed("InferenceDeployment", "MODIFIED", live)

    async def change(self, **runtime: Any) -> None:
        self.feed(await self.api.patch(ObjectRef.of(self.live), {"spec": {"runtime": runtime}}))

    async def release(self, revision: str) -> None:
        self.feed(
            await self.api.patch(ObjectRef.of(self.live), {"metadata": {"annotations": {RELEASED_ROLLOUT: revision}}})
        )

    def resource(self) -> ResourceSnapshot:
        there = target(6) if self.exists else TargetMissing(Reason.TARGET_NOT_FOUND, "")
        return replace(
            resource(there, self.seen), uid=self.uid, name=self.name, claims=Claims(self.name, is_rendered=True),
            rollout=rollout_terms(InferenceDeployment.model_validate(self.live)),
        )  # fmt: skip

    async def tick(self, seen: Metrics | None = None) -> RenderResult | None:
        """Run one tick, and give its news."""
        self.seen = seen or self.seen
        results = await self.rendered.reconcile(FleetSnapshot(0, 15, (self.resource(),), {}), self.store, ())
        self.exists = True
        return results.get(self.uid)

    def pending(self) -> str | None:
        """Tell what waits, as the next tick has it."""
        return self.rendered.explain(self.resource()).pending_rollout

    def revision(self) -> str:
        return re.search(r"revision ([a-z]{10}) differs", self.pending() or "")[1]  # type: ignore[index]

    async def pod(self) -> Json:
        found: Json = (await self.api.read(self.ref("Deployment", "apps/v1")))["spec"]["template"]["spec"]
        return found

    async def image(self) -> str:
        return str((await self.pod())["containers"][0]["image"])

    def ref(self, kind: str, api_version: str = "v1") -> ObjectRef:
        return ObjectRef(api_version, kind, NAMESPACE, self.name)


@pytest.fixture
async def held(api: KubernetesCluster, request: pytest.FixtureRequest) -> Held:
    policy = getattr(request, "param", "Manual")
    made = Held(api, await api.create(nim(f"held-{next(NUMBERS)}", rolloutPolicy=policy, runtimeClassName="nvidia")))
    first = await made.tick()
    assert first is not None
    assert first.created
    await scale_to(api, made.ref("Deployment", "apps/v1"), 6)
    return made


async def test_a_new_image_waits_and_is_released_by_its_revision(held: Held) -> None:
    before = await held.image()
    assert held.pending() == ""
    await held.change(image=IMAGE)
    assert await held.tick() is None, "the condition tells of it, and no Event beside it"
    text = held.pending() or ""

    assert f"revision {held.revision()} differs in spec.containers[0].image; to release it: kubectl" in text
    assert text.endswith(f"annotate infd {held.name} {RELEASED_ROLLOUT}={held.revision()} --overwrite")
    assert await held.image() == before
    await held.release(held.revision())
    told = await held.tick()
    assert told is not None
    assert told.reason is Reason.RENDERED
    assert (await held.image(), held.pending()) == (IMAGE, "")
    assert (await held.api.read_scale(held.ref("Deployment", "apps/v1"))).replicas == 6


async def test_a_later_change_is_not_released_with_an_earlier_one(held: Held) -> None:
    before = await held.image()
    await held.change(image=IMAGE)
    await held.tick()
    first = held.revision()
    await held.change(image="nvcr.io/nim/meta/llama3-8b-instruct:1.0.5")
    await held.release(first)
    await held.tick()

    assert held.revision() != first
    assert await held.image() == before


async def test_what_waits_still_waits_after_a_restart(held: Held) -> None:
    before = await held.image()
    await held.change(image=IMAGE)
    await held.tick()
    first = held.revision()
    held.restart()
    assert held.pending() is None, "not known yet, so that the condition stays"
    await held.tick()

    assert (held.revision(), await held.image()) == (first, before)


async def test_a_field_that_goes_would_replace_pods_too(held: Held) -> None:
    await held.change(runtimeClassName=None)
    await held.tick()

    assert "differs in spec.runtimeClassName" in (held.pending() or "")
    assert (await held.pod())["runtimeClassName"] == "nvidia"


async def test_pods_that_another_writer_changed_are_not_replaced_again(held: Held, cluster: Cluster) -> None:
    patch = json.dumps([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "other:1"}])
    cluster.kubectl("patch", "deployment", held.name, "-n", NAMESPACE, "--type=json", "-p", patch)
    await held.tick()

    assert "differs in spec.containers[0].image" in (held.pending() or "")
    assert await held.image() == "other:1"


async def test_what_replaces_no_pod_is_written_at_once(held: Held, cluster: Cluster) -> None:
    await held.change(image=IMAGE)
    await held.tick()
    cluster.kubectl("delete", "service", held.name, "-n", NAMESPACE)
    cluster.kubectl("delete", "poddisruptionbudget", held.name, "-n", NAMESPACE)
    await held.tick()

    assert (await held.api.read(held.ref("Service")))["spec"]["ports"][0]["name"] == "api"
    assert (await held.api.read(held.ref("PodDisruptionBudget", "policy/v1")))["spec"]["maxUnavailable"] == 1
    assert await held.image() != IMAGE
    assert held.pending()


async def test_what_waits_asks_for_a_list_of_its_objects_and_nothing_else(held: Held) -> None:
    await held.change(image=IMAGE)
    await held.tick()
    await held.tick()
    held.api.requests = 0
    for _ in range(5):
        await held.tick()

    assert held.api.requests <= 5 * 5, "lists, and whether a kind is served"


async def test_the_policy_releases_as_well(held: Held) -> None:
    await held.change(image=IMAGE)
    await held.tick()
    await held.change(rolloutPolicy="Immediate")
    await held.tick()

    assert (await held.image(), held.pending()) == (IMAGE, "")


@pytest.mark.parametrize("held", ["WhenIdle"], indirect=True)
async def test_silence_releases_and_load_does_not(held: Held) -> None:
    await held.change(image=IMAGE)
    await held.tick()
    assert await held.image() != IMAGE
    await held.tick(idle())

    assert (await held.image(), held.pending()) == (IMAGE, "")


@pytest.mark.parametrize("held", ["Immediate"], indirect=True)
async def test_at_once_is_the_default_and_nothing_waits(held: Held) -> None:
    await held.change(image=IMAGE)
    await held.tick()

    assert (await held.image(), held.pending()) == (IMAGE, "")
