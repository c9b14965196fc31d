"""Completeness of the watches, and a resync for what they cannot tell.

kopf's low-level handlers give no sign when the first lists are complete, and after a broken watch it lists again
without a word about what was deleted in between. Both would be wrong numbers: pods that are not known yet read as
capacity that is missing, pods that are long gone as capacity that is there. So the identities (metadata only, no
bodies) are listed by ourselves: at start until the watches have delivered all of them, then every few minutes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from firsttoken_operator.act.errors import ClusterError, NotFound
from firsttoken_operator.act.kubernetes import KubernetesCluster
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.watches import Watched

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.1
RELIST_SECONDS = 5.0
RESYNC_SECONDS = 300.0

Identity = Mapping[str, Any]
"""`{"metadata": {...}}` of one object; of those that are held uid, name and resource version."""


class CacheSync:
    """Stands between the watches and the store: passes every event on and knows which objects the store holds."""

    def __init__(
        self, cluster: KubernetesCluster, store: Store, watched: tuple[Watched, ...], namespaces: tuple[str, ...] = ()
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._watched = watched
        self._namespaces = namespaces or ("",)
        self._held: dict[str, dict[str, Identity]] = {kind.plural: {} for kind in watched}

    def feed(self, kind: Watched, event_type: str | None, body: Mapping[str, Any]) -> None:
        """Take one watch event; one that is older than what is held is no news."""
        metadata, held = body["metadata"], self._held[kind.plural]
        uid = metadata["uid"]
        if event_type == "DELETED":
            held.pop(uid, None)
        elif event_type is not None and uid in held and _version(metadata) < _version(held[uid]["metadata"]):
            # NB: what is listed is believed, however old: after a restored backup versions begin anew.
            return
        else:
            held[uid] = {"metadata": {key: metadata.get(key, "") for key in ("uid", "name", "resourceVersion")}}
        self._store.feed(kind.kind, event_type, body)

    async def wait_until_complete(self) -> None:
        """Return when the watches have delivered everything that existed when this was called."""
        while True:
            try:
                expected = {kind.plural: set(await self._list(kind)) for kind in self._watched}
            except ClusterError as error:
                logger.warning("cannot list what should be in the caches yet: %s", error)
                await asyncio.sleep(RELIST_SECONDS)
                continue
            for _ in range(round(RELIST_SECONDS / POLL_SECONDS)):
                if all(uids <= self._held[plural].keys() for plural, uids in expected.items()):
                    return
                await asyncio.sleep(POLL_SECONDS)
            # Something listed may have been deleted before its watch began: list again rather than wait for it.

    async def resync_forever(self) -> None:
        """Drop objects from the store whose deletion no watch has told, every few minutes."""
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            try:
                await self.resync()
            except ClusterError as error:
                logger.warning("cannot compare the caches with the API server: %s", error)

    async def resync(self) -> None:
        """Drop what the store holds and the server does not. Raises `ClusterError`."""
        for kind in self._watched:
            # NB: taken before the list: an object created while listing is in neither and must stay.
            before = dict(self._held[kind.plural])
            listed = await self._list(kind)
            for uid in before.keys() - listed.keys():
                if uid in self._held[kind.plural]:
                    name = before[uid]["metadata"].get("name")
                    logger.info("%s %s is gone without a watch event; dropped", kind.kind, name)
                    self.feed(kind, "DELETED", before[uid])

    async def _list(self, kind: Watched) -> dict[str, Identity]:
        found: dict[str, Identity] = {}
        for namespace in self._namespaces if kind.namespaced else ("",):
            try:
                listed = await self._cluster.identities(kind.path(namespace), kind.field_selector)
            except NotFound:
                # The server does not know the kind: its definition is not installed, so there are no objects.
                continue
            found.update({item["metadata"]["uid"]: item for item in listed})
        return found


def _version(metadata: Mapping[str, Any]) -> int:
    """The resource version as a number, by which Kubernetes (since 1.35) orders the states of one kind; 0: unknown."""
    version = str(metadata.get("resourceVersion", ""))
    return int(version) if version.isascii() and version.isdigit() else 0
