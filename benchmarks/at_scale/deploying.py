"""Workloads as they stand before they are scaled: Deployments and, where no controller follows, their pods as well."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from at_scale import manifests
from at_scale.api import Api, in_parallel
from at_scale.kinds import Workload

APPS = "/apis/apps/v1/namespaces"
CORE = "/api/v1/namespaces"

PodOf = tuple[str, str, int]
"""Namespace and name of a pod, and the number of its workload."""


class Deploying:
    """Creates workloads with so many pods each on nodes of these names."""

    def __init__(self, api: Api, pods: int, nodes: list[str], *, pods_follow: bool) -> None:
        self._api, self._pods, self._nodes, self._pods_follow = api, pods, nodes, pods_follow

    def create(self, workloads: Iterable[Workload]) -> None:
        """Create them all, in a few threads. Raises `ApiError`."""
        in_parallel(self._create, workloads)

    def _create(self, workload: Workload) -> None:
        api, apps = self._api, f"{APPS}/{workload.namespace}"
        made = api.create(f"{apps}/deployments", manifests.deployment(workload, self._pods))
        if self._pods_follow:
            return
        owner = made["metadata"]["uid"]
        replica_set = api.create(f"{apps}/replicasets", manifests.replica_set(workload, self._pods, owner))
        for number in range(self._pods):
            node = self._nodes[workload.number % len(self._nodes)]
            pod = manifests.pod(workload, number, replica_set["metadata"]["uid"], node)
            api.create(f"{CORE}/{workload.namespace}/pods", pod)
        status = f"{apps}/deployments/{workload.name}/status"
        api.merge(status, manifests.deployment_status(self._pods))

    def ready_pods(self) -> list[PodOf]:
        """Pods that are ready now."""
        found = self._api.get("/api/v1/pods?resourceVersion=0")["items"]
        return [of for pod in found if (of := pod_of(pod)) is not None]


def pod_of(pod: dict[str, Any]) -> PodOf | None:
    """Pod of a workload of the rig, where it is ready."""
    app = pod["metadata"].get("labels", {}).get("app", "")
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    if not ready or not app.startswith("w-"):
        return None
    return pod["metadata"]["namespace"], pod["metadata"]["name"], int(app.removeprefix("w-"))
