"""Creates and updates the objects of `spec.runtime`, and keeps the hands off their replicas.

**The rule for `replicas`.** Server-side apply removes a field that its only owner no longer sends: a Deployment applied
with 7 replicas and then without becomes 1; applied again with 7 it resets a fleet that was scaled to 12. So the field
is sent exactly once, at creation; a second field manager takes hold of it at once through the scale subresource; and
from then on no apply contains it. A crash between the first two steps is repaired before the next apply.

An object of the same name that another writer made is never touched. What is deleted or changed by another writer is
put back, by what differs from the manifest alone. Nothing is deleted but what keeps the image on nodes, when that is
not asked for any more.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from firsttoken_operator.act.backlog import Key, Priority
from firsttoken_operator.act.errors import ClusterError, Conflict, NotFound, NoTurn, Rejected, Throttled, Withheld
from firsttoken_operator.act.kubernetes import SCALE_FIELD_MANAGER, KubernetesCluster, ObjectRef
from firsttoken_operator.act.manifests import (
    KINDS,
    MANAGED_BY_LABEL,
    MANAGER,
    MONITORING_API,
    WORKLOADS,
    images_of,
    manifests,
)
from firsttoken_operator.act.pods import Rendering
from firsttoken_operator.act.preconditions import changed_since, live_mode
from firsttoken_operator.act.prepull import KEEPER, keeping_also
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.rollouts import exchange_text, pending_text, rollout_of
from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.domain import Reason, ScalingMode
from firsttoken_operator.domain.pods import KEEPER_KIND
from firsttoken_operator.domain.target_kinds import LEADER_WORKER_SET

WORKLOAD_KINDS = frozenset(kind.kind for kind in WORKLOADS)
HELD_KINDS = WORKLOAD_KINDS | {"PodMonitor"}
"""Kinds that stay as they are while a rollout waits: the pods, and how those that run are scraped."""
GROUPS = (LEADER_WORKER_SET.api_version, LEADER_WORKER_SET.kind)
DEFINED = ((MONITORING_API, "PodMonitor"), GROUPS)
"""Kinds that a cluster has where their project is installed."""
REQUESTS = 16
"""Requests of one rendering at most."""
LISTS_AT_ONCE = 8
ABSENT = ""


FAILURES = (Reason.WRITE_DENIED, Reason.WRITE_FAILED)


States = Mapping[ObjectRef, str]
"""States of the objects, each in a form that changes with every field that a manifest sets."""


@dataclass(frozen=True, slots=True)
class RenderResult:
    """Outcome of a rendering.

    `reason` is Rendered, Conflict (the name is taken), WriteConflict (the resource changed since), RolloutPending,
    WriteDenied or WriteFailed. `states`: the objects as they are now. `written`: whether any of them had to be.
    """

    reason: Reason
    message: str
    created: bool = False
    states: States = field(default_factory=dict)
    written: bool = True


class NotKept(ClusterError):
    """Failure to write what keeps an image while a rollout waits, which `pending` says together with the failure.

    Raised, so that the next attempt comes later. Its object is not in the states, so that there is one.
    """

    def __init__(self, pending: RenderResult) -> None:
        super().__init__(pending.message)
        self.pending = pending


@dataclass(slots=True)
class _Progress:
    """Progress of a rendering, which outlives attempts that fail, are repeated or run out of time."""

    created: bool = False
    """The workload was made."""


class NameTaken(Conflict):
    """Another writer made an object of this name. Raised, so that the next attempt comes later."""


class Renderer:
    """Applies the manifests of one resource at a time.

    `namespaces`: where, empty: everywhere. `spans_servers`: LeaderWorkerSets, too, for which it has the rights then.
    `pre_pulls`: DaemonSets that keep images, too, likewise.
    """

    def __init__(
        self,
        cluster: KubernetesCluster,
        writes: WriteQueue,
        namespaces: Sequence[str] = (),
        *,
        spans_servers: bool = False,
        pre_pulls: bool = False,
    ) -> None:
        self._cluster = cluster
        self._writes = writes
        self._namespaces = namespaces or ("",)
        self._rights = {GROUPS: spans_servers, KEEPER: pre_pulls}
        """Kinds that need a right of their own: whether it is there."""

    async def states(self, rendering: Iterable[Rendering]) -> dict[str, States]:
        """The objects of each rendering as they are now, by uid of its resource; one that is not there is `ABSENT`.

        Raises `ClusterError`.
        """
        kinds = await self._kinds()
        places = asyncio.Semaphore(LISTS_AT_ONCE)

        async def listed(api_version: str, kind: str, namespace: str) -> Mapping[ObjectRef, Mapping[str, Any]]:
            async with places:
                return await self._cluster.metadata(api_version, kind, namespace, f"{MANAGED_BY_LABEL}={MANAGER}")

        every = await asyncio.gather(
            *(listed(*kind, namespace) for kind, namespace in product(kinds, self._namespaces))
        )
        found = {ref: _state(metadata) for some in every for ref, metadata in some.items()}
        return {
            metadata.uid: {
                ref: found.get(ref, ABSENT)
                for ref in (ObjectRef(*kind, metadata.namespace, metadata.name) for kind in kinds)
            }
            for metadata in (one.resource.metadata for one in rendering)
        }

    async def render(
        self, rendering: Rendering, replicas: int, *, is_known: bool = False, may_roll: bool = True
    ) -> RenderResult | None:
        """Bring the objects to what the resource says; `replicas` is used only where the workload is created.

        `may_roll`: pods that run may be replaced. Where they may not and would be, the workload and what its pods are
        scraped by stay as they are: RolloutPending. So does everything where a workload of another kind is to take the
        place of the one that runs.

        `is_known`: the same was applied before, so that only what differs from it is applied again. Otherwise a field
        may have to go, which only an apply does. Never raises `ClusterError`: an outcome is a value. None: it was not
        tried, for want of a turn or of the right to write.
        """
        made = _Progress()
        result = await self._outcome(rendering, replicas, is_known, may_roll, made)
        if result is None and made.created:
            return RenderResult(Reason.WRITE_FAILED, "not all was written: writes stopped meanwhile", created=True)
        return result and replace(result, created=made.created)

    async def _outcome(
        self, rendering: Rendering, replicas: int, is_known: bool, may_roll: bool, made: _Progress
    ) -> RenderResult | None:
        # NB: what a spec was refused does not put off the next one, nor what waited its release.
        metadata = rendering.resource.metadata
        key = Key(metadata.uid, "rendering", f"{metadata.generation}{' released' if may_roll else ''}")
        try:
            return await self._writes.run(
                key, Priority.RENDER, lambda: self._render(rendering, replicas, is_known, may_roll, made), REQUESTS
            )
        except (Withheld, NoTurn):
            return None
        except NameTaken as error:
            return RenderResult(Reason.CONFLICT, str(error))
        except Conflict as error:
            return RenderResult(Reason.WRITE_CONFLICT, str(error))
        except NotKept as error:
            return error.pending
        except Rejected as error:
            return RenderResult(Reason.WRITE_DENIED, str(error))
        except ClusterError as error:
            return RenderResult(Reason.WRITE_FAILED, str(error))

    async def _render(
        self, rendering: Rendering, replicas: int, is_known: bool, may_roll: bool, made_here: _Progress
    ) -> RenderResult:
        metadata = rendering.resource.metadata
        ref = ObjectRef(API_VERSION, "InferenceDeployment", metadata.namespace, metadata.name)
        live_resource = await self._cluster.read(ref)
        changed = changed_since(live_resource, metadata.uid, metadata.generation)
        if changed or live_mode(live_resource) is ScalingMode.PAUSED:
            return RenderResult(Reason.WRITE_CONFLICT, changed or "scaling.mode is Paused now")
        kinds = await self._kinds()
        made = manifests(rendering)
        wanted = [each for each in made if (each["apiVersion"], each["kind"]) in kinds]
        if (workload := made[-1]) not in wanted:
            return RenderResult(Reason.WRITE_FAILED, f"this cluster has no {workload['kind']}; install its controller")
        live: dict[str, dict[str, Any] | None] = {}
        unkept: ClusterError | None = None
        for manifest in wanted:
            found = await self._find(ObjectRef.of(manifest))
            if found is not None and not _is_owned_by(found, metadata.uid):
                text = f"{manifest['kind']} {manifest['metadata']['name']} exists and is not ours; rename this resource"
                if manifest["kind"] != KEEPER_KIND:
                    raise NameTaken(text)
                unkept, found = Rejected(text, 409), None
            live[manifest["kind"]] = found
        others = await self._others(rendering, made, kinds)
        states = {ref: _state_of(found) for ref, found in others.items()}
        if other := next((found for ref, found in others.items() if found and ref.kind in WORKLOAD_KINDS), None):
            states |= {ObjectRef.of(manifest): _state_of(live[manifest["kind"]]) for manifest in wanted}
            return RenderResult(Reason.ROLLOUT_PENDING, exchange_text(rendering, workload, other), states=states)
        places, written = [], []
        if (runs := live[workload["kind"]]) is not None and not may_roll:
            places = await rollout_of(self._cluster, workload, runs)
        # NB: what keeps the image comes, and goes, last: where that is refused, the pods are there all the same.
        for manifest in sorted(wanted, key=lambda each: bool(each["kind"] == KEEPER_KIND)):
            if unkept is not None and manifest["kind"] == KEEPER_KIND:
                continue
            now = live[manifest["kind"]]
            if places and runs is not None and manifest["kind"] == KEEPER_KIND:
                # More pods of the old image may start meanwhile; the new one is there when the rollout is released.
                manifest = keeping_also(manifest, images_of(runs, rendering.container.name))
            if places and now is not None and manifest["kind"] in HELD_KINDS:
                pass
            elif now is None or not is_known or differs(manifest, now):
                written.append(manifest["kind"])
                try:
                    now = await self._write(manifest, now, replicas, made_here)
                except ClusterError as error:
                    # NB: silence that is asked for, and writes that are stopped, are for the queue to heed.
                    if manifest["kind"] != KEEPER_KIND or isinstance(error, Throttled | Withheld):
                        raise
                    unkept = error
                    continue
            states[ObjectRef.of(manifest)] = _state_of(now)
        for ref, found in others.items():
            if found is not None:
                try:
                    await self._cluster.delete(ref, uid=found["metadata"]["uid"])
                except ClusterError as error:
                    if isinstance(error, Throttled | Withheld):
                        raise
                    unkept = error
                    states.pop(ref)
                else:
                    states[ref] = ABSENT
        if places:
            text = pending_text(rendering, workload, places)
            if unkept is not None:
                text = f"{text}; its image is not kept as spec.runtime says: {unkept}"
                raise NotKept(RenderResult(Reason.ROLLOUT_PENDING, text, states=states)) from unkept
            return RenderResult(Reason.ROLLOUT_PENDING, text, states=states)
        if unkept is not None:
            raise unkept
        if is_known:
            text = (
                f"{' and '.join(written)} {metadata.name} put back: deleted or changed by another writer, or new here"
            )
        else:
            is_new = runs is None or made_here.created
            verb = "updated; its replicas stay as they are" if not is_new else f"created with {replicas} replicas"
            text = f"{workload['kind']} {metadata.name} {verb}"
        return RenderResult(Reason.RENDERED, text, states=states, written=bool(written))

    async def _others(
        self, rendering: Rendering, made: Sequence[dict[str, Any]], kinds: Sequence[tuple[str, str]]
    ) -> dict[ObjectRef, dict[str, Any] | None]:
        """Objects of this resource of the kinds that it is not to have: another workload, a keeper of its image."""
        metadata, wanted = rendering.resource.metadata, {manifest["kind"] for manifest in made}
        refs = [ObjectRef(*kind, metadata.namespace, metadata.name) for kind in kinds if kind[1] not in wanted]
        found = {ref: await self._find(ref) for ref in refs}
        return {ref: live if live and _is_owned_by(live, metadata.uid) else None for ref, live in found.items()}

    async def _write(
        self, manifest: dict[str, Any], live: dict[str, Any] | None, replicas: int, made_here: _Progress
    ) -> dict[str, Any]:
        """Apply one manifest; the object as it is then."""
        ref, is_workload = ObjectRef.of(manifest), manifest["kind"] in WORKLOAD_KINDS
        if live is None and is_workload:
            made = await self._cluster.apply(manifest | {"spec": manifest["spec"] | {"replicas": replicas}})
            made_here.created = True
            await self._cluster.hold_replicas(ref, replicas, uid=made["metadata"]["uid"])
            return made
        if live is None:
            return await self._cluster.apply(manifest)
        # NB: the object that was read, and none that took its place since.
        uid = live["metadata"]["uid"]
        if is_workload and not _are_replicas_held(live):
            # And as it was read: it may be scaled in this moment.
            await self._cluster.hold_replicas(
                ref, int(live["spec"].get("replicas", 1)), uid=uid, resource_version=live["metadata"]["resourceVersion"]
            )
        return await self._cluster.apply(manifest | {"metadata": manifest["metadata"] | {"uid": uid}})

    async def _kinds(self) -> list[tuple[str, str]]:
        """The kinds that this cluster has and that are rendered here."""
        return [
            kind
            for kind in KINDS
            if self._rights.get(kind, True) and (kind not in DEFINED or await self._cluster.serves(*kind))
        ]

    async def _find(self, ref: ObjectRef) -> dict[str, Any] | None:
        try:
            return await self._cluster.read(ref)
        except NotFound:
            return None


def differs(wanted: Any, live: Any) -> bool:
    """Tell whether a field of `wanted` is not so in `live`, which has more: defaults, and what other writers set.

    NB: an amount that the server writes in another way than it was sent differs, which costs an apply of nothing.
    """
    if isinstance(wanted, dict):
        return not isinstance(live, dict) or any(key not in live or differs(v, live[key]) for key, v in wanted.items())
    if isinstance(wanted, list):
        is_same = isinstance(live, list) and len(wanted) == len(live)
        return not is_same or any(differs(a, b) for a, b in zip(wanted, live, strict=True))
    return bool(wanted != live)


def _state(metadata: Mapping[str, Any]) -> str:
    # NB: a Deployment's version moves with each pod that becomes ready, its generation with its spec alone; a Service
    # has no generation.
    version = metadata.get("generation") or metadata["resourceVersion"]
    owners = [owner["uid"] for owner in metadata.get("ownerReferences", ())]
    return json.dumps([metadata["uid"], version, owners, metadata.get("labels")], sort_keys=True)


def _state_of(live: dict[str, Any] | None) -> str:
    return ABSENT if live is None else _state(live["metadata"])


def _is_owned_by(live: dict[str, Any], uid: str) -> bool:
    return any(owner["uid"] == uid for owner in live["metadata"].get("ownerReferences", ()))


def _are_replicas_held(live: dict[str, Any]) -> bool:
    """Tell whether an apply without `replicas` leaves them: our scale manager owns the field."""
    return any(
        entry.get("manager") == SCALE_FIELD_MANAGER and "f:replicas" in entry.get("fieldsV1", {}).get("f:spec", {})
        for entry in live["metadata"].get("managedFields", ())
    )
