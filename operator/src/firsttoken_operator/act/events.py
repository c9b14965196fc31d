"""Events on the InferenceDeployment, where `kubectl describe` shows them: on change only, repeats counted.

An Event says what changed and why; it is no heartbeat. The same reason with the same text is one Event whose count
grows, and its count is written at most every ten minutes: a failure that lasts an hour makes seven writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from firsttoken_operator.act.conditions import printable, timestamp
from firsttoken_operator.act.errors import ClusterError, NotFound, Withheld
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.domain import Reason, ResourceSnapshot

logger = logging.getLogger(__name__)

COMPONENT = "firsttoken-operator"
REPEAT_SECONDS = 600.0
_REMEMBERED = 10_000

WARNINGS = frozenset({
    Reason.FOREIGN_WRITE, Reason.CONFLICT, Reason.WRITE_CONFLICT, Reason.WRITE_FAILED, Reason.METRICS_LOST,
    Reason.POOL_EXHAUSTED, Reason.INVALID_SPEC, Reason.ERRORS_PRESENT, Reason.DECISION_FAILED,
})  # fmt: skip


@dataclass(slots=True)
class _Series:
    ref: ObjectRef
    count: int
    written_at: datetime


class EventRecorder:
    """Writes Events. A failed write is logged and forgotten: an Event is never worth a tick."""

    def __init__(self, cluster: KubernetesCluster, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._cluster = cluster
        self._now = now
        self._series: dict[tuple[str, Reason, str], _Series] = {}

    async def record(self, resource: ResourceSnapshot, reason: Reason, message: str) -> None:
        """Publish one Event about the resource."""
        message, now = printable(message), self._now()
        key = (resource.uid, reason, message)
        known = self._series.get(key)
        try:
            if known is not None and await self._repeated(known, now):
                return
            manifest = event(resource, reason, message, now)
            await self._cluster.create(manifest)
        except Withheld:
            return
        except ClusterError as error:
            logger.warning("event %s of %s/%s not written: %s", reason, resource.namespace, resource.name, error)
            return
        while len(self._series) >= _REMEMBERED:
            self._series.pop(next(iter(self._series)))
        self._series[key] = _Series(ObjectRef.of(manifest), 1, now)

    async def _repeated(self, series: _Series, now: datetime) -> bool:
        """Count an Event once more; False: the server, which keeps Events for an hour, has forgotten it."""
        series.count += 1
        if (now - series.written_at).total_seconds() < REPEAT_SECONDS:
            return True
        try:
            await self._cluster.patch(series.ref, {"count": series.count, "lastTimestamp": timestamp(now)})
        except NotFound:
            return False
        series.written_at = now
        return True


def event(resource: ResourceSnapshot, reason: Reason, message: str, now: datetime) -> dict[str, Any]:
    """The manifest of a new Event about the resource."""
    at = timestamp(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        # As client-go names them: unique without asking the server.
        "metadata": {
            "name": f"{resource.name[:220]}.{int(now.timestamp() * 1e6):x}.{reason.value.lower()[:15]}",
            "namespace": resource.namespace,
        },
        "involvedObject": {
            "apiVersion": API_VERSION, "kind": "InferenceDeployment", "namespace": resource.namespace,
            "name": resource.name, "uid": resource.uid,
        },
        "type": "Warning" if reason in WARNINGS else "Normal",
        "reason": reason.value,
        "message": message,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }  # fmt: skip
