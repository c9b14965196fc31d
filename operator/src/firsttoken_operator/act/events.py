"""Events on the InferenceDeployment, where `kubectl describe` shows them: on change only, repeats counted.

An Event says what changed and why; it is no heartbeat. The same reason with the same text is one Event whose count
grows, and its count is written at most every ten minutes: a failure that lasts an hour makes seven writes.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from firsttoken_operator.act.backlog import Key, Priority
from firsttoken_operator.act.conditions import printable, timestamp
from firsttoken_operator.act.errors import Conflict, NotFound
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.domain import Reason, ResourceSnapshot

COMPONENT = "firsttoken-operator"
REPEAT_SECONDS = 600.0
REQUESTS = 2
"""Requests of one write at most: an Event that the server has forgotten is created again."""
_REMEMBERED = 10_000

NORMAL = frozenset({
    Reason.RENDERED, Reason.SCALED_UP, Reason.SCALED_DOWN, Reason.METRICS_RECOVERED, Reason.WRITES_PAUSED,
    Reason.ADVISORY, Reason.PAUSED, Reason.TARGET_AT_ZERO, Reason.UNKNOWN, Reason.ROLLOUT_PENDING,
})  # fmt: skip
"""Reasons of what was done, or is as the user wants it, or is not known yet. Everything else is a warning."""


@dataclass(slots=True)
class _Series:
    manifest: dict[str, Any]
    count: int = 1
    uid: str = ""
    """The server's; empty: it was never answered."""
    told_at: datetime | None = None
    """Time of its last write; None: the server does not have it."""


class EventRecorder:
    """Hands Events to the queue. One that the server refuses is forgotten: it is never worth another write."""

    def __init__(
        self, cluster: KubernetesCluster, writes: WriteQueue, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._cluster = cluster
        self._writes = writes
        self._now = now
        self._series: dict[str, dict[Key, _Series]] = {}
        """Series by namespace, oldest first."""

    def record(self, resource: ResourceSnapshot, reason: Reason, message: str) -> None:
        """Let one Event about the resource be known."""
        message, now = printable(message), self._now()
        key = Key(resource.uid, "event", f"{reason} {message}")
        known = self._series.setdefault(resource.namespace, {})
        series = known.get(key)
        if series is None:
            if sum(map(len, self._series.values())) >= _REMEMBERED:
                self._forget_one()
            series = known[key] = _Series(event(resource, reason, message, now))
        else:
            series.count += 1
            if series.told_at is not None and (now - series.told_at).total_seconds() < REPEAT_SECONDS:
                return
        self._writes.put(key, Priority.EVENT, lambda: self._write(series), REQUESTS)

    def forget(self, uids: Set[str]) -> None:
        """Drop the Events about all resources but these."""
        for namespace, known in list(self._series.items()):
            for key in [key for key in known if key.uid not in uids]:
                del known[key]
            if not known:
                del self._series[namespace]

    def _forget_one(self) -> None:
        """Forget the oldest of the namespace that has most: a flood costs its own tenant."""
        most = max(self._series.values(), key=len)
        oldest = next(iter(most))
        self._writes.discard(oldest)
        del most[oldest]

    async def _write(self, series: _Series) -> None:
        now = self._now()
        told = {"count": series.count, "lastTimestamp": timestamp(now)}
        try:
            if series.told_at is not None:
                if not series.uid:
                    raise NotFound("the answer to its creation was lost")
                told["metadata"] = {"uid": series.uid}
                await self._cluster.patch(ObjectRef.of(series.manifest), told)
        except (NotFound, Conflict):
            # The server, which keeps Events for an hour, has forgotten it.
            series.manifest["metadata"]["name"] = _name(
                series.manifest["involvedObject"]["name"], series.manifest["reason"], now
            )
            series.manifest["firstTimestamp"], series.count, series.told_at = timestamp(now), 1, None
        if series.told_at is None:
            with suppress(Conflict):  # The answer of an earlier attempt was lost: it is there.
                counted = {"count": series.count, "lastTimestamp": timestamp(now)}
                series.uid = (await self._cluster.create(series.manifest | counted))["metadata"]["uid"]
        series.told_at = now


def event(resource: ResourceSnapshot, reason: Reason, message: str, now: datetime) -> dict[str, Any]:
    """The manifest of a new Event about the resource."""
    at = timestamp(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": _name(resource.name, reason, now), "namespace": resource.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION, "kind": "InferenceDeployment", "namespace": resource.namespace,
            "name": resource.name, "uid": resource.uid,
        },
        "type": "Normal" if reason in NORMAL else "Warning",
        "reason": reason.value,
        "message": message,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }  # fmt: skip


def _name(about: str, reason: str, now: datetime) -> str:
    """Name an Event as client-go does: unique without asking the server."""
    return f"{about[:220]}.{int(now.timestamp() * 1e6):x}.{reason.lower()[:15]}"
