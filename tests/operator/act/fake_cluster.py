"""An API server in a dictionary, for what a real one cannot be made to do on command: fail, lose answers, be slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from firsttoken_operator.act.errors import ClusterError, Conflict, NotFound, Unavailable, Withheld
from firsttoken_operator.act.kubernetes import ObjectRef, Scale
from firsttoken_operator.domain import DEPLOYMENT, TargetKind


@dataclass
class FakeCluster:
    """Objects by reference; `before` runs before each call and may raise or change objects."""

    objects: dict[ObjectRef, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    before: Callable[[str, ObjectRef], None] | None = None
    lose_answer_of: str = ""
    delay_seconds: float = 0.0
    in_flight: int = 0
    most_in_flight: int = 0
    error: ClusterError | None = None
    withheld: str = ""
    most: int | None = None
    """Most replicas: a larger number becomes this one, as an admission webhook may have it."""

    async def read(self, ref: ObjectRef) -> dict[str, Any]:
        await self._begin("read", ref)
        return self._get(ref)

    async def read_scale(self, ref: ObjectRef, kind: TargetKind = DEPLOYMENT) -> Scale:
        await self._begin("read_scale", ref)
        return self._scale(ref)

    async def metadata(self, api_version: str, kind: str, namespace: str, labels: str) -> dict[ObjectRef, Any]:
        await self._begin("read_all", ObjectRef(api_version, kind, namespace, ""))
        return {ref: found["metadata"] for ref, found in self.objects.items() if ref.kind == kind}

    async def patch_scale(
        self, ref: ObjectRef, replicas: int, *, uid: str, resource_version: str, kind: TargetKind = DEPLOYMENT
    ) -> Scale:
        await self._begin("patch_scale", ref)
        now = self._scale(ref)
        if (now.uid, now.resource_version) != (uid, resource_version):
            raise Conflict("stale")
        self.set_replicas(ref, replicas if self.most is None else min(replicas, self.most))
        self._end("patch_scale")
        return self._scale(ref)

    async def replace_status(self, ref: ObjectRef, status: dict[str, Any], *, uid: str) -> dict[str, Any]:
        await self._begin("replace_status", ref)
        self._get(ref)["status"] = status
        return self._get(ref)

    async def apply(self, manifest: dict[str, Any]) -> dict[str, Any]:
        await self._begin("apply", ObjectRef.of(manifest))
        return manifest

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        ref = ObjectRef.of(manifest)
        await self._begin("create", ref)
        made = {"uid": f"uid-{ref.name}", "resourceVersion": "1"}
        self.objects[ref] = manifest | {"metadata": manifest["metadata"] | made}
        return self.objects[ref]

    async def patch(self, ref: ObjectRef, patch: dict[str, Any]) -> dict[str, Any]:
        await self._begin("patch", ref)
        found = self._get(ref)
        metadata = patch.get("metadata", {})
        if metadata.get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
            raise Conflict("another uid")
        found.update(patch | {"metadata": found["metadata"] | metadata})
        return found

    async def hold_replicas(self, ref: ObjectRef, replicas: int, *, uid: str, resource_version: str = "") -> None:
        await self._begin("hold_replicas", ref)

    async def serves(self, api_version: str, kind: str, plural: str = "") -> bool:
        return False

    def set_replicas(self, ref: ObjectRef, replicas: int) -> None:
        """Change the replicas as any writer would: the resourceVersion moves on."""
        found = self._get(ref)
        found["spec"]["replicas"] = replicas
        self.touch(ref)

    def touch(self, ref: ObjectRef) -> None:
        metadata = self._get(ref)["metadata"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)

    def writes(self) -> list[str]:
        return [name for name, _ in self.calls if not name.startswith("read")]

    async def _begin(self, name: str, ref: ObjectRef) -> None:
        if self.withheld and not name.startswith("read"):
            raise Withheld(self.withheld)
        self.calls.append((name, ref.kind))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.delay_seconds:
                await asyncio.sleep(self.delay_seconds)
            if self.before is not None:
                self.before(name, ref)
            if self.error is not None:
                raise self.error
        finally:
            self.in_flight -= 1

    def _end(self, name: str) -> None:
        if self.lose_answer_of == name:
            self.lose_answer_of = ""
            raise Unavailable("the answer was lost")

    def _get(self, ref: ObjectRef) -> dict[str, Any]:
        if ref not in self.objects:
            raise NotFound(ref.name)
        return self.objects[ref]

    def _scale(self, ref: ObjectRef) -> Scale:
        found = self._get(ref)
        return Scale(found["metadata"]["uid"], found["metadata"]["resourceVersion"], found["spec"]["replicas"])
