"""Images on nodes, with a real API server and DaemonSet controller: on nodes of the GPU, while it is asked for."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.manifests import images_of
from firsttoken_operator.act.pods import Rendering
from firsttoken_operator.act.prepull import KEEPER
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.render import ABSENT, Renderer, RenderResult
from firsttoken_operator.domain import Reason
from firsttoken_operator.domain.pods import KEEPER_LABEL
from tests.operator.act.objects import NAMESPACE
from tests.operator.act.test_rendering_never_touches_replicas import nim, rendering
from tools.cluster import Cluster, GpuServers, wait_until

pytestmark = pytest.mark.cluster

CRDS = Path(__file__).parents[3] / "crds"
H100, A100 = GpuServers(2), GpuServers(1, product="NVIDIA-A100-SXM4-80GB", prefix="a100")
NEW_IMAGE = "nvcr.io/nim/meta/llama3-8b-instruct:1.0.4"
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def cluster(control_plane: Path) -> Iterator[Cluster]:
    with Cluster(servers=(H100, A100)) as running:
        running.kubectl("apply", "--server-side", "-f", CRDS)
        running.wait_until_established()
        yield running


class Kept:
    """A resource that is rendered, by a process that may keep images."""

    def __init__(self, api: KubernetesCluster, live: dict[str, Any]) -> None:
        self.api, self.live, self.name = api, live, live["metadata"]["name"]
        self.renderer = Renderer(api, WriteQueue(), pre_pulls=True)
        self.ref = ObjectRef(*KEEPER, NAMESPACE, self.name)

    def rendering(self) -> Rendering:
        return replace(rendering(self.live), pre_pulls=True, pool_selector={"nvidia.com/gpu.product": H100.product})

    async def render(self, **options: Any) -> RenderResult:
        """Render; what is told of the objects is what a list of them tells, or it would be done anew at each tick."""
        result = await self.renderer.render(self.rendering(), 1, **options)
        assert result is not None
        assert (await self.renderer.states([self.rendering()]))[self.live["metadata"]["uid"]] == result.states
        return result

    async def refused(self) -> RenderResult:
        """Render what is not all taken."""
        result = await self.renderer.render(self.rendering(), 1)
        assert result is not None
        return result

    async def change(self, **runtime: Any) -> None:
        self.live = await self.api.patch(ObjectRef.of(self.live), {"spec": {"runtime": runtime}})

    async def images(self) -> list[str]:
        spec = (await self.api.read(self.ref))["spec"]["template"]["spec"]
        return [container["image"] for container in spec["containers"]]


@pytest.fixture
async def kept(api: KubernetesCluster) -> Kept:
    return Kept(api, await api.create(nim(f"kept-{next(NUMBERS)}", prePull=True)))


def pods(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    listed = cluster.kubectl("get", "pods", "-n", NAMESPACE, "-l", f"{KEEPER_LABEL}={name}", "-o", "json").stdout
    found: list[dict[str, Any]] = json.loads(listed)["items"]
    return found


async def test_each_node_of_the_gpu_has_a_pod_and_no_other_node(cluster: Cluster, kept: Kept) -> None:
    await kept.render()
    wait_until(lambda: len(pods(cluster, kept.name)) == H100.count, 60, "a pod on each node of the pool")
    placed = pods(cluster, kept.name)

    assert {pod["spec"]["nodeName"] for pod in placed} == {"dgx-0", "dgx-1"}
    assert all("nvidia.com/gpu" not in pod["spec"]["containers"][0]["resources"]["limits"] for pod in placed)
    assert all("firsttoken.dev/inference-deployment" not in pod["metadata"]["labels"] for pod in placed)


async def test_it_goes_when_it_is_not_asked_for_any_more_and_comes_back(cluster: Cluster, kept: Kept) -> None:
    await kept.render()
    wait_until(lambda: len(pods(cluster, kept.name)) == H100.count, 60, "pods")
    await kept.change(prePull=False)
    gone = await kept.render()
    assert gone.states[kept.ref] == ABSENT
    wait_until(lambda: not pods(cluster, kept.name), 60, "no pods")

    await kept.change(prePull=True)
    await kept.render()
    assert await kept.images() == [kept.live["spec"]["runtime"]["image"]]


async def test_while_a_rollout_waits_both_images_are_kept_and_then_the_new_one(kept: Kept) -> None:
    await kept.render()
    before = await kept.images()
    await kept.change(image=NEW_IMAGE)
    waits = await kept.render(may_roll=False)
    assert waits.reason is Reason.ROLLOUT_PENDING
    assert await kept.images() == [NEW_IMAGE, *before]

    await kept.render()
    assert await kept.images() == [NEW_IMAGE]


async def test_what_another_writer_made_is_neither_changed_nor_deleted(kept: Kept, api: KubernetesCluster) -> None:
    sleeps = {"containers": [{"name": "own", "image": "own:1"}]}
    labels = {"app": kept.name}
    template = {"metadata": {"labels": labels}, "spec": sleeps}
    foreign = {
        "apiVersion": KEEPER[0], "kind": KEEPER[1], "metadata": {"name": kept.name, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }  # fmt: skip
    await api.create(foreign)
    taken = await kept.refused()
    await kept.change(prePull=False)
    beside = await kept.render()

    assert (taken.reason, taken.message) == (
        Reason.WRITE_DENIED, f"DaemonSet {kept.name} exists and is not ours; rename this resource",
    )  # fmt: skip
    assert (taken.created, beside.reason) == (True, Reason.RENDERED), "the server is made all the same"
    assert await kept.images() == ["own:1"]


async def test_it_ends_with_its_resource(cluster: Cluster, kept: Kept) -> None:
    await kept.render()
    cluster.kubectl("delete", "infd", kept.name, "-n", NAMESPACE)
    wait_until(
        lambda: cluster.kubectl("get", "daemonset", kept.name, "-n", NAMESPACE, check=False).returncode != 0,
        90,
        "the garbage collector has taken it",
    )


async def test_where_it_is_refused_the_server_is_made_all_the_same_and_the_refusal_told(
    cluster: Cluster, kept: Kept
) -> None:
    none = {"spec": {"hard": {"count/daemonsets.apps": "0"}}, "metadata": {"name": "no-daemon-sets"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota"} | none
    cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(quota))
    try:
        wait_until(lambda: _is_counted(cluster), 60, "the quota in force")
        told = await kept.refused()
        assert (told.reason, told.created) == (Reason.WRITE_DENIED, True)
        assert "exceeded quota: no-daemon-sets" in told.message
        assert (await kept.api.read(ObjectRef("apps/v1", "Deployment", NAMESPACE, kept.name)))["spec"]["replicas"] == 1
    finally:
        cluster.kubectl("delete", "resourcequota", "no-daemon-sets", "-n", NAMESPACE)


async def test_where_it_may_not_be_deleted_the_server_is_changed_all_the_same_and_the_refusal_told(
    cluster: Cluster, kept: Kept
) -> None:
    await kept.render()
    about = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "no-deletion"}}
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["daemonsets"]}
    never = [{"expression": "false", "message": "no DaemonSet is deleted here", "reason": "Forbidden"}]
    policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": never}
    bound = {"policyName": "no-deletion", "validationActions": ["Deny"]}
    for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", bound)):
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(about | {"kind": kind, "spec": spec}))
    try:
        wait_until(lambda: _is_undeletable(cluster, kept.name), 60, "the policy in force")
        await kept.change(prePull=False, image=NEW_IMAGE)
        told = await kept.refused()
        assert (told.reason, told.created) == (Reason.WRITE_DENIED, False)
        assert "no DaemonSet is deleted here" in told.message
        deployment = await kept.api.read(ObjectRef("apps/v1", "Deployment", NAMESPACE, kept.name))
        assert images_of(deployment, kept.rendering().container.name) == [NEW_IMAGE]
    finally:
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            cluster.kubectl("delete", kind, "no-deletion")


def _is_undeletable(cluster: Cluster, name: str) -> bool:
    tried = ("delete", "daemonset", name, "-n", NAMESPACE, "--dry-run=server")
    return cluster.kubectl(*tried, check=False).returncode != 0


def _is_counted(cluster: Cluster) -> bool:
    found = json.loads(cluster.kubectl("get", "resourcequota", "no-daemon-sets", "-n", NAMESPACE, "-o", "json").stdout)
    return "used" in found.get("status", {})
