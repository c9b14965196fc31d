"""Creates and updates the objects of `runtime: NIM`, and keeps the hands off their replicas.

**The rule for `replicas`.** Server-side apply removes a field that its only owner no longer sends: a Deployment applied
with 7 replicas and then without becomes 1; applied again with 7 it resets a fleet that was scaled to 12. So the field
is sent exactly once, at creation; a second field manager takes hold of it at once through the scale subresource; and
from then on no apply contains it. A crash between the first two steps is repaired before the next apply.

An object of the same name that another writer made is never touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firsttoken_operator.act.backlog import Key, Priority
from firsttoken_operator.act.errors import ClusterError, NotFound, Rejected
from firsttoken_operator.act.kubernetes import SCALE_FIELD_MANAGER, KubernetesCluster, ObjectRef
from firsttoken_operator.act.manifests import Rendering, deployment, pod_monitor, service
from firsttoken_operator.act.preconditions import changed_since, live_mode
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.domain import Reason, ScalingMode

MONITORING_API = "monitoring.coreos.com/v1"
REQUESTS = 10
"""Of one rendering at most."""


FAILURES = (Reason.WRITE_DENIED, Reason.WRITE_FAILED)


@dataclass(frozen=True, slots=True)
class RenderResult:
    """What became of a rendering.

    `reason` is Rendered, Conflict (the name is taken), WriteConflict (the resource changed since), WriteDenied or
    WriteFailed.
    """

    reason: Reason
    message: str
    created: bool = False


class Renderer:
    """Applies the manifests of one resource at a time."""

    def __init__(self, cluster: KubernetesCluster, writes: WriteQueue) -> None:
        self._cluster = cluster
        self._writes = writes

    async def render(self, rendering: Rendering, replicas: int) -> RenderResult:
        """Bring the objects to what the resource says; `replicas` is used only where the Deployment is created.

        Never raises `ClusterError`: an outcome is a value.
        """
        key = Key(rendering.resource.metadata.uid, "rendering")
        try:
            return await self._writes.run(key, Priority.RENDER, lambda: self._render(rendering, replicas), REQUESTS)
        except Rejected as error:
            return RenderResult(Reason.WRITE_DENIED, str(error))
        except ClusterError as error:
            return RenderResult(Reason.WRITE_FAILED, str(error))

    async def _render(self, rendering: Rendering, replicas: int) -> RenderResult:
        metadata = rendering.resource.metadata
        ref = ObjectRef(API_VERSION, "InferenceDeployment", metadata.namespace, metadata.name)
        live_resource = await self._cluster.read(ref)
        changed = changed_since(live_resource, metadata.uid, metadata.generation)
        if changed or live_mode(live_resource) is ScalingMode.PAUSED:
            return RenderResult(Reason.WRITE_CONFLICT, changed or "scaling.mode is Paused now")
        manifests = [service(rendering)]
        if await self._cluster.serves(MONITORING_API, "PodMonitor"):
            manifests.append(pod_monitor(rendering))
        workload = deployment(rendering)
        live = {}
        for manifest in (workload, *manifests):
            found = await self._find(ObjectRef.of(manifest))
            if found is not None and not _is_owned_by(found, metadata.uid):
                text = f"{manifest['kind']} {manifest['metadata']['name']} exists and is not ours; rename this resource"
                return RenderResult(Reason.CONFLICT, text)
            live[manifest["kind"]] = found
        # The Service first, so that no pod is ready before something leads to it.
        for manifest in manifests:
            await self._cluster.apply(manifest)
        created = live["Deployment"] is None
        if live["Deployment"] is None:
            await self._cluster.apply(workload | {"spec": workload["spec"] | {"replicas": replicas}})
            await self._cluster.hold_replicas(ObjectRef.of(workload), replicas)
        else:
            await self._update(workload, live["Deployment"])
        verb = f"created with {replicas} replicas" if created else "updated; its replicas stay as they are"
        return RenderResult(Reason.RENDERED, f"Deployment {workload['metadata']['name']} {verb}", created)

    async def _update(self, workload: dict[str, Any], live: dict[str, Any]) -> None:
        if not _are_replicas_held(live):
            await self._cluster.hold_replicas(ObjectRef.of(workload), int(live["spec"].get("replicas", 1)))
        await self._cluster.apply(workload)

    async def _find(self, ref: ObjectRef) -> dict[str, Any] | None:
        try:
            return await self._cluster.read(ref)
        except NotFound:
            return None


def _is_owned_by(live: dict[str, Any], uid: str) -> bool:
    return any(owner["uid"] == uid for owner in live["metadata"].get("ownerReferences", ()))


def _are_replicas_held(live: dict[str, Any]) -> bool:
    """Whether an apply without `replicas` leaves them: our scale manager owns the field."""
    return any(
        entry.get("manager") == SCALE_FIELD_MANAGER and "f:replicas" in entry.get("fieldsV1", {}).get("f:spec", {})
        for entry in live["metadata"].get("managedFields", ())
    )
