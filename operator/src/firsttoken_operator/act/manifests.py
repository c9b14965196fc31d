"""Manifests that `spec.runtime` becomes: Deployment, Service, PodMonitor and PodDisruptionBudget. Pure.

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
from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.api.inference_deployment import KIND

RESOURCE_LABEL = "firsttoken.dev/inference-deployment"
"""Ties pods, Service and series to the resource; it is also the selector, which can never change."""
MANAGED_BY_LABEL, MANAGER = "app.kubernetes.io/managed-by", "firsttoken"
SCALE_LABEL = "firsttoken.dev/scale"
"""Label without which on the Deployment or on its namespace the chart's admission policy refuses to have it scaled."""
MONITORING_API = "monitoring.coreos.com/v1"
DEADLINE_STEP_SECONDS = 600
"""Steps of the deadline of a rollout: what is learned of starts changes all the time, and a Deployment shall not."""
KINDS = (
    ("v1", "Service"),
    ("policy/v1", "PodDisruptionBudget"),
    (MONITORING_API, "PodMonitor"),
    ("apps/v1", "Deployment"),
)
"""Kinds that are rendered, in the order in which they are made: nothing leads to a pod before the Service is there."""


def manifests(rendering: Rendering) -> tuple[Json, ...]:
    """All of them, in the order of `KINDS`. Raises `InvalidInput` for what the server cannot run."""
    return service(rendering), disruption_budget(rendering), pod_monitor(rendering), deployment(rendering)


def revision_of(workload: Json) -> str:
    """Name of what the pods of a manifest are: other pods have another one.

    NB: in letters only: a number that moves inside a condition's message is no news.
    """
    digest = hashlib.sha256(json.dumps(workload["spec"]["template"], sort_keys=True).encode()).hexdigest()
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
    return _manifest("apps/v1", "Deployment", rendering, spec, {SCALE_LABEL: "true"})


def service(rendering: Rendering) -> Json:
    """The Service in front of the pods."""
    ports = {API_PORT_NAME: rendering.runtime.port, **rendering.container.further_ports}
    spec = {
        "selector": _selector(rendering),
        "ports": [{"name": n, "port": port, "targetPort": n, "protocol": "TCP"} for n, port in ports.items()],
    }
    return _manifest("v1", "Service", rendering, spec)


def disruption_budget(rendering: Rendering) -> Json:
    """The PodDisruptionBudget: nodes are drained one replica at a time. A pod that is not ready holds up no drain."""
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
        "selector": {"matchLabels": _selector(rendering)},
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


def _selector(rendering: Rendering) -> dict[str, str]:
    return {RESOURCE_LABEL: rendering.resource.metadata.name}
