"""InferenceDeployments as they are right before replicas are written: each by itself, or where many are, all at once.

A storm of scale writes would read two thousand objects, one by one, to find that none was changed. A list of their
metadata tells that: a spec that changed has another generation.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from functools import reduce

from firsttoken_operator.act.errors import ClusterError, NotFound
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.objects import Json
from firsttoken_operator.api.base import API_VERSION

KIND = "InferenceDeployment"
MANY = 16
"""Writes that wait, from which on a list is less work than reading each."""
MOST_NAMESPACES = 8
"""Namespaces up to which they are listed one by one."""
FRESH_SECONDS = 2.0
"""Age up to which a list is as good as a read: about what a read and the write behind it may take."""


class LiveResources:
    """Reads for writes. `waiting` counts the writes that wait; `namespaces`: those that may be listed, "" for all."""

    def __init__(
        self,
        cluster: KubernetesCluster,
        waiting: Callable[[], int],
        namespaces: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._waiting = waiting
        self._namespaces = tuple(namespaces)
        self._clock = clock
        self._listed: asyncio.Task[dict[ObjectRef, Json]] | None = None
        self._listed_seconds = -math.inf

    def close(self) -> None:
        """Give up a list that is being read."""
        if self._listed is not None:
            self._listed.cancel()

    async def read(self, namespace: str, name: str) -> Json:
        """The object, or its metadata alone; `NotFound` where there is none. Raises `ClusterError`."""
        ref = ObjectRef(API_VERSION, KIND, namespace, name)
        if len(self._namespaces) <= MOST_NAMESPACES and (self._is_fresh or self._waiting() >= MANY):
            try:
                # NB: one write that is given up must not take the list from all others.
                found = await asyncio.shield(self._list())
            except ClusterError:
                return await self._cluster.read(ref)
            if ref not in found:
                raise NotFound(f"there is no {KIND} {namespace}/{name}")
            return {"metadata": found[ref]}
        return await self._cluster.read(ref)

    @property
    def _is_fresh(self) -> bool:
        """True where a list is being read, or was a moment ago."""
        if self._listed is None:
            return False
        return not self._listed.done() or self._clock() - self._listed_seconds <= FRESH_SECONDS

    def _list(self) -> asyncio.Task[dict[ObjectRef, Json]]:
        """The list that is there, or is being read; else a new one."""
        if self._listed is None or not self._is_fresh:
            self._listed_seconds = self._clock()
            self._listed = asyncio.create_task(self._read_all(), name="list before writes")
        return self._listed

    async def _read_all(self) -> dict[ObjectRef, Json]:
        found = [await self._cluster.metadata(API_VERSION, KIND, namespace, "") for namespace in self._namespaces]
        # NB: from when it was read, and not from when it was asked for.
        self._listed_seconds = self._clock()
        return reduce(lambda one, other: one | other, found, {})
