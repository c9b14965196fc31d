"""The few calls that are made to the API server, on the client of `kubernetes.aio`.

Everything is plain JSON. The typed models of the client are not used: they cost memory, and a server-side apply that
creates a custom object (HTTP 201) comes back from them as None. What is used of the client is its configuration
(kubeconfig, in-cluster, token rotation, TLS), its connection pool and its authentication.
"""

from __future__ import annotations

import contextlib
import math
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote

from kubernetes.aio import client, config

from firsttoken_operator.act.connection import WHOLE, Connection, document
from firsttoken_operator.act.errors import (
    NotFound,
    Unavailable,
)
from firsttoken_operator.act.objects import Json, list_each
from firsttoken_operator.domain import DEPLOYMENT, TargetKind
from firsttoken_operator.domain.target_kinds import SPEC_REPLICAS, at

FIELD_MANAGER = "firsttoken"
"""Owns the rendered objects and the status."""
SCALE_FIELD_MANAGER = "firsttoken-scale"
"""Owns `spec.replicas` of the targets, so that no apply of a rendered object ever touches it."""

LIST_TIMEOUT_SECONDS = 30.0
_CHUNK_BYTES = 256 * 1024
_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """One object of the API. `namespace` is empty for a cluster-scoped one.

    `plural`: the name of its collection; empty: the kind in small letters with an s, as nearly every kind has it.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    plural: str = field(default="", compare=False)

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> ObjectRef:
        """The identity of a manifest."""
        metadata = manifest["metadata"]
        return cls(manifest["apiVersion"], manifest["kind"], metadata.get("namespace", ""), metadata["name"])

    def path(self, subresource: str = "") -> str:
        """URL path of the object or one of its subresources."""
        return self.collection() + f"/{quote(self.name, safe='')}" + (f"/{subresource}" if subresource else "")

    def collection(self) -> str:
        """URL path of all objects of this kind in the namespace."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        scope = f"/namespaces/{quote(self.namespace, safe='')}" if self.namespace else ""
        return f"{root}{scope}/{self.plural or f'{self.kind.lower()}s'}"


@dataclass(frozen=True, slots=True)
class Scale:
    """Replicas of a target, as just read. `uid` and `resource_version` are the target's own."""

    uid: str
    resource_version: str
    replicas: int


class KubernetesCluster(Connection):
    """The calls. Each method raises `ClusterError`; close it when done."""

    async def read(self, ref: ObjectRef) -> Json:
        """The object as it is now (a consistent read, not from a cache)."""
        return await self._request("GET", ref.path())

    async def read_scale(self, ref: ObjectRef, kind: TargetKind = DEPLOYMENT) -> Scale:
        """Replicas of the target as they are now, of its scale subresource where its kind has one."""
        return _scale(await self._request("GET", ref.path("" if kind.patched else "scale")), kind)

    async def patch_scale(
        self, ref: ObjectRef, replicas: int, *, uid: str, resource_version: str, kind: TargetKind = DEPLOYMENT
    ) -> Scale:
        """Set the replicas if the target still has this uid and resourceVersion, else raise `Conflict`.

        The scale subresource is written, or the fields that hold the replicas where the kind has none.
        """
        body: Json = {"metadata": {"uid": uid, "resourceVersion": resource_version}}
        for path in kind.patched or (SPEC_REPLICAS,):
            place = body
            for name in path[:-1]:
                place = place.setdefault(name, {})
            place[path[-1]] = replicas
        path_of = ref.path("" if kind.patched else "scale")
        return _scale(await self._patch(path_of, body, "merge-patch+json", SCALE_FIELD_MANAGER), kind)

    async def replace_status(self, ref: ObjectRef, status: Json, *, uid: str) -> Json:
        """Make `status` the whole status of the object with this uid; another uid is `Rejected`.

        NB: a uid in a merge-patch of a custom resource's status is silently ignored, so it is tested explicitly.
        """
        patch: list[Json] = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/status", "value": status},
        ]
        return await self._patch(ref.path("status"), patch, "json-patch+json")

    async def apply(self, manifest: Json, *, dry_run: bool = False) -> Json:
        """Server-side apply: we own exactly the fields of `manifest`, also those that another writer has set.

        `dry_run`: the object as it would be, and nothing is written.

        Where `manifest` has a uid, an object with another one is `Rejected`, and one that is gone a `Conflict`; so is
        one with another `resourceVersion`, where `manifest` has that.
        """
        query = {"dryRun": "All"} if dry_run else {}
        return await self._apply(ObjectRef.of(manifest).path(), manifest, FIELD_MANAGER, **query)

    async def hold_replicas(self, ref: ObjectRef, replicas: int, *, uid: str, resource_version: str = "") -> None:
        """Become an owner of the target's replicas at the value they have, so that an apply without them keeps it.

        A target with another uid, or another version where one is given, is a `Conflict`.
        NB: a merge-patch to the value that is already there records no owner; only an apply does.
        """
        metadata = {"name": ref.name, "uid": uid}
        if resource_version:
            metadata["resourceVersion"] = resource_version
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}}
        await self._apply(ref.path("scale"), scale, SCALE_FIELD_MANAGER)

    async def create(self, manifest: Json) -> Json:
        """Create the object; one that exists already is a `Conflict`."""
        path = ObjectRef.of(manifest).collection()
        return await self._request("POST", path, {"fieldManager": FIELD_MANAGER}, manifest, "application/json")

    async def delete(self, ref: ObjectRef, *, uid: str) -> None:
        """Delete the object with this uid, and what it controls after it; another uid is a `Conflict`.

        One that is gone is no error.
        """
        options: Json = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        with contextlib.suppress(NotFound):
            await self._request("DELETE", ref.path(), body=options, media="application/json")

    async def patch(self, ref: ObjectRef, patch: Json) -> Json:
        """Merge-patch the object."""
        return await self._patch(ref.path(), patch, "merge-patch+json")

    async def serves(self, api_version: str, kind: str, plural: str = "") -> bool:
        """Tell whether the server knows this kind (its CustomResourceDefinition is installed), under this plural."""
        try:
            found = await self._request("GET", f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}")
        except NotFound:
            return False
        return any(
            resource["kind"] == kind and (not plural or resource["name"] == plural)
            for resource in found.get("resources", ())
        )

    async def uids(self, path: str, field_selector: str) -> set[str]:
        """Uid of every object of a collection, read in pages and without bodies."""
        return set(await self.versions(path, field_selector))

    async def versions(self, path: str, field_selector: str) -> dict[str, str]:
        """Resource version of every object of a collection by its uid, as the server has it now."""
        found: dict[str, str] = {}

        def take(metadata: Json) -> None:
            found[metadata["uid"]] = str(metadata.get("resourceVersion", ""))

        await self._each(path, take, fieldSelector=field_selector)
        return found

    async def metadata(self, api_version: str, kind: str, namespace: str, labels: str) -> dict[ObjectRef, Json]:
        """Metadata of every object with these labels, in one namespace or (empty) in all."""
        path = ObjectRef(api_version, kind, namespace, "").collection()
        found: dict[ObjectRef, Json] = {}

        def take(metadata: Json) -> None:
            # NB: who wrote which field is read by none, and is the larger part.
            metadata.pop("managedFields", None)
            found[ObjectRef(api_version, kind, metadata["namespace"], metadata["name"])] = metadata

        await self._each(path, take, labelSelector=labels)
        return found

    async def page(
        self, path: str, query: Mapping[str, str], largest_bytes: float, *, metadata_only: bool = False
    ) -> str | None:
        """One page of a list, as text; None: it is larger than that."""
        accept = _METADATA.format("List") if metadata_only else WHOLE
        async with self._answer("GET", path, query, accept=accept, seconds=LIST_TIMEOUT_SECONDS) as response:
            text = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                text += chunk
                if len(text) > largest_bytes:
                    return None
            try:
                return text.decode()
            except UnicodeDecodeError as error:
                raise Unavailable(f"GET {path}: the list is not UTF-8") from error

    async def watch(self, path: str, query: Mapping[str, str], *, metadata_only: bool) -> AsyncIterator[Json | None]:
        """None when the server takes the watch, then events since `resourceVersion` as they come, until it ends it."""
        query = {"watch": "true", "allowWatchBookmarks": "true", **query}
        accept = _METADATA.format("") if metadata_only else WHOLE
        async with self._answer("GET", path, query, accept=accept, seconds=math.inf) as response:
            yield None
            lines = aiter(response.content)
            while True:
                try:
                    line = await anext(lines)
                except StopAsyncIteration:
                    return
                except ValueError as error:
                    raise Unavailable(f"GET {path}: an event is longer than is read") from error
                # NB: a proxy may keep a connection alive with lines that say nothing.
                if line.strip():
                    self.heard_seconds = self._clock()
                    yield document("GET", path, line)

    async def _each(self, path: str, take: Callable[[Json], None], **selectors: str) -> None:
        """Hand on the metadata of every object of a collection."""
        query = {name: selector for name, selector in selectors.items() if selector}
        await list_each(partial(self.page, path, metadata_only=True), query, lambda body: take(body["metadata"]))

    async def _apply(self, path: str, body: Json, manager: str, **query: str) -> Json:
        return await self._patch(path, body, "apply-patch+yaml", manager, force="true", **query)

    async def _patch(
        self, path: str, body: Json | list[Json], way: str, manager: str = FIELD_MANAGER, **query: str
    ) -> Json:
        return await self._request("PATCH", path, {"fieldManager": manager, **query}, body, f"application/{way}")


async def load_configuration(kubeconfig: str | None) -> client.Configuration:
    """Server, trust and credentials from a kubeconfig file, or of the pod's service account where none is named.

    Raises `kubernetes.aio.config.ConfigException` where neither is usable.
    """
    configuration = client.Configuration()
    try:
        if kubeconfig:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=kubeconfig, client_configuration=configuration, persist_config=False
            )
        else:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise config.ConfigException(str(error)) from error
    try:
        # NB: the client would read it, too, and not say what it is.
        ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    except OSError as error:
        raise config.ConfigException(f"certificate-authority {configuration.ssl_ca_cert}: {error}") from error
    return configuration


def _scale(document: Json, kind: TargetKind) -> Scale:
    metadata, replicas = document["metadata"], at(document, kind.replicas if kind.patched else SPEC_REPLICAS)
    if replicas is None:
        # NB: the server leaves `spec.replicas` of a Scale out of the JSON when it is 0.
        replicas = int(bool(kind.patched) and kind.is_one_unset)
    return Scale(metadata["uid"], metadata["resourceVersion"], int(replicas))
