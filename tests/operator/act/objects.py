"""An InferenceDeployment, its target and a decision about it, as the tests of `act` need them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from firsttoken_operator.act.errors import Conflict
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef, Scale
from firsttoken_operator.decide.sentences import announcement
from firsttoken_operator.domain import Decision, Outcome, Prediction, Reason, ResourceSnapshot
from tests.operator.decide.builders import SIZED, metrics, resource, target

NAMESPACE = "default"
TARGET = "nim"


def infd(name: str = "support-rag", **spec: Any) -> dict[str, Any]:
    """A valid InferenceDeployment that scales the Deployment `nim`."""
    return {
        "apiVersion": "firsttoken.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "model": {"name": "meta-llama/Meta-Llama-3-8B-Instruct", "precision": "FP8"},
            "traffic": {"inputTokens": 2000, "outputTokens": 200, "peakRequestsPerSecond": "200"},
            "sla": {"timeToFirstToken": {"milliseconds": 300}},
            "hardware": {"gpus": ["H100-SXM-80GB"]},
            "targetRef": {"name": TARGET},
        }
        | spec,
    }


def workload(replicas: int, name: str = TARGET) -> dict[str, Any]:
    """A Deployment of one GPU a pod."""
    container = {"name": "nim", "image": "nim:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


def seen(live_resource: dict[str, Any], live_target: dict[str, Any], **changes: Any) -> ResourceSnapshot:
    """Snapshot of a tick: the resource and its settled target as they are on the server."""
    replicas = live_target["spec"]["replicas"]
    there = live_target["metadata"]
    tgt = target(replicas, uid=there["uid"], name=there["name"], resource_version=there.get("resourceVersion", ""))
    metadata = live_resource["metadata"]
    base = resource(tgt, metrics(20.0))
    return replace(
        base, uid=metadata["uid"], name=metadata["name"], namespace=NAMESPACE, generation=metadata["generation"],
        **changes,
    )  # fmt: skip


def decision(about: ResourceSnapshot, from_replicas: int, to_replicas: int, **changes: Any) -> Decision:
    """A decision for 20 requests a second."""
    base = Decision(
        uid=about.uid,
        namespace=about.namespace,
        name=about.name,
        outcome=Outcome.UP if to_replicas > from_replicas else Outcome.STEADY,
        from_replicas=from_replicas,
        to_replicas=to_replicas,
        recommended=to_replicas,
        reason=Reason.DEMAND_ABOVE_CAPACITY if to_replicas > from_replicas else Reason.STEADY,
        message="20.0 requests/s arrive",
        limited_by=None,
        limit=60,
        unmet_replicas=0,
        gpus_per_replica=1,
        arrival_requests_per_second=20.0,
        capacity_factor=1.0,
        prediction=Prediction(
            n_minus_1=SIZED.table.at(20.0 / (to_replicas - 1)) if to_replicas > 1 else None,
            n=SIZED.table.at(20.0 / to_replicas) if to_replicas else None,
            n_plus_1=SIZED.table.at(20.0 / (to_replicas + 1)),
        ),
        metrics_health=Reason.PRESENT,
    )
    changed = replace(base, **changes)
    return replace(changed, announcement=announcement(changed, SIZED)) if changed.changes else changed


async def scale_to(api: KubernetesCluster, ref: ObjectRef, replicas: int) -> Scale:
    """Scale as another writer would; the controllers update a new Deployment all the time, so try again."""
    while True:
        now = await api.read_scale(ref)
        try:
            return await api.patch_scale(ref, replicas, uid=now.uid, resource_version=now.resource_version)
        except Conflict:
            continue
