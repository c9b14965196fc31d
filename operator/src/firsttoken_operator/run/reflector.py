"""A list and a watch of one kind that a cluster has by the ten thousand: pods, ReplicaSets, autoscalers, nodes.

kopf keeps a task, a queue and a memory for every object, and takes milliseconds for each; here an object is read, fed
and forgotten.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from firsttoken_operator.act.connection import WATCH_SILENCE_SECONDS
from firsttoken_operator.act.errors import ClusterError, NotFound, Throttled, Unavailable
from firsttoken_operator.act.kubernetes import KubernetesCluster
from firsttoken_operator.act.objects import Json, list_each
from firsttoken_operator.run.watches import Watched

logger = logging.getLogger(__name__)

Feed = Callable[[Watched, str | None, Mapping[str, Any]], None]
"""Takes one watch event: the kind, its type (None: listed, ADDED, MODIFIED, DELETED) and the object."""

RETRY_SECONDS = (1.0, 2.0, 3.0, *(5.0,) * 18)
"""Waits before a watch is tried again: for 96 s, so that an API server that starts anew ends no operator."""
LONGEST_OUTAGE_SECONDS = sum(RETRY_SECONDS)
"""A watch that is refused or hangs for longer would leave a frozen cache, while other requests are answered."""
LONGEST_SILENCE_SECONDS = 900.0
"""A server that answers nothing is waited for: nothing can be written on what is cached. After so long, credentials or
addresses that have changed are the likelier cause."""
FAILURES_BEFORE_LIST = 3
"""A connection that broke is taken up where it was; a server that then still refuses may know that place no more."""
LIVED_SECONDS = 5.0
"""A watch that was open for so long was no failure, though nothing was told and it broke in the end."""
AFTER_A_WATCH_SECONDS = 0.5
ABSENT_SECONDS = 30.0
"""Interval between looks for a kind of another project that is not installed."""


class Reflector:
    """Feeds what a server has of one kind, in one namespace or (empty) in all, for as long as it runs."""

    def __init__(
        self,
        cluster: KubernetesCluster,
        kind: Watched,
        namespace: str,
        feed: Feed,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.listed = False
        """True once everything has been fed that there was at some time since the start."""
        self.lacking = ""
        """Reason that nothing is held of a kind that may be absent, until a watch of it is taken; empty: it is held."""
        self._cluster = cluster
        self._path = kind.path(namespace)
        self._query = {"fieldSelector": kind.field_selector} if kind.field_selector else {}
        self._feed = feed
        self._uids: set[str] = set()
        self._version = ""
        """Version up to which the history is fed; empty: it has to be listed."""
        self._clock = clock
        self._failures = 0
        """Failures in a row: since anything was told, or a watch lived for a while."""
        self._failing_since_seconds = self._failed_seconds = 0.0
        """Times of the first and of the latest of them."""
        self._refused_seconds = 0.0
        """Time between them in which the server answered something."""
        self._opened_seconds = math.inf
        """Time since when the server has had the present watch; inf: it has none."""

    async def run(self) -> None:
        """Feed for ever. Raises `ClusterError` when it was refused for too long: better than a frozen cache.

        Of a kind that may be absent nothing is held then, and it is tried again: it ends no other.
        """
        while True:
            self._opened_seconds = math.inf
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                self._failures = 0
                await asyncio.sleep(AFTER_A_WATCH_SECONDS)
            except ClusterError as error:
                if isinstance(error, NotFound) and await self._is_absent():
                    self._failures = 0
                    if not self.lacking:
                        logger.info("the API server has no %s.%s; looked for again", self.kind.plural, self.kind.group)
                    self._lack("the API server does not serve it")
                    await asyncio.sleep(ABSENT_SECONDS)
                else:
                    await asyncio.sleep(self._pause_seconds(error))

    async def _is_absent(self) -> bool:
        """Tell whether the kind is one that need not be installed and is not; then there is nothing of it."""
        kind = self.kind
        try:
            return kind.may_be_absent and not await self._cluster.serves(kind.api_version, kind.kind, kind.plural)
        except ClusterError:
            return False

    def _lack(self, reason: str) -> None:
        """Drop all that was told: what is no longer followed would be decided on as it was."""
        for uid in set(self._uids):
            self._take("DELETED", {"metadata": {"uid": uid}})
        self._version, self.listed, self.lacking = "", True, reason

    def _pause_seconds(self, error: ClusterError) -> float:
        """Time to wait after a failure. Raises it where it is one too many, but for a kind that may be absent."""
        now = self._clock()
        # NB: a proxy may cut what is quiet for half a minute. A watch that is silent for longer is one that hangs.
        if LIVED_SECONDS <= now - self._opened_seconds < WATCH_SILENCE_SECONDS:
            self._failures = 0
        if not self._failures:
            self._failing_since_seconds, self._refused_seconds = now, 0.0
        elif self._cluster.heard_seconds > self._failed_seconds:
            self._refused_seconds += now - self._failed_seconds
        self._failed_seconds = now
        silent_seconds = now - self._failing_since_seconds
        if self._refused_seconds >= LONGEST_OUTAGE_SECONDS or silent_seconds >= LONGEST_SILENCE_SECONDS:
            if not self.kind.may_be_absent:
                raise error
            if not self.lacking:
                name = f"{self.kind.plural}.{self.kind.group}"
                logger.warning("nothing of %s is held until it can be read, as if there were none: %s", name, error)
            self._lack(str(error))
            return ABSENT_SECONDS
        asked = error.retry_after_seconds if isinstance(error, Throttled) else 0.0
        pause_seconds = max(RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)], asked)
        self._failures += 1
        if not isinstance(error, Unavailable) or self._failures >= FAILURES_BEFORE_LIST:
            self._version = ""
        logger.info("a watch is taken up again in %.0f s: %s", pause_seconds, error)
        return pause_seconds

    async def _list(self) -> None:
        found: set[str] = set()

        def take(body: Json) -> None:
            found.add(body["metadata"]["uid"])
            self._take(None, body)

        page = partial(self._cluster.page, self._path, metadata_only=self.kind.metadata_only)
        metadata = await list_each(page, self._query, take)
        for uid in self._uids - found:
            self._take("DELETED", {"metadata": {"uid": uid}})
        self._version, self.listed = metadata["resourceVersion"], True

    async def _watch(self) -> None:
        query = self._query | {"resourceVersion": self._version}
        async for event in self._cluster.watch(self._path, query, metadata_only=self.kind.metadata_only):
            if event is None:
                self._opened_seconds, self.lacking = self._clock(), ""
                continue
            told, body = event.get("type"), event.get("object") or {}
            if told == "ERROR":
                # NB: 410 where the history is compacted; what else it may be, a list is the way out of it.
                self._version = ""
                raise Unavailable(f"the watch of {self._path} ended with {body.get('code')} {body.get('message')}")
            try:
                self._version = body["metadata"]["resourceVersion"]
            except (LookupError, TypeError) as error:
                raise Unavailable(f"an event of {self._path} is not readable") from error
            self._failures = 0
            if told in ("ADDED", "MODIFIED", "DELETED"):
                self._take(told, body)

    def _take(self, told: str | None, body: Json) -> None:
        uid = body["metadata"]["uid"]
        if told == "DELETED":
            self._uids.discard(uid)
        else:
            self._uids.add(uid)
        self._feed(self.kind, told, body)
