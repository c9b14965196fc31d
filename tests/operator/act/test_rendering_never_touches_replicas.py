"""The rule for rendered objects on a real API server: replicas are sent once and belong to the scale manager."""

from __future__ import annotations

from typing import Any

import pytest

from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.manifests import deployment
from firsttoken_operator.act.pods import Rendering
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.render import Renderer
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.domain import Reason
from firsttoken_sizing.profile import ConfigurationKey
from tests.operator.act.objects import NAMESPACE, infd, scale_to, workload
from tests.operator.act.test_a_rendered_pod_is_restricted import MINIMAL
from tools.cluster import Cluster
from tools.cluster.definitions import POD_MONITOR, definition_of

pytestmark = pytest.mark.cluster

KEY = ConfigurationKey("meta-llama/Meta-Llama-3-8B-Instruct", "H100-SXM-80GB", "FP8")


def nim(name: str, **runtime: Any) -> dict[str, Any]:
    document = infd(name, runtime=MINIMAL | runtime)
    del document["spec"]["targetRef"]
    return document


def rendering(live: dict[str, Any]) -> Rendering:
    return Rendering(InferenceDeployment.model_validate(live), KEY, {"kubernetes.io/os": "linux"}, {}, 15)


@pytest.fixture
async def renderer(api: KubernetesCluster) -> Renderer:
    return Renderer(api, WriteQueue())


async def replicas(api: KubernetesCluster, name: str) -> int:
    return (await api.read_scale(ObjectRef("apps/v1", "Deployment", NAMESPACE, name))).replicas


async def image(api: KubernetesCluster, name: str) -> str:
    live = await api.read(ObjectRef("apps/v1", "Deployment", NAMESPACE, name))
    found: str = live["spec"]["template"]["spec"]["containers"][0]["image"]
    return found


async def test_an_image_change_and_a_restart_keep_scaled_replicas(api: KubernetesCluster, renderer: Renderer) -> None:
    live = await api.create(nim("burst"))
    created = await renderer.render(rendering(live), 7)
    assert (created.reason, created.created, await replicas(api, "burst")) == (Reason.RENDERED, True, 7)

    await scale_to(api, ObjectRef("apps/v1", "Deployment", NAMESPACE, "burst"), 12)
    changed = await api.patch(ObjectRef.of(live), {"spec": {"runtime": {"image": "nim:2"}}})
    await renderer.render(rendering(changed), 7)
    assert (await image(api, "burst"), await replicas(api, "burst")) == ("nim:2", 12)

    restarted = Renderer(api, WriteQueue())
    await restarted.render(rendering(changed), 7)
    assert await replicas(api, "burst") == 12


async def test_a_second_apply_before_any_scaling_keeps_the_first_replicas(
    api: KubernetesCluster, renderer: Renderer
) -> None:
    live = await api.create(nim("unscaled"))
    await renderer.render(rendering(live), 7)
    await renderer.render(rendering(live), 3)

    assert await replicas(api, "unscaled") == 7


async def test_replicas_survive_a_crash_between_creating_and_holding_them(
    api: KubernetesCluster, renderer: Renderer
) -> None:
    live = await api.create(nim("crashed"))
    manifest = deployment(rendering(live))
    await api.apply(manifest | {"spec": manifest["spec"] | {"replicas": 7}})
    await renderer.render(rendering(live), 3)
    await renderer.render(rendering(live), 3)

    assert await replicas(api, "crashed") == 7


async def test_replicas_set_by_hand_survive_a_render(
    cluster: Cluster, api: KubernetesCluster, renderer: Renderer
) -> None:
    live = await api.create(nim("byhand"))
    await renderer.render(rendering(live), 4)
    cluster.kubectl("scale", "deployment/byhand", "--replicas=9")
    changed = await api.patch(ObjectRef.of(live), {"spec": {"runtime": {"image": "nim:2"}}})
    await renderer.render(rendering(changed), 4)

    assert await replicas(api, "byhand") == 9


async def test_a_field_that_is_no_longer_declared_goes_away(api: KubernetesCluster, renderer: Renderer) -> None:
    live = await api.create(nim("shrinks", runtimeClassName="nvidia"))
    await renderer.render(rendering(live), 1)
    changed = await api.patch(ObjectRef.of(live), {"spec": {"runtime": {"runtimeClassName": None}}})
    await renderer.render(rendering(changed), 1)
    pod = (await api.read(ObjectRef("apps/v1", "Deployment", NAMESPACE, "shrinks")))["spec"]["template"]["spec"]

    assert "runtimeClassName" not in pod


async def test_a_deployment_that_another_writer_made_is_not_touched(api: KubernetesCluster, renderer: Renderer) -> None:
    await api.create(workload(2, "taken"))
    live = await api.create(nim("taken"))
    result = await renderer.render(rendering(live), 7)

    assert result.reason is Reason.CONFLICT
    assert "taken exists and is not ours" in result.message
    assert (await image(api, "taken"), await replicas(api, "taken")) == ("nim:1", 2)


async def test_a_resource_that_changed_meanwhile_is_rendered_in_the_next_tick(
    api: KubernetesCluster, renderer: Renderer
) -> None:
    live = await api.create(nim("edited"))
    await api.patch(ObjectRef.of(live), {"spec": {"runtime": {"image": "nim:2"}}})
    result = await renderer.render(rendering(live), 1)

    assert result.reason is Reason.WRITE_CONFLICT
    assert not result.created


async def test_a_paused_resource_is_not_rendered(api: KubernetesCluster, renderer: Renderer) -> None:
    live = await api.create(nim("paused"))
    await api.patch(ObjectRef.of(live), {"spec": {"scaling": {"mode": "Paused"}}})
    now = await api.read(ObjectRef.of(live))
    result = await renderer.render(rendering(now), 1)

    assert result.reason is Reason.WRITE_CONFLICT


async def test_a_pod_monitor_is_made_where_its_definition_is_installed(
    cluster: Cluster, api: KubernetesCluster, renderer: Renderer
) -> None:
    live = await api.create(nim("monitored"))
    await renderer.render(rendering(live), 1)
    cluster.kubectl("apply", "--server-side", "-f", definition_of(POD_MONITOR))
    cluster.wait_until_established()
    await renderer.render(rendering(live), 1)
    monitor = await api.read(ObjectRef("monitoring.coreos.com/v1", "PodMonitor", NAMESPACE, "monitored"))

    assert monitor["spec"]["podMetricsEndpoints"][0]["path"] == "/v1/metrics"


async def test_rendered_pods_pass_the_restricted_standard(
    cluster: Cluster, api: KubernetesCluster, renderer: Renderer
) -> None:
    cluster.kubectl("create", "namespace", "hardened")
    cluster.kubectl("label", "namespace", "hardened", "pod-security.kubernetes.io/enforce=restricted")
    document = nim("hardened")
    document["metadata"]["namespace"] = "hardened"
    live = await api.create(document)
    await renderer.render(rendering(live), 1)
    cluster.kubectl(
        "wait", "-n", "hardened", "deployment/hardened", "--for=jsonpath={.status.updatedReplicas}=1", "--timeout=20s"
    )  # fmt: skip
