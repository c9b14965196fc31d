"""Writes what a tick has to tell about one resource: its status where it changed, and the Events of the change."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from firsttoken_operator.act.changes import deeds, transitions
from firsttoken_operator.act.conditions import undecided
from firsttoken_operator.act.errors import ClusterError, NotFound, Withheld
from firsttoken_operator.act.events import EventRecorder
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.scorecard import Look, Scorecard, advance
from firsttoken_operator.act.scorecard_status import restored
from firsttoken_operator.act.status import Observed, document, is_change, read_status, status_of
from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.api.status import InferenceDeploymentStatus
from firsttoken_operator.decide import ForeignWrite, judge_undecided
from firsttoken_operator.domain import ResourceSnapshot

logger = logging.getLogger(__name__)

UNCONFIRMED_TICKS = 3
"""For so many ticks our own last status counts, while the watch has not shown it yet."""


class Publisher:
    """Statuses and Events of all resources."""

    def __init__(self, cluster: KubernetesCluster, recorder: EventRecorder) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._unconfirmed: dict[str, tuple[InferenceDeploymentStatus, int]] = {}
        self._failing: dict[str, str] = {}
        self.scorecards: dict[str, Scorecard] = {}
        """What was counted so far, by uid of the resource."""

    async def publish(self, shown: Mapping[str, Any], seen: Observed, foreign: ForeignWrite | None) -> None:
        """Write what changed. `shown` is the status that the watch shows. Never raises `ClusterError`."""
        resource = seen.resource
        previous = self._previous(resource.uid, shown)
        card = self._count(previous, Look(seen.now, resource, seen.decision, is_change(previous, seen)))
        current = status_of(previous, replace(seen, scorecard=card))
        happened = deeds(seen, foreign)
        if current != previous and await self._write(resource, current):
            # NB: only once the status says so: a transition that could not be written is one again in the next tick.
            happened += transitions(previous, current)
        for reason, message in happened:
            await self._recorder.record(resource, reason, message)

    async def publish_undecided(self, shown: Mapping[str, Any], resource: ResourceSnapshot, now: datetime) -> None:
        """Say on the resource that its decision failed: its condition Ready, and an Event. Never raises."""
        previous, judgement = self._previous(resource.uid, shown), judge_undecided()
        conditions = undecided(previous.conditions, judgement, resource.generation, now)
        current = previous.model_copy(update={"conditions": conditions})
        if current != previous:
            await self._write(resource, current)
        await self._recorder.record(resource, judgement.reason, judgement.message)
        # NB: last, because it reads what the decision read, which may make it fail too.
        self._count(previous, Look(now, resource, None))

    def _count(self, previous: InferenceDeploymentStatus, look: Look) -> Scorecard:
        """Add one tick to the scorecard; after a restart to the one that the status has."""
        uid = look.resource.uid
        card = self.scorecards.get(uid) or restored(previous, look.at)
        self.scorecards[uid] = advance(card, look)
        return self.scorecards[uid]

    async def _write(self, resource: ResourceSnapshot, status: InferenceDeploymentStatus) -> bool:
        ref = ObjectRef(API_VERSION, "InferenceDeployment", resource.namespace, resource.name)
        try:
            await self._cluster.replace_status(ref, document(status), uid=resource.uid)
        except (NotFound, Withheld):
            return False  # Deleted meanwhile: there is no object left to write to; or all writes are stopped.
        except ClusterError as error:
            if self._failing.get(resource.uid) != str(error):
                logger.warning("status not written: %s", error)
                self._failing[resource.uid] = str(error)
            return False
        self._failing.pop(resource.uid, None)
        self._unconfirmed[resource.uid] = (status, UNCONFIRMED_TICKS)
        return True

    def forget(self, uids: set[str]) -> None:
        """Drop what is known of all resources but these."""
        for known in (self._unconfirmed, self._failing, self.scorecards):
            for uid in known.keys() - uids:
                known.pop(uid)

    def _previous(self, uid: str, status: Mapping[str, Any]) -> InferenceDeploymentStatus:
        shown = read_status(InferenceDeploymentStatus, status)
        written, ticks = self._unconfirmed.get(uid, (shown, 0))
        if written == shown or ticks == 0:
            self._unconfirmed.pop(uid, None)
            return shown
        self._unconfirmed[uid] = (written, ticks - 1)
        return written
