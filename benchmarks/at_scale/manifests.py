"""Objects that the rig creates: namespaces, workloads with their pods, and what asks for their scaling."""

from __future__ import annotations

from typing import Any

import yaml

from at_scale.kinds import EXAMPLE, GPU, NAMESPACES, POOL_GPUS, POOLS, Fault, Workload
from firsttoken_operator.api.base import API_VERSION

Manifest = dict[str, Any]

TEMPLATE_HASH = "5d4f8c7b9"
LARGEST = 50
"""Replicas that neither autoscaler reaches."""


def namespaces() -> list[Manifest]:
    """Namespaces of the teams, opened to scaling."""
    labels = {"firsttoken.dev/scale": "true"}
    return [{"metadata": {"name": f"team-{number:02d}", "labels": labels}} for number in range(NAMESPACES)]


def benchmark_profile() -> Manifest:
    """Profile that the uniform fleet is sized by: the example's."""
    documents = yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8"))
    found: Manifest = next(document for document in documents if document["kind"] == "BenchmarkProfile")
    return found


def pools() -> list[Manifest]:
    """Pools of the mixed fleet."""
    spec = {"location": "Cloud", "gpu": GPU, "baseGPUs": POOL_GPUS, "gpusPerServer": 8}
    return [{"apiVersion": API_VERSION, "kind": "GPUPool", "metadata": {"name": p}, "spec": spec} for p in POOLS]


def resource(workload: Workload) -> Manifest:
    """InferenceDeployment of a workload, with its fault."""
    spec = dict(workload.kind.spec)
    target = f"{workload.name}-gone" if workload.fault is Fault.NO_TARGET else workload.name
    if workload.fault is Fault.UNKNOWN_MODEL:
        spec["model"] = {"name": "unknown/no-such-model"}
    if workload.fault is Fault.NO_SOURCE:
        spec["metrics"] = {"source": "nowhere"}
    if workload.pool:
        spec["capacity"] = {"pool": workload.pool}
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceDeployment",
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": spec | {"targetRef": {"kind": "Deployment", "name": target}},
    }


def scaled_object(workload: Workload, prometheus_url: str) -> Manifest:
    """ScaledObject of a workload: one trigger on the load, which is 1 where one replica is nearly filled."""
    own = f'workload_load{{namespace="{workload.namespace}",deployment="{workload.name}"}}'
    trigger = {"serverAddress": prometheus_url, "query": own, "threshold": "1"}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": {
            "scaleTargetRef": {"name": workload.name},
            "pollingInterval": 15,
            "minReplicaCount": 1,
            "maxReplicaCount": LARGEST,
            "triggers": [{"type": "prometheus", "metadata": trigger}],
        },
    }


def deployment(workload: Workload, replicas: int) -> Manifest:
    """Deployment of a workload."""
    labels = {"app": workload.name}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": _template(workload, labels)}
    return {"metadata": {"name": workload.name}, "spec": spec}


def deployment_status(replicas: int) -> Manifest:
    """Status of a Deployment that no controller keeps: all of its first pods are ready."""
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), replicas)
    return {"status": {"observedGeneration": 1, **counts}}


def replica_set(workload: Workload, replicas: int, owner_uid: str) -> Manifest:
    """ReplicaSet that a Deployment's controller would make."""
    labels = {"app": workload.name, "pod-template-hash": TEMPLATE_HASH}
    name = f"{workload.name}-{TEMPLATE_HASH}"
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": _template(workload, labels)}
    return {"metadata": _owned(name, labels, "Deployment", workload.name, owner_uid), "spec": spec}


def pod(workload: Workload, number: int, owner_uid: str, node: str) -> Manifest:
    """Pod that a ReplicaSet's controller would make, placed on a node."""
    labels = {"app": workload.name, "pod-template-hash": TEMPLATE_HASH}
    owner = f"{workload.name}-{TEMPLATE_HASH}"
    spec = _template(workload, labels)["spec"] | {"nodeName": node}
    return {"metadata": _owned(f"{owner}-{number:05d}", labels, "ReplicaSet", owner, owner_uid), "spec": spec}


def _owned(name: str, labels: dict[str, str], kind: str, owner: str, uid: str) -> Manifest:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": uid, "controller": True}
    return {"name": name, "labels": labels, "ownerReferences": [reference]}


def _template(workload: Workload, labels: dict[str, str]) -> Manifest:
    limits = {"nvidia.com/gpu": str(workload.kind.gpus)}
    container = {"name": "engine", "image": "engine", "resources": {"limits": limits}}
    return {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
