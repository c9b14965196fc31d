"""KEDA 2.21 and the HorizontalPodAutoscaler of the control plane: real programs, out of the pinned module.

The adapter serves `external.metrics.k8s.io` behind the API server. Its Service has no pods: it is an ExternalName to
this machine, which the API server's default resolver follows, and the certificate carries the Service's name.

NB: outside a pod the operator needs KEDA_CLUSTER_OBJECT_NAMESPACE and an empty WATCH_NAMESPACE, or it ends.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

from at_scale import manifests
from at_scale.api import ApiError, in_parallel
from at_scale.autoscaler import Instants
from at_scale.exposition import MetricsPage
from at_scale.figures import CONTROLLER_MANAGER
from at_scale.kinds import Workload
from at_scale.probing import Probes
from at_scale.rig import Rig
from tools.cluster import Authority, ControllerOptions, answers, keda_programs, wait_until

NAMESPACE, SERVICE = "keda", "keda-metrics-apiserver"
API_SERVICE = "v1beta1.external.metrics.k8s.io"
CLUSTER_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AUTOSCALERS = "/apis/autoscaling/v2/horizontalpodautoscalers?resourceVersion=0"
START_SECONDS = 120.0
POLL_SECONDS = 3.0
AUTOSCALER_SYNC_SECONDS = 15.0
"""Default of Kubernetes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Requests a second (and at once) that each client may send, and workers of the HorizontalPodAutoscaler."""

    requests_per_second: int
    burst: int
    workers: int

    @property
    def flags(self) -> tuple[str, str]:
        """Flags that all of these programs share."""
        return f"--kube-api-qps={self.requests_per_second}", f"--kube-api-burst={self.burst}"

    def controllers(self, *, pods_follow: bool) -> ControllerOptions:
        """Options of the controller manager."""
        return ControllerOptions(
            pods_follow=pods_follow,
            autoscaler_sync_seconds=AUTOSCALER_SYNC_SECONDS,
            autoscaler_workers=self.workers,
            client_rate=self.flags,
        )


LIMITS = {"default": Limits(20, 30, 5), "raised": Limits(200, 400, 20)}
"""Limits as KEDA and Kubernetes ship them, and raised until they bind no more."""


class Keda:
    """KEDA on a rig."""

    name = "KEDA"
    processes: tuple[str, ...] = ("keda-operator", "keda-adapter", CONTROLLER_MANAGER)
    has_metrics_of_pods = False
    probes: Probes | None = None

    def __init__(self, rig: Rig, limits: Limits) -> None:
        self._rig, self._limits = rig, limits
        self._keys = rig.cluster.folder / "keda"
        self._decided: Instants = {}
        self._looked_at = 0.0

    def install(self) -> None:
        """Install KEDA's definitions, start its programs and register the adapter."""
        api, programs = self._rig.api, keda_programs()
        self._keys.mkdir()
        authority = Authority(self._keys, "keda-ca")
        names = ("localhost", f"{SERVICE}.{NAMESPACE}.svc")
        authority.server("tls", "keda-operator", names=names, addresses=("127.0.0.1",), is_client=True)
        for file in sorted((programs / "crds").glob("*.yaml")):
            definition = yaml.load(
                file.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            )
            api.apply(f"{CLUSTER_DEFINITIONS}/{definition['metadata']['name']}", definition)
        wait_until(self._serves, START_SECONDS, "KEDA's definitions")
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        internal, adapter = self._rig.lease(), self._rig.lease()
        self._start_operator(programs, internal)
        self._start_adapter(programs, internal, adapter)
        self._register(adapter, authority.certificate)
        wait_until(self._is_registered, START_SECONDS, f"{API_SERVICE} available")

    def declare(self) -> None:
        """Create every ScaledObject."""
        in_parallel(self._declare, self._rig.workloads)

    def decided(self) -> Instants:
        """Workloads whose HorizontalPodAutoscaler has read its metric."""
        if time.monotonic() - self._looked_at < POLL_SECONDS:
            return self._decided
        found = self._rig.api.get(AUTOSCALERS)["items"]
        self._looked_at = time.monotonic()
        for each in found:
            conditions = each.get("status", {}).get("conditions", [])
            if any(one["type"] == "ScalingActive" and one["status"] == "True" for one in conditions):
                self._decided.setdefault(each["spec"]["scaleTargetRef"]["name"], self._looked_at)
        return self._decided

    def stop_watching(self) -> None:
        """Nothing is watched: it was asked."""

    def ticks(self, page: MetricsPage | None) -> float:
        """None: every object has a period of its own."""
        return 0.0

    def _declare(self, workload: Workload) -> None:
        path = f"/apis/keda.sh/v1alpha1/namespaces/{workload.namespace}/scaledobjects"
        self._rig.api.create(path, manifests.scaled_object(workload, self._rig.cluster.prometheus_url))

    def _start_operator(self, programs: Path, internal: int) -> None:
        metrics, health = self._rig.lease(), self._rig.lease()
        self._rig.start(
            "keda-operator",
            programs / "keda-operator",
            *self._limits.flags,
            f"--metrics-bind-address=127.0.0.1:{metrics}",
            f"--health-probe-bind-address=127.0.0.1:{health}",
            f"--metrics-service-bind-address=127.0.0.1:{internal}",
            f"--cert-dir={self._keys}",
            "--zap-log-level=info",
            environment=self._environment() | {"KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE},
        )
        wait_until(lambda: answers(f"http://127.0.0.1:{health}/readyz"), START_SECONDS, "keda-operator")

    def _start_adapter(self, programs: Path, internal: int, port: int) -> None:
        kubeconfig = self._rig.cluster.kubeconfig
        self._rig.start(
            "keda-adapter",
            programs / "keda-adapter",
            *self._limits.flags,
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--port={self._rig.lease()}",
            f"--metrics-service-address=127.0.0.1:{internal}",
            f"--cert-dir={self._keys}",
            f"--client-ca-file={self._keys / 'ca.crt'}",
            f"--tls-cert-file={self._keys / 'tls.crt'}",
            f"--tls-private-key-file={self._keys / 'tls.key'}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--lister-kubeconfig={kubeconfig}",
            "--zap-log-level=info",
            environment=self._environment(),
        )

    def _environment(self) -> dict[str, str]:
        return {"KUBECONFIG": str(self._rig.cluster.kubeconfig), "POD_NAMESPACE": NAMESPACE, "WATCH_NAMESPACE": ""}

    def _register(self, port: int, authority: Path) -> None:
        ports = [{"name": "https", "port": port}]
        service = {"type": "ExternalName", "externalName": "localhost", "ports": ports}
        api = self._rig.api
        api.create(f"/api/v1/namespaces/{NAMESPACE}/services", {"metadata": {"name": SERVICE}, "spec": service})
        group, version = "external.metrics.k8s.io", "v1beta1"
        spec = {
            "service": {"name": SERVICE, "namespace": NAMESPACE, "port": port},
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "caBundle": base64.b64encode(authority.read_bytes()).decode(),
        }
        path = "/apis/apiregistration.k8s.io/v1/apiservices"
        api.create(path, {"metadata": {"name": API_SERVICE}, "spec": spec})

    def _serves(self) -> bool:
        try:
            self._rig.api.get("/apis/keda.sh/v1alpha1/scaledobjects")
        except ApiError:
            return False
        return True

    def _is_registered(self) -> bool:
        found = self._rig.api.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}")
        conditions = found.get("status", {}).get("conditions", [])
        return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)
