"""InferenceDeployments as they are right before replicas are written: each by itself, or where many are, all at once.

A storm of scale writes would read two thousand objects, one by one, to find that none was changed. A list of their
metadata tells that: a spec that changed has another generation.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
RENEWED_SECONDS = FRESH_SECONDS / 2
"""Age from which on the next list is read beside the writes: else all of them would wait for it every two seconds."""
TOO_SLOW_SECONDS = 60.0
"""Time for which none is asked for after one that was too old when it came: writes would wait for it in vain."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """Metadata of all of them. `at_seconds`: when it was asked for, as all its pages tell of that time."""

    found: dict[ObjectRef, Json]
    at_seconds: float


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
        self._listed: _Listed | None = None
        self._listing: asyncio.Task[_Listed] | None = None
        self._asked_seconds = -math.inf
        self._unlisted_until_seconds = -math.inf

    def close(self) -> None:
        """Give up a list that is being read."""
        if self._listing is not None:
            self._listing.cancel()

    async def read(self, namespace: str, name: str) -> Json:
        """The object, or its metadata alone; `NotFound` where there is none. Raises `ClusterError`."""
        ref = ObjectRef(API_VERSION, KIND, namespace, name)
        many = self._waiting() >= MANY and self._clock() >= self._unlisted_until_seconds
        if len(self._namespaces) <= MOST_NAMESPACES and (many or self._is_listing or self._age < FRESH_SECONDS):
            try:
                found = await self._found(renew=many)
            except (ClusterError, TimeoutError):
                return await self._cluster.read(ref)
            if ref not in found:
                raise NotFound(f"there is no {KIND} {namespace}/{name}")
            return {"metadata": found[ref]}
        return await self._cluster.read(ref)

    @property
    def _age(self) -> float:
        """Age of the last list, in seconds."""
        return math.inf if self._listed is None else self._clock() - self._listed.at_seconds

    @property
    def _is_listing(self) -> bool:
        return self._listing is not None and not self._listing.done()

    async def _found(self, *, renew: bool) -> dict[ObjectRef, Json]:
        """The last list where it is fresh, else the one that is being read, or a new one.

        Raises `ClusterError` where it failed, `TimeoutError` where it takes longer than a list stays fresh.
        """
        age, asked = self._age, self._clock() - self._asked_seconds
        # NB: one that failed is not asked for again by each write that waits: until then each is read by itself.
        is_due = min(age, asked) > (RENEWED_SECONDS if renew and age <= FRESH_SECONDS else FRESH_SECONDS)
        if not self._is_listing and is_due:
            self._asked_seconds = self._clock()
            self._listing = asyncio.create_task(self._read_all(), name="list before writes")
            # NB: where it fails and none waited for it, that is no news.
            self._listing.add_done_callback(lambda task: task.cancelled() or task.exception())
        if self._listed is not None and age <= FRESH_SECONDS:
            return self._listed.found
        assert self._listing is not None, "without a list one is asked for"
        # NB: who is overwhelmed by the list answers single reads; else all writes would end at their deadline.
        async with asyncio.timeout(max(0.0, self._asked_seconds + FRESH_SECONDS - self._clock())):
            # NB: one write that is given up must not take the list from all others.
            return (await asyncio.shield(self._listing)).found

    async def _read_all(self) -> _Listed:
        found = [await self._cluster.metadata(API_VERSION, KIND, namespace, "") for namespace in self._namespaces]
        self._listed = _Listed(reduce(lambda one, other: one | other, found, {}), self._asked_seconds)
        if self._age > FRESH_SECONDS:
            self._unlisted_until_seconds = self._clock() + TOO_SLOW_SECONDS
        return self._listed
