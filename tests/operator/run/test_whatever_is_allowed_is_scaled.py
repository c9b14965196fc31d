"""Kinds beside Deployment on a real API server: the operator's process under the rights of the chart, and the policies.

The definitions of LeaderWorkerSet and InferenceService are those of their projects' pinned modules. None of their
controllers runs, so the pods are made here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from firsttoken_operator.domain.target_kinds import NAMED
from tests.fixtures.definitions import NIM_SERVICES, SCALING_ADAPTERS, definition
from tests.helm.chart import of_kind, render
from tests.operator.act.objects import infd, workload
from tests.operator.run.process import Process, create, get, installed
from tools.cluster import Cluster, wait_until
from tools.cluster.definitions import INFERENCE_SERVICE, LEADER_WORKER_SET, definition_of

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
VALUES = (
    *(f"scale.kinds[{number}]={name}" for number, name in enumerate(NAMED)),
    f"scale.kinds[{len(NAMED)}].apiVersion=example.com/v1",
    f"scale.kinds[{len(NAMED)}].kind=Server",
    f"scale.kinds[{len(NAMED)}].plural=servers",
    f"scale.kinds[{len(NAMED)}].replicasPath=.spec.size",
    f"scale.kinds[{len(NAMED)}].selectorPath=.status.pods",
    f"scale.kinds[{len(NAMED) + 1}].apiVersion=absent.example.com/v1",
    f"scale.kinds[{len(NAMED) + 1}].kind=Absent",
    f"scale.kinds[{len(NAMED) + 1}].plural=absents",
    "gpus.deviceClasses={gpu.nvidia.com}",
)
CONTAINER = {"name": "nim", "image": "nim:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
TEMPLATE = {"metadata": {"labels": {"app": "sts"}}, "spec": {"containers": [CONTAINER]}}


def servers() -> Json:
    """A definition whose fields of the scale subresource have names of their own."""
    made = definition("example.com", "v1", "Server")
    made["spec"]["versions"][0]["subresources"] = {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.pods",
        },
    }  # fmt: skip
    return made


def target(kind: str, api_version: str, spec: Json, status: Json | None = None, **metadata: Any) -> Json:
    made = {"apiVersion": api_version, "kind": kind, "metadata": {"name": kind.lower(), **metadata}, "spec": spec}
    return made | ({"status": status} if status else {})


TARGETS: dict[str, tuple[Json, Json]] = {
    "StatefulSet": (
        target("StatefulSet", "apps/v1", {
            "replicas": 1, "serviceName": "sts", "selector": {"matchLabels": {"app": "sts"}}, "template": TEMPLATE}),
        {},
    ),
    "LeaderWorkerSet": (
        target("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", {
            "replicas": 1, "rolloutStrategy": {"type": "RollingUpdate"},
            "leaderWorkerTemplate": {"size": 1, "workerTemplate": TEMPLATE}}),
        {"leaderworkerset.sigs.k8s.io/name": "leaderworkerset", "leaderworkerset.sigs.k8s.io/worker-index": "0"},
    ),
    "NIMService": (
        target("NIMService", "apps.nvidia.com/v1alpha1", {"replicas": 1, "image": {"repository": "nim", "tag": "1"}}),
        {"app": "nimservice"},
    ),
    "InferenceService": (
        target("InferenceService", "serving.kserve.io/v1beta1", {"predictor": {
            "minReplicas": 1, "maxReplicas": 1, "containers": [CONTAINER]}},
            annotations={"serving.kserve.io/deploymentMode": "Standard"}),
        {"serving.kserve.io/inferenceservice": "inferenceservice", "component": "predictor"},
    ),
    "DynamoGraphDeploymentScalingAdapter": (
        target("DynamoGraphDeploymentScalingAdapter", "nvidia.com/v1alpha1", {
            "replicas": 1, "dgdRef": {"name": "chat", "serviceName": "decode"}},
            {"replicas": 1, "selector": "graph=chat"}),
        {"graph": "chat"},
    ),
    "Server": (
        target("Server", "example.com/v1", {"size": 1}, {"pods": "app=server"}),
        {"app": "server"},
    ),
}  # fmt: skip
"""Each kind's object, and the labels of its pods where no controller here makes them."""


def pod(kind: str, labels: Json) -> Json:
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"of-{kind.lower()}", "labels": labels},
        "spec": {"containers": [CONTAINER]},
    }  # fmt: skip


@pytest.fixture(scope="module")
def operated(control_plane: Path) -> Iterator[tuple[Cluster, Path]]:
    with installed(*VALUES, nodes=2) as (cluster, account):
        for file in (definition_of(LEADER_WORKER_SET), definition_of(INFERENCE_SERVICE)):
            cluster.kubectl("apply", "--server-side", "-f", file)
        create(cluster, NIM_SERVICES, SCALING_ADAPTERS, servers())
        cluster.wait_until_established()
        for kind, (body, labels) in TARGETS.items():
            create(cluster, body)
            if "status" in body:
                patch = json.dumps({"status": body["status"]})
                cluster.kubectl("patch", kind, kind.lower(), "--subresource=status", "--type=merge", "-p", patch)
            if labels:
                create(cluster, pod(kind, labels))
        yield cluster, account


@pytest.fixture(scope="module")
def process(operated: tuple[Cluster, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("kinds")
    (config,) = (each for each in of_kind(render(*VALUES), "ConfigMap") if "config.yaml" in each["data"])
    written = yaml.safe_load(config["data"]["config.yaml"])
    settings = {name: written[name] for name in ("scaleKinds", "deviceClasses")}
    (folder / "config.yaml").write_text(json.dumps(settings))
    made = Process(folder, operated[1], "--config", str(folder / "config.yaml"))
    wait_until(made.ready, 60, "operator ready")
    yield made
    if made.child.poll() is None:
        made.kill()


def declare(cluster: Cluster, kind: str, **scaling: Any) -> None:
    body = TARGETS[kind][0]
    reference = {"apiVersion": body["apiVersion"], "kind": kind, "name": kind.lower()}
    create(cluster, infd(f"about-{kind.lower()[:40]}", targetRef=reference, scaling={"minReplicas": 3} | scaling))


def about(cluster: Cluster, kind: str) -> Json:
    found: Json = get(cluster, "infd", f"about-{kind.lower()[:40]}").get("status", {})
    return found


def spec(cluster: Cluster, kind: str) -> Json:
    found: Json = get(cluster, kind, kind.lower())["spec"]
    return found


def reason(cluster: Cluster, kind: str, condition: str = "ScalingActive") -> tuple[str, str]:
    found = {each["type"]: each for each in about(cluster, kind).get("conditions", ())}.get(condition, {})
    return found.get("reason", ""), found.get("message", "")


WRITTEN: dict[str, Json] = {
    "StatefulSet": {"replicas": 3}, "LeaderWorkerSet": {"replicas": 3}, "NIMService": {"replicas": 3},
    "DynamoGraphDeploymentScalingAdapter": {"replicas": 3}, "Server": {"size": 3},
    "InferenceService": {"predictor": {"minReplicas": 3, "maxReplicas": 3, "containers": [CONTAINER]}},
}  # fmt: skip


def test_each_of_them_is_scaled_and_its_pods_are_counted(operated: tuple[Cluster, Path], process: Process) -> None:
    cluster, _ = operated
    for kind in TARGETS:
        declare(cluster, kind)
    for kind, written in WRITTEN.items():

        def is_written(kind: str = kind, written: Json = written) -> bool:
            found = spec(cluster, kind)
            return written.items() <= found.items() or (kind == "InferenceService" and _same(found, written))

        wait_until(is_written, 60, f"{kind} written")
    for kind in TARGETS:
        ready = 3 if kind == "StatefulSet" else 1
        wait_until(lambda k=kind, n=ready: about(cluster, k).get("readyReplicas") == n, 60, f"{kind} told")
        assert about(cluster, kind)["replicas"] == 3
    assert process.child.poll() is None


QUOTA = {
    "apiVersion": "v1", "kind": "ResourceQuota",
    "metadata": {"name": "few-pods"}, "spec": {"hard": {"pods": "0"}},
}  # fmt: skip


def test_pods_that_a_quota_refuses_to_a_stateful_set_are_named_also_where_a_group_owns_it(
    operated: tuple[Cluster, Path], process: Process
) -> None:
    """The real controller of StatefulSets; that of LeaderWorkerSets makes one of its own name for its leaders."""
    cluster, _ = operated
    made = TARGETS["StatefulSet"][0]
    leaders = made | {"metadata": {"name": "leaderworkerset"}}
    create(cluster, QUOTA)
    create(cluster, made | {"spec": made["spec"] | {"replicas": 4}}, leaders)
    declare(cluster, "StatefulSet", minReplicas=4)
    for kind in ("StatefulSet", "LeaderWorkerSet"):
        wait_until(lambda k=kind: reason(cluster, k, "CapacityAvailable")[0] == "PodsRefused", 60, f"{kind} refused")
        assert "exceeded quota: few-pods" in reason(cluster, kind, "CapacityAvailable")[1]

    cluster.kubectl("delete", "resourcequota", "few-pods")
    cluster.kubectl("delete", "statefulset", "leaderworkerset")
    cluster.kubectl("delete", "pod", "statefulset-0")
    wait_until(lambda: about(cluster, "StatefulSet").get("readyReplicas") == 4, 120, "all are made")
    wait_until(
        lambda: reason(cluster, "StatefulSet", "CapacityAvailable")[0] != "PodsRefused", 60, "none is refused any more"
    )


def _same(found: Json, written: Json) -> bool:
    predictor = found["predictor"]
    return all(predictor[name] == written["predictor"][name] for name in ("minReplicas", "maxReplicas"))


def test_another_writer_that_goes_on_is_a_conflict(operated: tuple[Cluster, Path], process: Process) -> None:
    cluster, _ = operated
    patch = json.dumps({"spec": {"replicas": 1}})
    for number in (1, 2):
        wait_until(lambda: spec(cluster, "NIMService")["replicas"] == 3, 60, "scaled again")
        cluster.kubectl("patch", "nimservice", "nimservice", "--type=merge", "-p", patch)
        before = process.ticks()
        wait_until(lambda b=before: process.ticks() >= b + 2, 60, f"write {number} seen")

    wait_until(lambda: reason(cluster, "NIMService")[0] == "Conflict", 60, "a conflict")
    assert "another writer (kubectl-patch) keeps changing the replicas" in reason(cluster, "NIMService")[1]
    assert spec(cluster, "NIMService")["replicas"] == 1


def test_a_deployment_that_one_of_them_makes_is_its_own(operated: tuple[Cluster, Path], process: Process) -> None:
    cluster, _ = operated
    owner = get(cluster, "nimservice", "nimservice")["metadata"]
    made = workload(1, "made")
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps.nvidia.com/v1alpha1", "kind": "NIMService", "name": owner["name"], "uid": owner["uid"],
         "controller": True}
    ]  # fmt: skip
    create(cluster, made, infd("about-made", targetRef={"name": "made"}, scaling={"minReplicas": 3}))

    wait_until(lambda: reason(cluster, "made")[0] == "Conflict", 60, "a conflict")
    assert reason(cluster, "made")[1] == "owned by NIMService nimservice; point targetRef at it"


def test_a_kind_that_is_not_allowed_names_the_value_that_allows_it(
    operated: tuple[Cluster, Path], process: Process
) -> None:
    cluster, _ = operated
    named = {"apiVersion": "ray.io/v1", "kind": "RayService", "name": "chat"}
    create(cluster, infd("about-ray", targetRef=named))

    wait_until(lambda: reason(cluster, "ray")[0] == "TargetKindNotAllowed", 60, "refused")
    assert "scale.kinds of the chart" in reason(cluster, "ray")[1]


def refused(cluster: Cluster, account: Path, kind: str, patch: Json, *options: str) -> str:
    what = ("patch", kind, kind.lower(), "-n", "default", "--type=merge", "-p", json.dumps(patch), *options)
    done = cluster.kubectl(*what, kubeconfig=account, check=False)
    return "" if done.returncode == 0 else done.stderr


HARMS: tuple[tuple[str, Json, str], ...] = (
    ("NIMService", {"spec": {"image": {"tag": "2"}}}, "spec.image"),
    ("NIMService", {"spec": {"replicas": 2, "scale": {"enabled": False}}}, "spec.scale"),
    ("NIMService", {"spec": {"image": {"repository": None}}}, "spec.image"),
    ("NIMService", {"metadata": {"labels": {"a": "b"}}}, "metadata.labels"),
    ("NIMService", {"metadata": {"finalizers": ["example.com/kept"]}}, "metadata.finalizers"),
    (
        "InferenceService",
        {"spec": {"predictor": {"maxReplicas": 2, "serviceAccountName": "admin"}}},
        "spec.predictor.serviceAccountName",
    ),
    (
        "InferenceService",
        {"spec": {"predictor": {"minReplicas": 2}, "transformer": {"minReplicas": 1}}},
        "spec.transformer",
    ),
    (
        "InferenceService",
        {"metadata": {"annotations": {"serving.kserve.io/deploymentMode": None}}},
        "metadata.annotations",
    ),
)


@pytest.mark.parametrize(("kind", "patch", "field"), HARMS)
def test_of_what_has_no_scale_subresource_the_replicas_are_written_and_nothing_else(
    operated: tuple[Cluster, Path], kind: str, patch: Json, field: str
) -> None:
    cluster, account = operated
    said = refused(cluster, account, kind, patch)

    assert f"the replicas of {kind} objects and nothing else of them" in said
    assert said.strip().endswith(f"changes {field}")


@pytest.mark.parametrize("kind", TARGETS)
def test_one_that_is_not_open_to_scaling_is_not_scaled(operated: tuple[Cluster, Path], kind: str) -> None:
    cluster, account = operated
    fields: Json = {"replicas": 2}
    options = () if kind in ("NIMService", "InferenceService") else ("--subresource=scale",)
    if kind == "InferenceService":
        fields = {"predictor": {"minReplicas": 3, "maxReplicas": 3}}
    try:
        cluster.kubectl("label", kind, kind.lower(), "firsttoken.dev/scale=false")
        wait_until(
            lambda: "is not open to scaling" in refused(cluster, account, kind, {"spec": fields}, *options),
            20, "the policy in force",
        )  # fmt: skip
    finally:
        cluster.kubectl("label", kind, kind.lower(), "firsttoken.dev/scale-")


def test_gpus_that_a_driver_publishes_are_given_to_pods_that_claim_them_and_to_no_more(
    operated: tuple[Cluster, Path], process: Process
) -> None:
    """Four GPUs on a node without a device plugin, and a Deployment that wants three replicas of two of them."""
    cluster, where, request = operated[0], {"team": "claims"}, {"deviceClassName": "gpu.nvidia.com", "count": 2}
    product = {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100 80GB HBM3"}}
    devices = [{"name": f"gpu-{number}", "attributes": product} for number in range(4)]
    resource_v1 = "resource.k8s.io/v1"
    target = workload(1, "claims")
    target["spec"]["template"]["spec"] = {
        "nodeSelector": where, "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "two"}],
        "containers": [{"name": "nim", "image": "nim:1", "resources": {"claims": [{"name": "gpus"}]}}],
    }  # fmt: skip
    create(
        cluster,
        {
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "claims-0", "labels": where, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        },
        {
            "apiVersion": resource_v1, "kind": "ResourceSlice", "metadata": {"name": "claims-0"},
            "spec": {
                "driver": "gpu.nvidia.com", "nodeName": "claims-0", "devices": devices,
                "pool": {"name": "claims-0", "generation": 1, "resourceSliceCount": 1},
            },
        },
        {
            "apiVersion": resource_v1, "kind": "ResourceClaimTemplate", "metadata": {"name": "two"},
            "spec": {"spec": {"devices": {"requests": [{"name": "gpus", "exactly": request}]}}},
        },
        {
            "apiVersion": "firsttoken.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": "claims"},
            "spec": {"location": "OnPrem", "gpu": "H100-SXM-80GB", "nodeSelector": where},
        },
        target,
        infd(
            "claims", targetRef={"name": "claims"}, capacity={"pool": "claims"}, scaling={"minReplicas": 3},
            hardware={"gpus": ["H100-SXM-80GB"], "tensorParallel": 2},
        ),
    )  # fmt: skip

    def gpus() -> tuple[int, int, int]:
        found = get(cluster, "gpupool", "claims").get("status", {})
        return found.get("inventoryGPUs"), found.get("chargedGPUs"), found.get("unmetGPUs")

    wait_until(lambda: get(cluster, "deployment", "claims")["spec"]["replicas"] == 2, 60, "two replicas")
    wait_until(lambda: gpus() == (4, 4, 2), 60, "all of them charged, and two lacking")
    assert get(cluster, "deployment", "claims")["spec"]["replicas"] == 2


def test_one_whose_definition_is_not_installed_keeps_none_from_being_scaled(
    operated: tuple[Cluster, Path], process: Process
) -> None:
    assert process.child.poll() is None
    said = [entry for entry in process.entries() if entry["severity"] in ("warning", "error", "critical")]

    assert not [entry for entry in said if "absents" in json.dumps(entry)]
