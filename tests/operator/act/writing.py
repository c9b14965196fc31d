"""Writers to a fake API server, each step waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from firsttoken_operator.act.events import EventRecorder
from firsttoken_operator.act.publish import Publisher
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.status import Observed
from firsttoken_operator.api.status import InferenceDeploymentStatus
from firsttoken_operator.decide import ForeignWrite
from firsttoken_operator.domain import Reason, ResourceSnapshot


class Teller:
    """A publisher and a recorder of Events, with a queue of their own."""

    def __init__(self, cluster: Any, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.writes = WriteQueue()
        self.recorder = EventRecorder(cluster, self.writes, now)
        self.publisher = Publisher(cluster, self.recorder, self.writes)

    async def publish(self, shown: Mapping[str, Any], seen: Observed, foreign: ForeignWrite | None = None) -> None:
        """Tell of a tick."""
        self.publisher.publish(InferenceDeploymentStatus.model_validate(shown), seen, foreign)
        await self.writes.settle()

    async def publish_undecided(self, shown: Mapping[str, Any], resource: ResourceSnapshot, now: datetime) -> None:
        """Tell of a decision that failed."""
        self.publisher.publish_undecided(InferenceDeploymentStatus.model_validate(shown), resource, now)
        await self.writes.settle()

    async def record(self, resource: ResourceSnapshot, reason: Reason, message: str) -> None:
        """Tell of one Event."""
        self.recorder.record(resource, reason, message)
        await self.writes.settle()
