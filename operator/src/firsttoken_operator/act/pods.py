"""Pods of `spec.runtime`. Pure.

Only the restricted fields of `spec.runtime` reach a pod: a user who may write an InferenceDeployment makes the operator
create pods with the operator's rights, so the pods always pass the Pod Security Standard `restricted`, use no service
account token and reach nothing outside their namespace. What each server is told is in `runtimes`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.runtime import Runtime
from firsttoken_operator.api.served import metrics_port, served_replica, sleep_seconds
from firsttoken_operator.api.toleration import Toleration
from firsttoken_operator.runtimes.spec import CONFIGURATION_PATH, ContainerSpec, Start
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.workload import Hardware

Json = dict[str, Any]

GPU_RESOURCE, GPU_PRODUCT_LABEL = "nvidia.com/gpu", "nvidia.com/gpu.product"
API_PORT_NAME = "api"
METRICS_PORT_NAME = "metrics"
CONFIGURATION_ANNOTATION = "firsttoken.dev/configuration."
"""Prefix of the annotations of a pod that are files of its server. The name of the file follows."""
GPUS_PER_SERVER = Hardware(gpus=()).gpus_per_server
PROBE_PERIOD_SECONDS = 10
STARTUP_DELAY_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Rendering:
    """Everything that the manifests depend on.

    `node_selector`: the resource's own, else the pool's; where both are empty, nodes with one of `gpu_products` as
    their label are taken. `monitor_labels`: what the cluster's Prometheus selects PodMonitors by, to scrape them at
    `scrape_interval_seconds`. `p99_start_seconds`: what starts of its pods took; None: none was seen.
    `gpus_per_server`: those of one node. `spans_servers`: replicas of more GPUs may be rendered, as LeaderWorkerSet.
    """

    resource: InferenceDeployment
    configuration: ConfigurationKey
    node_selector: Mapping[str, str]
    monitor_labels: Mapping[str, str]
    scrape_interval_seconds: float
    gpu_products: tuple[str, ...] = ()
    p99_start_seconds: float | None = None
    gpus_per_server: int = GPUS_PER_SERVER
    pool_tolerations: tuple[Toleration, ...] = ()
    """Taints of the pool's nodes that its pods tolerate, beside those that the resource names."""
    pool_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels of the pool's nodes."""
    pre_pulls: bool = False
    """Images may be kept on nodes."""
    spans_servers: bool = False

    @property
    def runtime(self) -> Runtime:
        """The engine's fields. Raises ValueError for a resource that scales a target instead."""
        if self.resource.spec.runtime is None:
            raise ValueError(f"{self.resource.key} has no spec.runtime to render")
        return self.resource.spec.runtime

    @property
    def container(self) -> ContainerSpec:
        """Spec of the container that its image needs."""
        return self.runtime.release.container

    @property
    def servers(self) -> int:
        """Servers that a replica takes. Raises `InvalidInput` where it cannot be run on so many."""
        key, size = self.configuration, self.gpus_per_server
        if (gpus := key.gpus_per_replica) <= size:
            return 1
        problem = f"a replica of {gpus} GPUs is more than one server has ({size})"
        fix = "declare a tensorParallel and a pipelineParallel that fit, larger GPUs, or a smaller precision"
        since, version = self.container.spans_since, self.runtime.server_version or self.runtime.release.since
        if since is None:
            problem += f", and {self.runtime.type} is started on one server only"
        elif version < since:
            known = ".".join(str(number) for number in since)
            problem += f", and {self.runtime.type} is started on several from version {known} on"
            fix += f"; or name a version in runtime.image or runtime.version: {known} or later"
        elif not self.spans_servers:
            problem += ", and LeaderWorkerSet is not allowed here"
            fix += "; or have the administrator install it and add it to scale.kinds of the chart"
        elif gpus % size or (size % key.tensor_parallel and key.tensor_parallel % size):
            problem += f", and {key.tensor_parallel} x {key.pipeline_parallel} of them fill no whole servers evenly"
        else:
            return gpus // size
        raise InvalidInput("hardware.pipelineParallel", problem, fix)


def pod_template(rendering: Rendering, labels: Mapping[str, str], *, is_worker: bool = False) -> Json:
    """The template of the pods: one for each server of a replica, of which the workers answer nothing themselves.

    Raises `InvalidInput` for what the server cannot run, or its servers cannot hold.
    """
    replica = served_replica(rendering.resource, rendering.runtime, rendering.configuration)
    start = rendering.container.start(replace(replica, servers=rendering.servers, is_worker=is_worker))
    metadata: Json = {"labels": dict(labels)}
    if start.files:
        metadata["annotations"] = {CONFIGURATION_ANNOTATION + name: text for name, text in start.files.items()}
    return {"metadata": metadata, "spec": _pod(rendering, start, is_worker=is_worker)}


def has_metrics_port(runtime: Runtime) -> bool:
    """Tell whether the metrics have a port of their own."""
    return metrics_port(runtime) != runtime.port


def _pod(rendering: Rendering, start: Start, *, is_worker: bool) -> Json:
    runtime, user = rendering.runtime, rendering.container.user
    shared_memory = {"medium": "Memory", "sizeLimit": runtime.resources.shared_memory}
    pod: Json = {
        "automountServiceAccountToken": False,
        # NB: a Service of the engine's name would inject variables such as NIM_PORT=tcp://..., which engines read.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": runtime.termination_grace_period_seconds,
        "securityContext": restricted(user, fsGroup=user),
        "tolerations": tolerations(rendering),
        "containers": [_container(rendering, start, is_worker=is_worker)],
        "volumes": [
            {"name": "dshm", "emptyDir": shared_memory},
            {"name": "model-store", **_cache(runtime)},
            *_files(start),
        ],
    }
    if rendering.node_selector:
        pod["nodeSelector"] = dict(rendering.node_selector)
    elif rendering.gpu_products:
        # NB: whole GPUs only, since shared ones have another value of this label of GPU feature discovery.
        pod["affinity"] = nodes_with([(GPU_PRODUCT_LABEL, rendering.gpu_products)])
    pod |= pull_secrets(runtime)
    if runtime.runtime_class_name:
        pod["runtimeClassName"] = runtime.runtime_class_name
    return pod


def restricted(user: int, **further: int) -> Json:
    """The security context of a pod that runs as `user`."""
    return {
        "runAsNonRoot": True, "runAsUser": user, "runAsGroup": user, **further,
        "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip


def unprivileged(**further: bool) -> Json:
    """The security context of a container."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, **further}


def tolerations(rendering: Rendering) -> list[Json]:
    """Taints that the pods tolerate: that of GPUs, and those that the resource and its pool name."""
    tolerated = dict.fromkeys((*rendering.runtime.tolerations, *rendering.pool_tolerations))
    return [
        {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"},
        *(t.model_dump(mode="json", by_alias=True, exclude_none=True) for t in tolerated),
    ]


def pull_secrets(runtime: Runtime) -> Json:
    """The Secrets that its image is pulled with, as a pod has them."""
    names = runtime.image_pull_secrets
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}


def nodes_with(labels: Iterable[tuple[str, Sequence[str]]]) -> Json:
    """Node affinity: nodes that have one of the values of each label."""
    expressions = [{"key": key, "operator": "In", "values": list(values)} for key, values in labels]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _cache(runtime: Runtime) -> Json:
    cache = runtime.model_cache
    if cache is None:
        return {"emptyDir": {}}
    if cache.per_replica is None:
        return {"persistentVolumeClaim": {"claimName": cache.claim_name}}
    claim: Json = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": cache.per_replica.size}},
    }
    if cache.per_replica.storage_class_name is not None:
        claim["storageClassName"] = cache.per_replica.storage_class_name
    return {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


def _files(start: Start) -> list[Json]:
    """The volume of the server's files: annotations of the pod, which change with its template and not beside it."""
    if not start.files:
        return []
    items = [
        {"path": name, "fieldRef": {"fieldPath": f"metadata.annotations['{CONFIGURATION_ANNOTATION}{name}']"}}
        for name in start.files
    ]
    return [{"name": "configuration", "downwardAPI": {"items": items}}]


def _container(rendering: Rendering, start: Start, *, is_worker: bool) -> Json:
    runtime, container = rendering.runtime, rendering.container
    # An extended resource has one number: its request is its limit.
    limits: dict[str, Any] = {GPU_RESOURCE: str(rendering.configuration.gpus_per_replica // rendering.servers)}
    requests: dict[str, Any] = {}
    for name, amount in (("cpu", runtime.resources.cpu), ("memory", runtime.resources.memory)):
        if amount is not None:
            limits[name] = requests[name] = amount
    mounts = [
        {"name": "dshm", "mountPath": "/dev/shm"},
        {"name": "model-store", "mountPath": container.cache_path},
    ]
    if start.files:
        mounts.append({"name": "configuration", "mountPath": CONFIGURATION_PATH})
    made: Json = {
        "name": container.name,
        "image": runtime.image,
        **({} if is_worker else _ports(rendering)),
        "env": _environment(rendering, start),
        "resources": {"limits": limits} | ({"requests": requests} if requests else {}),
        "securityContext": unprivileged(),
        **({} if is_worker else _probes(rendering)),
        # A worker computes for its leader until that has ended its answers.
        "lifecycle": {"preStop": {"sleep": {"seconds": sleep_seconds(runtime, drains=start.drains and not is_worker)}}},
        "volumeMounts": mounts,
    }
    if start.command:
        made["command"] = list(start.command)
    if start.command or start.arguments:
        made["args"] = list(start.arguments)
    return made


def _ports(rendering: Rendering) -> Json:
    runtime = rendering.runtime
    ports = {API_PORT_NAME: runtime.port, **rendering.container.further_ports}
    if has_metrics_port(runtime):
        ports[METRICS_PORT_NAME] = metrics_port(runtime)
    return {"ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports.items()]}


def _probes(rendering: Rendering) -> Json:
    runtime, container = rendering.runtime, rendering.container
    probe_seconds = container.answer_seconds or 5
    return {
        "startupProbe": _probe(container.ready_path, timeout_seconds=container.answer_seconds or 1)
        | {
            "initialDelaySeconds": STARTUP_DELAY_SECONDS,
            "failureThreshold": math.ceil(runtime.startup_timeout_seconds / PROBE_PERIOD_SECONDS),
        },
        "readinessProbe": _probe(container.ready_path, timeout_seconds=probe_seconds) | {"failureThreshold": 3},
        "livenessProbe": _probe(container.live_path, timeout_seconds=probe_seconds) | {"failureThreshold": 6},
    }


def _environment(rendering: Rendering, start: Start) -> list[Json]:
    runtime, container = rendering.runtime, rendering.container
    chosen = {setting.name: setting.value for setting in runtime.env}
    values = {**container.defaults, **chosen, **start.environment}
    entries: list[Json] = [{"name": name, "value": value} for name, value in sorted(values.items())]
    if runtime.auth_secret is not None:
        secret = {"name": runtime.auth_secret.name, "key": runtime.auth_secret.key or container.secret_variable}
        entries.insert(0, {"name": container.secret_variable, "valueFrom": {"secretKeyRef": secret}})
    return entries


def _probe(path: str, *, timeout_seconds: int) -> Json:
    return {
        "httpGet": {"path": path, "port": API_PORT_NAME},
        "periodSeconds": PROBE_PERIOD_SECONDS,
        "timeoutSeconds": timeout_seconds,
    }
