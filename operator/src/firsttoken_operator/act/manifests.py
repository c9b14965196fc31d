"""Manifests that `spec.runtime` becomes: a Deployment, a Service and a PodMonitor. Pure.

Only the restricted fields of `spec.runtime` reach a pod: a user who may write an InferenceDeployment makes the operator
create pods with the operator's rights, so the pods always pass the Pod Security Standard `restricted`, use no service
account token and reach nothing outside their namespace.

**`replicas` is in none of these manifests.** Who owns that field, and how it gets its first value, is in `render`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.api.inference_deployment import KIND, InferenceDeployment
from firsttoken_operator.api.runtime import Runtime
from firsttoken_operator.runtimes import RENDERED
from firsttoken_operator.runtimes.spec import ContainerSpec
from firsttoken_sizing.profile import ConfigurationKey

Json = dict[str, Any]

RESOURCE_LABEL = "firsttoken.dev/inference-deployment"
"""Ties pods, Service and series to the resource; it is also the selector, which can never change."""
MANAGED_BY_LABEL, MANAGER = "app.kubernetes.io/managed-by", "firsttoken"
SCALE_LABEL = "firsttoken.dev/scale"
"""Label without which on the Deployment or on its namespace the chart's admission policy refuses to have it scaled."""
GPU_RESOURCE = "nvidia.com/gpu"
API_PORT_NAME = "api"
METRICS_PORT_NAME = "metrics"
PROBE_PERIOD_SECONDS = 10
STARTUP_DELAY_SECONDS = 30
ENDPOINT_REMOVAL_SECONDS = 10
"""The endpoint of a pod is removed while it is being stopped: so long it still gets requests."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """Everything that the manifests depend on.

    `node_selector` is resolved: the resource's own, else the pool's, else the GPU product's label.
    `monitor_labels`: what the cluster's Prometheus selects PodMonitors by, to scrape them at `scrape_interval_seconds`.
    """

    resource: InferenceDeployment
    configuration: ConfigurationKey
    node_selector: Mapping[str, str]
    monitor_labels: Mapping[str, str]
    scrape_interval_seconds: float

    @property
    def runtime(self) -> Runtime:
        """The engine's fields. Raises ValueError for a resource that scales a target instead."""
        if self.resource.spec.runtime is None:
            raise ValueError(f"{self.resource.key} has no spec.runtime to render")
        return self.resource.spec.runtime

    @property
    def container(self) -> ContainerSpec:
        """Spec of the container that its image needs; every runtime that a resource may have is rendered."""
        return RENDERED[self.runtime.type]


def deployment(rendering: Rendering) -> Json:
    """The Deployment, without `replicas`."""
    runtime, pod_labels = rendering.runtime, _labels(rendering)
    spec = {
        # NB: the default of 600 s marks a rollout as failed while a large model is still loading.
        "progressDeadlineSeconds": 2 * runtime.startup_timeout_seconds,
        "revisionHistoryLimit": 3,
        # There is no spare GPU for a surge pod.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}},
        "selector": {"matchLabels": _selector(rendering)},
        "template": {"metadata": {"labels": pod_labels}, "spec": _pod(rendering)},
    }
    return _manifest("apps/v1", "Deployment", rendering, spec, {SCALE_LABEL: "true"})


def service(rendering: Rendering) -> Json:
    """The Service in front of the pods."""
    port = {"name": API_PORT_NAME, "port": rendering.runtime.port, "targetPort": API_PORT_NAME, "protocol": "TCP"}
    return _manifest("v1", "Service", rendering, {"selector": _selector(rendering), "ports": [port]})


def pod_monitor(rendering: Rendering) -> Json:
    """The PodMonitor: of pods, not of a Service, so that no second Service doubles the series."""
    runtime = rendering.runtime
    endpoint = {
        "port": METRICS_PORT_NAME if _has_metrics_port(runtime) else API_PORT_NAME,
        "path": runtime.metrics_path,
        "interval": f"{max(1, round(rendering.scrape_interval_seconds))}s",
        "honorLabels": False,
    }
    spec = {
        "selector": {"matchLabels": _selector(rendering)},
        "podTargetLabels": [RESOURCE_LABEL],
        "podMetricsEndpoints": [endpoint],
    }
    return _manifest("monitoring.coreos.com/v1", "PodMonitor", rendering, spec, rendering.monitor_labels)


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


def _pod(rendering: Rendering) -> Json:
    runtime, user = rendering.runtime, rendering.container.user
    cache: Json = (
        {"persistentVolumeClaim": {"claimName": runtime.model_cache.claim_name}}
        if runtime.model_cache
        else {"emptyDir": {}}
    )
    shared_memory = {"medium": "Memory", "sizeLimit": runtime.resources.shared_memory}
    pod: Json = {
        "automountServiceAccountToken": False,
        # NB: a Service of the engine's name would inject variables such as NIM_PORT=tcp://..., which engines read.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": runtime.termination_grace_period_seconds,
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": user, "runAsGroup": user, "fsGroup": user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "nodeSelector": dict(rendering.node_selector),
        "tolerations": [
            {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"},
            *(t.model_dump(mode="json", by_alias=True, exclude_none=True) for t in runtime.tolerations),
        ],
        "containers": [_container(rendering)],
        "volumes": [{"name": "dshm", "emptyDir": shared_memory}, {"name": "model-store", **cache}],
    }  # fmt: skip
    if runtime.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in runtime.image_pull_secrets]
    if runtime.runtime_class_name:
        pod["runtimeClassName"] = runtime.runtime_class_name
    return pod


def _container(rendering: Rendering) -> Json:
    runtime, container = rendering.runtime, rendering.container
    ports = [{"name": API_PORT_NAME, "containerPort": runtime.port, "protocol": "TCP"}]
    if _has_metrics_port(runtime):
        ports.append({"name": METRICS_PORT_NAME, "containerPort": runtime.metrics_port, "protocol": "TCP"})
    # An extended resource has one number: its request is its limit.
    limits: dict[str, Any] = {GPU_RESOURCE: str(rendering.configuration.gpus_per_replica)}
    requests: dict[str, Any] = {}
    for name, amount in (("cpu", runtime.resources.cpu), ("memory", runtime.resources.memory)):
        if amount is not None:
            limits[name] = requests[name] = amount
    sleep_seconds = min(ENDPOINT_REMOVAL_SECONDS, runtime.termination_grace_period_seconds // 2)
    return {
        "name": container.name,
        "image": runtime.image,
        "ports": ports,
        "env": _environment(rendering),
        "resources": {"limits": limits} | ({"requests": requests} if requests else {}),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "startupProbe": _probe(container.ready_path, timeout_seconds=1, initialDelaySeconds=STARTUP_DELAY_SECONDS)
        | {"failureThreshold": math.ceil(runtime.startup_timeout_seconds / PROBE_PERIOD_SECONDS)},
        "readinessProbe": _probe(container.ready_path, timeout_seconds=5) | {"failureThreshold": 3},
        "livenessProbe": _probe(container.live_path, timeout_seconds=5) | {"failureThreshold": 6},
        "lifecycle": {"preStop": {"sleep": {"seconds": sleep_seconds}}},
        "volumeMounts": [
            {"name": "dshm", "mountPath": "/dev/shm"},
            {"name": "model-store", "mountPath": container.cache_path},
        ],
    }


def _environment(rendering: Rendering) -> list[Json]:
    runtime, container = rendering.runtime, rendering.container
    chosen = {setting.name: setting.value for setting in runtime.env}
    values = {**container.defaults, **chosen, **container.environment(runtime.port, rendering.configuration)}
    entries: list[Json] = [{"name": name, "value": value} for name, value in sorted(values.items())]
    if runtime.auth_secret is not None:
        secret = {"name": runtime.auth_secret.name, "key": runtime.auth_secret.key}
        entries.insert(0, {"name": container.secret_variable, "valueFrom": {"secretKeyRef": secret}})
    return entries


def _probe(path: str, *, timeout_seconds: int, **more: int) -> Json:
    return {
        "httpGet": {"path": path, "port": API_PORT_NAME},
        "periodSeconds": PROBE_PERIOD_SECONDS,
        "timeoutSeconds": timeout_seconds,
        **more,
    }


def _has_metrics_port(runtime: Runtime) -> bool:
    return runtime.metrics_port is not None and runtime.metrics_port != runtime.port
