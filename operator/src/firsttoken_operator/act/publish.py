"""Publication of a tick about one resource: its status where it changed, and the Events of the change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from firsttoken_operator.act.backlog import Key, Priority
from firsttoken_operator.act.changes import deeds, transitions
from firsttoken_operator.act.conditions import undecided
from firsttoken_operator.act.errors import Rejected
from firsttoken_operator.act.events import EventRecorder
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.scorecard import Look, Scorecard, advance
from firsttoken_operator.act.scorecard_status import restored
from firsttoken_operator.act.status import Observed, document, is_change, is_unsized_yet, says_the_same, status_of
from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.api.status import InferenceDeploymentStatus
from firsttoken_operator.decide import ForeignWrite, judge_undecided, judge_untold
from firsttoken_operator.domain import ResourceSnapshot

INVALID = 422
UNCONFIRMED_TICKS = 3
"""Ticks for which our own last status counts, while the watch has not shown it yet."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """A status that is to be written in place of `written`, which the server has."""

    resource: ResourceSnapshot
    written: InferenceDeploymentStatus
    status: InferenceDeploymentStatus
    now: datetime


class Publisher:
    """Statuses and Events of all resources. A status that is not written yet is the one that the next is made from."""

    def __init__(self, cluster: KubernetesCluster, recorder: EventRecorder, writes: WriteQueue) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._writes = writes
        self._pending: dict[str, _Pending] = {}
        self._unconfirmed: dict[str, tuple[InferenceDeploymentStatus, int]] = {}
        self._met: set[str] = set()
        """Resources that waited for their first size when they were first seen."""
        self.scorecards: dict[str, Scorecard] = {}
        """Counts so far, by uid of the resource."""
        self.statuses: dict[str, InferenceDeploymentStatus] = {}
        """Status that was last made of each, written or not."""

    def publish(self, shown: InferenceDeploymentStatus, seen: Observed, foreign: ForeignWrite | None) -> None:
        """Let what changed be written. `shown` is the status that the watch shows."""
        resource = seen.resource
        written = self._written(resource.uid, shown)
        previous = self._last(resource.uid, written)
        card = self._count(previous, Look(seen.now, resource, seen.decision, is_change(previous, seen)))
        status = status_of(previous, replace(seen, scorecard=card))
        if previous.conditions or not is_unsized_yet(resource) or resource.uid in self._met:
            self._want(resource, written, status, seen.now)
        else:
            # NB: its size is there in a moment, and a tick with it: a fleet that is declared is told once, not twice.
            self.statuses[resource.uid] = status
            self._met.add(resource.uid)
        for reason, message in deeds(seen, foreign):
            self._recorder.record(resource, reason, message)

    def publish_undecided(self, shown: InferenceDeploymentStatus, resource: ResourceSnapshot, now: datetime) -> None:
        """Say on the resource that its decision failed: its condition Ready, and an Event."""
        written, judgement = self._written(resource.uid, shown), judge_undecided()
        previous = self._last(resource.uid, written)
        conditions = undecided(previous.conditions, judgement, resource.generation, now)
        self._want(resource, written, previous.model_copy(update={"conditions": conditions}), now)
        self._recorder.record(resource, judgement.reason, judgement.message)
        # NB: last, because it reads what the decision read, which may make it fail too.
        self._count(previous, Look(now, resource, None))

    def _count(self, previous: InferenceDeploymentStatus, look: Look) -> Scorecard:
        """Add one tick to the scorecard; after a restart to the one that the status has."""
        uid = look.resource.uid
        card = self.scorecards.get(uid) or restored(previous, look.at)
        self.scorecards[uid] = advance(card, look)
        return self.scorecards[uid]

    def _last(self, uid: str, written: InferenceDeploymentStatus) -> InferenceDeploymentStatus:
        """The status that was made last, written or not."""
        pending = self._pending.get(uid)
        return written if pending is None else pending.status

    def _want(
        self,
        resource: ResourceSnapshot,
        written: InferenceDeploymentStatus,
        status: InferenceDeploymentStatus,
        now: datetime,
    ) -> None:
        # NB: one object of two that are equal: a status is most of what a resource takes in memory.
        self.statuses[resource.uid] = written if status == written else status
        if status == written:
            self._pending.pop(resource.uid, None)
        else:
            self._pending[resource.uid] = _Pending(resource, written, status, now)
            priority = Priority.FIGURES if says_the_same(written, status) else Priority.STATUS
            self._writes.put(Key(resource.uid, "status"), priority, lambda: self._write(resource.uid))

    async def _write(self, uid: str) -> None:
        """Write the newest status, and then the Events of what changed in it."""
        pending = self._pending.get(uid)
        if pending is None:
            return
        resource, status = pending.resource, pending.status
        ref = ObjectRef(API_VERSION, "InferenceDeployment", resource.namespace, resource.name)
        try:
            await self._cluster.replace_status(ref, document(status), uid=uid)
        except Rejected as error:
            if error.status == INVALID:
                await self._say_untold(ref, pending, str(error))
            raise
        self._took(pending, status)

    async def _say_untold(self, ref: ObjectRef, pending: _Pending, message: str) -> None:
        """Say that the server refuses a status, in the conditions of the one that it has."""
        resource = pending.resource
        said = undecided(pending.status.conditions, judge_untold(message), resource.generation, pending.now)
        status = pending.written.model_copy(update={"conditions": said})
        if status != pending.written:
            self._writes.charge(1)
            await self._cluster.replace_status(ref, document(status), uid=resource.uid)
            self._took(pending, status)

    def _took(self, pending: _Pending, status: InferenceDeploymentStatus) -> None:
        uid = pending.resource.uid
        self._unconfirmed[uid] = (status, UNCONFIRMED_TICKS)
        newest = self._pending.get(uid)
        if newest is not None and newest.status == status:
            del self._pending[uid]
        elif newest is not None:
            self._pending[uid] = replace(newest, written=status)
        # NB: only once the status says so: a transition that could not be written is still one.
        for reason, message in transitions(pending.written, status):
            self._recorder.record(pending.resource, reason, message)

    def forget(self, uids: set[str]) -> None:
        """Drop what is known of all resources but these."""
        for known in (self._pending, self._unconfirmed, self.scorecards, self.statuses):
            for uid in known.keys() - uids:
                known.pop(uid)
        self._met &= uids
        self._recorder.forget(uids)

    def _written(self, uid: str, shown: InferenceDeploymentStatus) -> InferenceDeploymentStatus:
        """Find the status that the server has: our own last one, where the watch has not shown it yet."""
        written, ticks = self._unconfirmed.get(uid, (shown, 0))
        if written == shown or ticks == 0:
            self._unconfirmed.pop(uid, None)
            return shown
        self._unconfirmed[uid] = (written, ticks - 1)
        return written
