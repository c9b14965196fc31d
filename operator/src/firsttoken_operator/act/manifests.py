"""Manifests that `spec.runtime` becomes: Deployment, Service, PodMonitor and PodDisruptionBudget. Pure.

A replica that takes several servers is a group of pods, one on each: a LeaderWorkerSet in the place of the Deployment.
A DaemonSet that keeps the image on nodes comes with them where that is asked for.

**`replicas` is in none of these manifests.** Who owns that field, and how it gets its first value, is in `render`. What
is in a pod is in `pods`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from types import MappingProxyType

from firsttoken_operator.act.pods import (
    API_PORT_NAME,
    METRICS_PORT_NAME,
    Json,
    Rendering,
    has_metrics_port,
    pod_template,
)
from firsttoken_operator.act.prepull import KEEPER, keeper
from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.api.inference_deployment import KIND
from firsttoken_operator.domain import DEPLOYMENT
from firsttoken_operator.domain.target_kinds import LEADER, LEADER_WORKER_SET
from firsttoken_sizing.errors import InvalidInput

RESOURCE_LABEL = "firsttoken.dev/inference-deployment"
"""Ties pods, Service and series to the resource; it is also the selector, which can never change."""
MANAGED_BY_LABEL, MANAGER = "app.kubernetes.io/managed-by", "firsttoken"
SCALE_LABEL = "firsttoken.dev/scale"
"""Label without which on the Deployment or on its namespace the chart's admission policy refuses to have it scaled."""
MONITORING_API = "monitoring.coreos.com/v1"
DEADLINE_STEP_SECONDS = 600
"""Steps of the deadline of a rollout: what is learned of starts changes all the time, and a Deployment shall not."""
WORKLOADS = (DEPLOYMENT, LEADER_WORKER_SET)
"""Kinds of which a rendering has one: its pods are the replicas, or groups of them are."""
KINDS = (
    KEEPER,
    ("v1", "Service"),
    ("policy/v1", "PodDisruptionBudget"),
    (MONITORING_API, "PodMonitor"),
    *((kind.api_version, kind.kind) for kind in WORKLOADS),
)
"""Kinds that are rendered, in the order in which they are made, but for the first one, which is made last: nothing
leads to a pod before the Service is there."""
LONGEST_GROUP_NAME = 48
"""Characters of the name of a LeaderWorkerSet at most: the label of a worker has it, a number and a hash, in 63."""


def manifests(rendering: Rendering) -> tuple[Json, ...]:
    """All of them, in the order of `KINDS`. Raises `InvalidInput` for what the server cannot run."""
    workload = deployment if rendering.servers == 1 else leader_worker_set
    kept = (image_keeper(rendering),) if rendering.runtime.pre_pull else ()
    return *kept, service(rendering), disruption_budget(rendering), pod_monitor(rendering), workload(rendering)


def pods_of(workload: Json) -> Json:
    """The part of a workload, or of what keeps its image, that says what its pods are."""
    spec = workload["spec"]
    return spec["leaderWorkerTemplate" if workload["kind"] == LEADER_WORKER_SET.kind else "template"]  # type: ignore[no-any-return]


def images_of(workload: Json, container: str) -> list[str]:
    """Images that the pods of a Deployment or a LeaderWorkerSet run in their container of this name."""
    pods = pods_of(workload)
    templates = [pods] if "spec" in pods else [pods[part] for part in ("leaderTemplate", "workerTemplate")]
    return [each["image"] for pod in templates for each in pod["spec"]["containers"] if each["name"] == container]


def revision_of(workload: Json) -> str:
    """Name of what the pods of a manifest are: other pods have another one.

    NB: in letters only: a number that moves inside a condition's message is no news.
    """
    digest = hashlib.sha256(json.dumps(pods_of(workload), sort_keys=True).encode()).hexdigest()
    return digest[:10].translate(str.maketrans("0123456789abcdef", "bcdfghjklmnpqrst"))


def deployment(rendering: Rendering) -> Json:
    """The Deployment, without `replicas`. Raises `InvalidInput` for what the server cannot run."""
    spec = {
        "progressDeadlineSeconds": _deadline_seconds(rendering),
        "revisionHistoryLimit": 3,
        # There is no spare GPU for a surge pod.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}},
        "selector": {"matchLabels": _selector(rendering)},
        "template": pod_template(rendering, _labels(rendering)),
    }
    return _manifest(DEPLOYMENT.api_version, DEPLOYMENT.kind, rendering, spec, {SCALE_LABEL: "true"})


def leader_worker_set(rendering: Rendering) -> Json:
    """The LeaderWorkerSet, without `replicas`: a group of pods on as many servers is one replica.

    Raises `InvalidInput` for what the server cannot run.
    """
    if len(name := rendering.resource.metadata.name) > LONGEST_GROUP_NAME:
        problem = f"{name} has more than {LONGEST_GROUP_NAME} characters, and its replicas take several servers"
        raise InvalidInput("metadata.name", problem, "declare it under a shorter name")
    labels = _labels(rendering)
    spec = {
        # The leader is ready when its workers have loaded their part: it must not wait for it to start them.
        "startupPolicy": "LeaderCreated",
        # NB: the subdomain that all groups could share is the Service of this name, which balances and names no pod.
        "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
        # There is no spare GPU for a surge group.
        "rolloutStrategy": {
            "type": "RollingUpdate",
            "rollingUpdateConfiguration": {"maxSurge": 0, "maxUnavailable": 1},
        },
        "leaderWorkerTemplate": {
            "size": rendering.servers,
            # A process that ends takes with it what all the others compute.
            "restartPolicy": "RecreateGroupOnPodRestart",
            "leaderTemplate": pod_template(rendering, labels),
            "workerTemplate": pod_template(rendering, labels, is_worker=True),
        },
    }
    return _manifest(LEADER_WORKER_SET.api_version, LEADER_WORKER_SET.kind, rendering, spec, {SCALE_LABEL: "true"})


def image_keeper(rendering: Rendering) -> Json:
    """The DaemonSet that keeps the image on nodes. Raises `InvalidInput` where that is not to be had."""
    return _manifest(*KEEPER, rendering, keeper(rendering))


def service(rendering: Rendering) -> Json:
    """The Service in front of the pods that answer."""
    ports = {API_PORT_NAME: rendering.runtime.port, **rendering.container.further_ports}
    spec = {
        "selector": _answering(rendering),
        "ports": [{"name": n, "port": port, "targetPort": n, "protocol": "TCP"} for n, port in ports.items()],
    }
    return _manifest("v1", "Service", rendering, spec)


def disruption_budget(rendering: Rendering) -> Json:
    """The PodDisruptionBudget: nodes are drained one replica at a time. A pod that is not ready holds up no drain.

    Of a group it counts every pod: whichever is evicted, the whole group ends, and until its leader is ready again no
    pod of another one may be.
    """
    spec = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": _selector(rendering)},
    }
    return _manifest("policy/v1", "PodDisruptionBudget", rendering, spec)


def pod_monitor(rendering: Rendering) -> Json:
    """The PodMonitor: of pods, not of a Service, so that no second Service doubles the series."""
    runtime = rendering.runtime
    endpoint = {
        "port": METRICS_PORT_NAME if has_metrics_port(runtime) else API_PORT_NAME,
        "path": runtime.metrics_path or rendering.container.metrics_path,
        "interval": f"{max(1, round(rendering.scrape_interval_seconds))}s",
        "honorLabels": False,
    }
    spec = {
        "selector": {"matchLabels": _answering(rendering)},
        "podTargetLabels": [RESOURCE_LABEL],
        "podMetricsEndpoints": [endpoint],
    }
    return _manifest(MONITORING_API, "PodMonitor", rendering, spec, rendering.monitor_labels)


def _deadline_seconds(rendering: Rendering) -> int:
    """Time without progress after which a rollout counts as failed: twice what a start takes.

    That is what the kubelet gives it, or what starts of these pods took where that is more (a new node, a new image).
    NB: the default of 600 s marks a rollout as failed while a large model is still loading.
    """
    usual = 2 * rendering.runtime.startup_timeout_seconds
    learned = 2 * (rendering.p99_start_seconds or 0.0)
    return max(usual, math.ceil(learned / DEADLINE_STEP_SECONDS) * DEADLINE_STEP_SECONDS if learned > usual else 0)


def _manifest(
    api_version: str, kind: str, rendering: Rendering, spec: Json, labels: Mapping[str, str] = MappingProxyType({})
) -> Json:
    metadata = rendering.resource.metadata
    owner = {
        "apiVersion": API_VERSION, "kind": KIND, "name": metadata.name, "uid": metadata.uid,
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "labels": {**labels, **_labels(rendering)},
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def _labels(rendering: Rendering) -> dict[str, str]:
    return _selector(rendering) | {
        "app.kubernetes.io/name": rendering.container.name,
        "app.kubernetes.io/instance": rendering.resource.metadata.name,
        "app.kubernetes.io/component": "inference",
        MANAGED_BY_LABEL: MANAGER,
    }


def _answering(rendering: Rendering) -> dict[str, str]:
    """Labels of the pods that answer requests and have metrics: of a group its leader."""
    return _selector(rendering) if rendering.servers == 1 else {**_selector(rendering), **LEADER}


def _selector(rendering: Rendering) -> dict[str, str]:
    return {RESOURCE_LABEL: rendering.resource.metadata.name}
