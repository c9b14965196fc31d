"""Completeness of the watches, and a resync for what they cannot tell.

Pods that are not known yet would read as capacity that is missing, pods that are long gone as capacity that is there.
A reflector says when its first list is complete. kopf does not, and after a broken watch it lists again without a word
about what was deleted in between. So the uids of what it watches (metadata only, no bodies, in pages) are listed by
ourselves at start until it has told of all of them, and those of every kind every few minutes: any watch may lose an
event.

What is awaited of kopf is what the first list of a kind has and every later one has still: objects that come are
the watch's to tell, objects that go need not be told, so that any churn comes to an end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from firsttoken_operator.act.errors import ClusterError, NotFound, Unavailable
from firsttoken_operator.act.kubernetes import KubernetesCluster
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.reflector import Reflector
from firsttoken_operator.run.watches import OPTIONAL, WATCHED, Watched

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.1
RELIST_SECONDS = 5.0
RESYNC_SECONDS = 300.0
CATCH_UP_SECONDS = 10.0
BESIDE = frozenset(kind.kind for kind in (*WATCHED, *OPTIONAL)) - {"Deployment", "Pod"}
"""Kinds that do not say what is charged to a pool: all but pods and what is scaled."""


class CacheSync:
    """Stands between the watches and the store: passes every event on and knows which objects the store holds."""

    def __init__(
        self, cluster: KubernetesCluster, store: Store, watched: tuple[Watched, ...], namespaces: tuple[str, ...] = ()
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._watched = watched
        self._namespaces = namespaces or ("",)
        self._held: dict[str, dict[str, int]] = {kind.kind: {} for kind in watched}
        """Version of each object by uid, by the name of its kind: two groups may have one plural."""
        self._told = tuple(kind for kind in watched if kind.is_ours)
        """Those whose watch does not say when it is complete."""
        self._reflectors: Sequence[Reflector] = ()
        self._awaited: dict[str, set[str]] = {}
        """Uids that it is to tell of before the first decision; a kind that was not listed yet is not there."""

    def feed(self, kind: Watched, event_type: str | None, body: Mapping[str, Any]) -> None:
        """Take one watch event; one that is older than what is held is no news."""
        metadata, held = body["metadata"], self._held[kind.kind]
        uid, version = metadata["uid"], _version(metadata)
        if event_type == "DELETED":
            held.pop(uid, None)
        elif event_type is not None and version < held.get(uid, 0):
            # NB: what is listed is believed, however old: after a restored backup versions begin anew.
            return
        else:
            held[uid] = version
        self._awaited.get(kind.kind, set()).discard(uid)
        self._store.feed(kind.kind, event_type, body)

    async def wait_until_complete(self, progress: Callable[[str], None], reflectors: Sequence[Reflector] = ()) -> None:
        """Return when the watches have told of everything that existed when this was called.

        `progress` is told what is still awaited, each time that it changes.
        """
        said, self._reflectors = "", reflectors
        while True:
            for kind in self._told:
                await self._list_awaited(kind)
            quiet_seconds = 0.0
            while quiet_seconds < RELIST_SECONDS:
                missing = self._missing(reflectors)
                if not missing:
                    return
                if missing != said:
                    said, quiet_seconds = missing, 0.0
                    progress(said)
                await asyncio.sleep(POLL_SECONDS)
                quiet_seconds += POLL_SECONDS
            # What is awaited may have been deleted before its watch began: list again rather than wait for it. As long
            # as the watches tell of more, a list of ten thousand pods would only hold them up.
            logger.info("the caches are being filled: %s", said)

    async def _list_awaited(self, kind: Watched) -> None:
        known = self._awaited.get(kind.kind)
        if known is not None and not known:
            return
        try:
            listed = await self._list(kind)
        except ClusterError as error:
            logger.warning("cannot list what should be in the caches yet: %s", error)
            return
        # NB: read again, because watches told of objects meanwhile.
        self._awaited[kind.kind] = (listed if known is None else known & listed) - self._held[kind.kind].keys()

    def _missing(self, reflectors: Sequence[Reflector]) -> str:
        """Say what is awaited, in words; empty: nothing."""
        left = {kind.kind: self._awaited.get(kind.kind) for kind in self._told}
        said = [
            f"{name}: {'not listed' if uids is None else len(uids)}" for name, uids in left.items() if uids != set()
        ]
        said += [f"{r.kind.kind}: {len(self._held[r.kind.kind])} so far" for r in reflectors if not r.listed]
        return f"still awaited are {', '.join(said)}" if said else ""

    async def catch_up(self) -> bool:
        """Return when the watches show targets and pods as new as they are now; False: not in time, or not known.

        For who begins to write: what the last leader wrote is charged to its pool before anything else is given.
        """
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                for kind in self._watched:
                    if kind.kind not in BESIDE:
                        await self._caught_up(kind)
        except (ClusterError, TimeoutError) as error:
            logger.warning("nothing is written yet, the caches may lack what the last leader wrote: %r", error)
            return False
        return True

    async def _caught_up(self, kind: Watched) -> None:
        held, listed = self._held[kind.kind], dict[str, int]()
        known = set(held)
        # NB: of what cannot be read nothing is held and nothing written, and its pods are charged as those of others.
        lacking = {(r.kind.kind, r.namespace) for r in self._reflectors if r.lacking}
        for namespace in self._namespaces if kind.namespaced else ("",):
            if (kind.kind, namespace) in lacking:
                continue
            try:
                found = await self._cluster.versions(kind.path(namespace), kind.field_selector)
            except NotFound:
                if not kind.may_be_absent:
                    raise
                return
            listed |= {uid: _version({"resourceVersion": version}) for uid, version in found.items()}
        while True:
            known |= held.keys()
            # NB: one that was there and is gone has been told of to its end.
            gone = known - held.keys()
            if all(uid in gone or held.get(uid, -1) >= version for uid, version in listed.items()):
                return
            await asyncio.sleep(POLL_SECONDS)

    async def resync_forever(self) -> None:
        """Drop objects from the store whose deletion no watch has told, every few minutes."""
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            await self.resync()

    async def resync(self) -> None:
        """Drop what the store holds and the server does not; of a kind that cannot be listed nothing is dropped."""
        for kind in self._watched:
            # NB: taken before the list: an object created while listing is in neither and must stay.
            before = set(self._held[kind.kind])
            try:
                listed = await self._list(kind)
            except ClusterError as error:
                logger.warning("cannot compare the caches with the API server: %s", error)
                continue
            gone = (before - listed) & self._held[kind.kind].keys()
            if gone:
                logger.info("%d objects of kind %s are gone without a watch event; dropped", len(gone), kind.kind)
            for uid in gone:
                self.feed(kind, "DELETED", {"metadata": {"uid": uid}})

    async def _list(self, kind: Watched) -> set[str]:
        """Uids of all objects of a kind. Raises `ClusterError`."""
        found: set[str] = set()
        for namespace in self._namespaces if kind.namespaced else ("",):
            path = kind.path(namespace)
            try:
                found |= await self._cluster.uids(path, kind.field_selector)
            except NotFound as error:
                # NB: one 404 (a server that starts, a discovery that is late) does not mean that there are no objects.
                if await self._cluster.serves(kind.api_version, kind.kind, kind.plural):
                    raise Unavailable(f"{error}, though the API server serves {kind.kind}") from error
        return found


def _version(metadata: Mapping[str, Any]) -> int:
    """The resource version as a number, by which Kubernetes (since 1.35) orders the states of one kind; 0: unknown."""
    version = str(metadata.get("resourceVersion", ""))
    return int(version) if version.isascii() and version.isdigit() else 0
