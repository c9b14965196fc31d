"""Manifests of what keeps GPUs of a pool warm: pods without work, of a priority below that of all others. Pure.

Where a replica finds no free GPU, the scheduler ends such a pod at once and puts the replica in its place; the pod is
made again, waits, and so brings the next node. One pod holds a whole server, so that a replica of any size finds its
GPUs on one. The operator has no part in it and needs no rights for it.

The priority is the lowest that cluster-autoscaler adds nodes for (`--expendable-pods-priority-cutoff`, -10).
"""

from __future__ import annotations

from collections.abc import Iterable

from firsttoken_operator.act.pods import GPU_PRODUCT_LABEL, GPU_RESOURCE, Json, nodes_with
from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_operator.domain.pods import WARM_CLASS
from firsttoken_sizing.catalog import resolve_gpu

PRIORITY = -10
POOL_LABEL = "firsttoken.dev/warm-for"
UNPRIVILEGED_USER = 65535


def warm_manifests(pools: Iterable[GPUPool], namespace: str, image: str) -> list[Json]:
    """The PriorityClass, and a Deployment for each pool that declares warm GPUs; nothing where none does.

    `image`: one that does nothing for ever. Raises `UnknownGPU` for a pool without a node selector whose GPU is not in
    the catalog.
    """
    made = [_deployment(pool, pool.spec.warm_gpus, namespace, image) for pool in pools if pool.spec.warm_gpus]
    return [_priority_class(), *made] if made else []


def _priority_class() -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": WARM_CLASS},
        "value": PRIORITY,
        "preemptionPolicy": "Never",
        "description": "Holds GPUs until any other pod wants them.",
    }


def _deployment(pool: GPUPool, gpus: int, namespace: str, image: str) -> Json:
    each = min(gpus, pool.spec.gpus_per_server)
    labels = {"app.kubernetes.io/name": WARM_CLASS, POOL_LABEL: pool.metadata.name}
    container = {
        "name": "warm",
        "image": image,
        "resources": {"limits": {GPU_RESOURCE: str(each)}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod: Json = {
        "priorityClassName": WARM_CLASS,
        # Nothing is lost by its end, and a replica waits for it.
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": UNPRIVILEGED_USER, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [
            {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"},
            *(t.model_dump(mode="json", by_alias=True, exclude_none=True) for t in pool.spec.tolerations),
        ],
        "containers": [container],
        **_place(pool),
    }  # fmt: skip
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"{WARM_CLASS}-{pool.metadata.name}", "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": gpus // each,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _place(pool: GPUPool) -> Json:
    """Nodes of the pool: those that it selects, else those with the label of its GPU."""
    if pool.spec.node_selector:
        return {"nodeSelector": dict(pool.spec.node_selector)}
    return {"affinity": nodes_with([(GPU_PRODUCT_LABEL, resolve_gpu(pool.spec.gpu).node_labels)])}
