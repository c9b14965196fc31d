"""Kubernetes objects as the API server sends them, with just enough in them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

NAMESPACE = "call-center"
EPOCH = 1_750_000_000.0
"""The wall clock at second 0 of a test."""

Body = dict[str, Any]


def at(seconds: float) -> str:
    """A time of the API server: whole seconds."""
    return datetime.fromtimestamp(EPOCH + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def metadata(name: str, *, uid: str = "", owner: tuple[str, str, str] | None = None, **fields: Any) -> Body:
    owners = [] if owner is None else [{"kind": owner[0], "name": owner[1], "uid": owner[2], "controller": True}]
    return {
        "name": name, "namespace": NAMESPACE, "uid": uid or f"uid-{name}", "creationTimestamp": at(0),
        "resourceVersion": "7", "generation": 1, "ownerReferences": owners, **fields,
    }  # fmt: skip


def deployment(name: str = "nim", *, replicas: int = 3, gpus: int = 1, **options: Any) -> Body:
    status = {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas} | options.pop("status", {})
    container = {"name": "nim", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {
        "metadata": metadata(name, **options),
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [container]}}},
        "status": status,
    }


def replica_set(name: str = "nim-1", *, of: str = "nim", **options: Any) -> Body:
    return {"metadata": metadata(name, owner=("Deployment", of, f"uid-{of}"), **options)}


def pod(
    name: str,
    *,
    of: str = "nim-1",
    scheduled: float | None = 0,
    ready: float | None = None,
    unready: float | None = None,
    waiting: str = "",
    restarts: int = 0,
    gpus: int = 1,
    node: str = "gpu-0",
    phase: str = "Running",
    unschedulable: bool = False,
    owned: bool = True,
    **options: Any,
) -> Body:
    conditions: list[Body] = []
    if unschedulable:
        conditions.append({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"})
    elif scheduled is not None:
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": at(scheduled)})
    if ready is not None:
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": at(ready)})
    if unready is not None:
        conditions.append({"type": "Initialized", "status": "True", "lastTransitionTime": at(scheduled or 0)})
        conditions.append({"type": "Ready", "status": "False", "lastTransitionTime": at(unready)})
    state = {"waiting": {"reason": waiting}} if waiting else {"running": {}}
    return {
        "metadata": metadata(name, owner=("ReplicaSet", of, f"uid-{of}") if owned else None, **options),
        "spec": {
            "nodeName": None if scheduled is None or unschedulable else node,
            "containers": [{"name": "nim", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
        },
        "status": {
            "phase": phase, "conditions": conditions,
            "containerStatuses": [{"name": "nim", "state": state, "restartCount": restarts}],
        },
    }  # fmt: skip


def node(name: str, *, gpus: str | None = "8", product: str = "NVIDIA-H100-80GB-HBM3", **labels: str) -> Body:
    allocatable = {"cpu": "64"} | ({} if gpus is None else {"nvidia.com/gpu": gpus})
    return {
        "metadata": metadata(name, labels={"nvidia.com/gpu.product": product, **labels}),
        "spec": {},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def autoscaler(name: str, *, target: str = "nim", **options: Any) -> Body:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    return {"metadata": metadata(name, **options), "spec": {"scaleTargetRef": reference}}


def inference_deployment(
    name: str = "rag",
    *,
    target: str = "nim",
    pool: str | None = None,
    scaling: Body | None = None,
    target_ref: Body | None = None,
    **options: Any,
) -> Body:
    return {
        "apiVersion": "firsttoken.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": metadata(name, **options),
        "spec": {
            "model": {"name": "meta-llama/Meta-Llama-3-8B-Instruct"},
            "traffic": {"inputTokens": 2000, "outputTokens": 200, "peakRequestsPerSecond": "200"},
            "sla": {"timeToFirstToken": {"milliseconds": 300}},
            "hardware": {"gpus": ["H100-SXM-80GB"]},
            "targetRef": target_ref or {"name": target},
            "scaling": scaling or {},
            **({"capacity": {"pool": pool}} if pool else {}),
        },
    }


def pool(name: str = "h100", *, location: str = "OnPrem", **spec: Any) -> Body:
    return {
        "apiVersion": "firsttoken.dev/v1alpha1",
        "kind": "GPUPool",
        "metadata": metadata(name),
        "spec": {"location": location, "gpu": "H100-SXM-80GB", **spec},
    }
