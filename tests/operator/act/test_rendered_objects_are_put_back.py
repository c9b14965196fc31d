"""Rendered objects that another writer deletes or changes, on a real API server: put back, and nothing else written."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.objects import Json
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.render import Renderer, RenderResult, differs
from firsttoken_operator.domain import Claims, FleetSnapshot, Reason, TargetMissing
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.rendering import Rendered
from tests.operator.act.objects import NAMESPACE, scale_to
from tests.operator.act.test_rendering_never_touches_replicas import nim
from tests.operator.decide.builders import lost, resource, target
from tools.cluster import Cluster
from tools.cluster.definitions import POD_MONITOR, definition_of

NUMBERS = itertools.count()
MONITORS = "monitoring.coreos.com/v1"


class Watched(KubernetesCluster):
    """A client that notes what it applies."""

    applied: list[str]

    async def apply(self, manifest: Json) -> Json:
        self.applied.append(manifest["kind"])
        return await super().apply(manifest)


class Operated:
    """A resource that is rendered at every tick."""

    def __init__(self, api: KubernetesCluster, live: Json) -> None:
        self.api = Watched(api._client)
        self.api.applied = []
        self.rendered = Rendered(Renderer(self.api, WriteQueue()), monitor_labels={}, scrape_interval_seconds=15)
        self.store, self.live, self.name = Store(), live, live["metadata"]["name"]
        self.store.feed("InferenceDeployment", "ADDED", live)
        self.exists = False

    async def tick(self) -> RenderResult | None:
        """Run one tick, and give what it tells of it; the list of what was applied begins anew."""
        self.api.applied.clear()
        there = target(6) if self.exists else TargetMissing(Reason.TARGET_NOT_FOUND, "")
        seen = replace(resource(there, lost()), uid=self.live["metadata"]["uid"], name=self.name,
                       claims=Claims(self.name, is_rendered=True))  # fmt: skip
        results = await self.rendered.reconcile(FleetSnapshot(0, 15, (seen,), {}), self.store, ())
        self.exists = True
        return results.get(seen.uid)

    def ref(self, kind: str, api_version: str = "v1") -> ObjectRef:
        return ObjectRef(api_version, kind, NAMESPACE, self.name)


@pytest.fixture
async def operated(api: KubernetesCluster) -> Operated:
    made = Operated(api, await api.create(nim(f"put-back-{next(NUMBERS)}")))
    first = await made.tick()
    assert first is not None
    assert first.reason is Reason.RENDERED
    return made


@pytest.mark.cluster
async def test_nothing_is_written_while_nothing_differs(operated: Operated) -> None:
    for _ in range(3):
        assert await operated.tick() is None
    await scale_to(operated.api, operated.ref("Deployment", "apps/v1"), 9)
    assert await operated.tick() is None

    assert operated.api.applied == []
    assert (await operated.api.read_scale(operated.ref("Deployment", "apps/v1"))).replicas == 9


@pytest.mark.cluster
async def test_a_service_that_was_deleted_is_made_again(operated: Operated, cluster: Cluster) -> None:
    cluster.kubectl("delete", "service", operated.name, "-n", NAMESPACE)
    told = await operated.tick()

    assert told is not None
    assert (told.reason, operated.api.applied) == (Reason.RENDERED, ["Service"])
    assert told.message.startswith(f"Service {operated.name} put back")
    assert (await operated.api.read(operated.ref("Service")))["spec"]["ports"][0]["name"] == "api"
    assert await operated.tick() is None


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("kind", "api_version", "path", "value"),
    [
        ("Service", "v1", "/spec/ports/0/targetPort", 1),
        ("Service", "v1", "/metadata/labels/app.kubernetes.io~1managed-by", "helm"),
        ("Deployment", "apps/v1", "/spec/template/spec/containers/0/image", "other:1"),
    ],
)
async def test_a_field_of_ours_that_was_changed_is_set_again(
    operated: Operated, cluster: Cluster, kind: str, api_version: str, path: str, value: Any
) -> None:
    await scale_to(operated.api, operated.ref("Deployment", "apps/v1"), 9)
    patch = json.dumps([{"op": "replace", "path": path, "value": value}])
    cluster.kubectl("patch", kind.lower(), operated.name, "-n", NAMESPACE, "--type=json", "-p", patch)
    await operated.tick()

    assert operated.api.applied == [kind]
    live = await operated.api.read(operated.ref(kind, api_version))
    for key in path.strip("/").split("/"):
        live = live[int(key) if isinstance(live, list) else key.replace("~1", "/")]
    assert live not in (value, None)
    assert (await operated.api.read_scale(operated.ref("Deployment", "apps/v1"))).replicas == 9
    assert await operated.tick() is None


@pytest.mark.cluster
async def test_a_field_that_is_not_ours_stays(operated: Operated, cluster: Cluster) -> None:
    cluster.kubectl("annotate", "service", operated.name, "-n", NAMESPACE, "team=search")
    assert await operated.tick() is None

    assert operated.api.applied == []
    assert (await operated.api.read(operated.ref("Service")))["metadata"]["annotations"]["team"] == "search"


@pytest.mark.cluster
async def test_a_pod_monitor_comes_with_its_definition_and_goes_without_a_word(
    operated: Operated, cluster: Cluster
) -> None:
    cluster.kubectl("apply", "--server-side", "-f", definition_of(POD_MONITOR))
    cluster.wait_until_established()
    while (told := await operated.tick()) is None:
        await asyncio.sleep(0.2)  # The API server asks for a second of silence while it makes room for the kind.
    made = list(operated.api.applied)
    await operated.api.read(operated.ref("PodMonitor", MONITORS))
    assert await operated.tick() is None
    cluster.kubectl("delete", "crd", "podmonitors.monitoring.coreos.com", "--wait=true")
    assert await operated.tick() is None

    assert made == ["PodMonitor"]
    assert told.message.startswith("PodMonitor")


@pytest.mark.parametrize(
    ("wanted", "live", "differing"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": 2, "d": 3}]}}, False),
        ({"a": {}}, {"a": {"x": 1}}, False),
        ({"a": 1}, {"b": 1}, True),
        ({"a": 1}, {"a": 2}, True),
        ({"a": [1]}, {"a": [1, 2]}, True),
        ({"a": {"b": 1}}, {"a": None}, True),
        ({"a": [1]}, {"a": "1"}, True),
    ],
)
def test_what_others_add_is_no_difference(wanted: Any, live: Any, differing: bool) -> None:
    assert differs(wanted, live) is differing
