"""KEDA 2.21 and the HorizontalPodAutoscaler of the control plane: real programs, out of the pinned module."""

from __future__ import annotations

import time
from dataclasses import dataclass

from at_scale import manifests
from at_scale.api import in_parallel
from at_scale.autoscaler import Instants
from at_scale.exposition import MetricsPage
from at_scale.figures import CONTROLLER_MANAGER
from at_scale.kinds import Workload
from at_scale.probing import Probes
from at_scale.rig import Rig
from tools.cluster import ControllerOptions
from tools.cluster.keda import run_keda

AUTOSCALERS = "/apis/autoscaling/v2/horizontalpodautoscalers?resourceVersion=0"
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
        self._decided: Instants = {}
        self._looked_at = 0.0

    def install(self) -> None:
        """Install KEDA's definitions, start its programs and register the adapter."""
        run_keda(self._rig.cluster, self._rig.start, self._rig.lease, self._limits.flags)

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
