"""Carries out a decision: the only place that writes replicas.

A decision was made on what the watches delivered, which may be seconds or (after an outage) minutes old. So the
resource is read live before a write, and the write carries the version of the target that the decision saw: nothing is
overwritten that it did not see, and it is never retried on other facts than the ones it was made on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from firsttoken_operator.act.backlog import Key, Priority
from firsttoken_operator.act.errors import ClusterError, Conflict, NotFound, Rejected, Unavailable, Withheld
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef, Scale
from firsttoken_operator.act.live import LiveResources
from firsttoken_operator.act.preconditions import changed_since, live_mode
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.domain import Decision, FailedWrite, Reason, ResourceSnapshot, ScalingMode, Target

MAX_ATTEMPTS = 3
PAUSE_SECONDS = 0.2
REQUESTS = 2
"""Requests of one write: the resource is read, then the target is written."""
KIND = "scale"
"""Kind of these writes in the queue."""


class Write(StrEnum):
    """Outcome of a decision."""

    NONE = "none"
    """Nothing to write: the decision keeps the replicas, or the mode forbids writing."""
    DONE = "done"
    """The target has the replicas decided (written now, or found so after a lost answer)."""
    REDECIDE = "redecide"
    """The world changed since the decision; nothing was written, the next tick decides anew."""
    FAILED = "failed"
    """The server did not accept it; nothing is known to have changed, the next tick tries again."""


@dataclass(frozen=True, slots=True)
class ScaleResult:
    """Result of one decision, why in one sentence, and the replicas last read (None: not read)."""

    write: Write
    reason: Reason | None = None
    message: str = ""
    replicas: int | None = None

    @property
    def failed(self) -> FailedWrite | None:
        """The failure, where it is one."""
        if self.write is not Write.FAILED or self.reason is None:
            return None
        return FailedWrite(self.reason, self.message)


class ScaleWriter:
    """Writes the replicas of targets, before anything else that is to be written."""

    def __init__(self, cluster: KubernetesCluster, writes: WriteQueue, namespaces: Sequence[str] = ("",)) -> None:
        self._cluster = cluster
        self._writes = writes
        self._live = LiveResources(cluster, lambda: writes.waiting()[KIND], namespaces)

    def close(self) -> None:
        """Give up what is read for writes that are no longer waited for."""
        self._live.close()

    @property
    def withheld(self) -> str:
        """Reason that nothing is written now; empty: decisions are carried out."""
        return self._cluster.withheld

    async def until_sent(self) -> None:
        """Return when the replicas of all decisions that are being carried out are on their way."""
        await asyncio.sleep(0)  # Until each of them has put what it has to write.
        await self._writes.until_sent(Priority.SCALE)

    async def execute(
        self, decision: Decision, resource: ResourceSnapshot, before_write: Callable[[Decision], None] = lambda _: None
    ) -> ScaleResult:
        """Write `decision.to_replicas` where that is a change that the live resource still allows.

        `before_write` is told right before each attempt is sent: its answer may be lost. Never raises `ClusterError`:
        an outcome is a value.
        """
        if not decision.changes:
            return ScaleResult(Write.NONE)
        if self.withheld:
            return ScaleResult(Write.NONE, Reason.WRITES_PAUSED, self.withheld)
        if (mode := resource.policy.mode) is not ScalingMode.ACTIVE:
            return ScaleResult(Write.NONE, Reason(mode.value), f"scaling.mode is {mode}")
        if not isinstance(resource.target, Target) or resource.conflict:
            return ScaleResult(Write.REDECIDE, Reason.CONFLICT, resource.conflict or "there is no target")
        target = resource.target
        try:
            return await self._writes.run(
                # NB: who may not have fewer replicas may have more: one direction is not put off for the other.
                Key(resource.uid, KIND, "up" if decision.to_replicas > decision.from_replicas else "down"),
                Priority.SCALE,
                lambda: self._write(decision, resource, target, before_write), REQUESTS,
            )  # fmt: skip
        except NotFound as error:
            return ScaleResult(Write.REDECIDE, Reason.TARGET_NOT_FOUND, str(error))
        except Withheld as error:
            return ScaleResult(Write.NONE, Reason.WRITES_PAUSED, str(error))
        except Rejected as error:
            return ScaleResult(Write.FAILED, Reason.WRITE_DENIED, str(error))
        except ClusterError as error:
            return ScaleResult(Write.FAILED, Reason.WRITE_FAILED, str(error))

    async def _write(
        self, decision: Decision, resource: ResourceSnapshot, target: Target, before_write: Callable[[Decision], None]
    ) -> ScaleResult:
        kind = target.kind
        target_ref = ObjectRef(kind.api_version, kind.kind, decision.namespace, target.name, kind.plural)
        for attempt in range(MAX_ATTEMPTS):
            if attempt:
                self._writes.charge(REQUESTS + 1)
                # A controller that tells of new pods writes several times in a row.
                await asyncio.sleep(PAUSE_SECONDS)
            seen = Scale(target.uid, target.resource_version, target.replicas)
            # At once: a server that takes 5 s for each answer leaves time for two in a row before the deadline.
            live, scale = await asyncio.gather(
                self._live.read(decision.namespace, decision.name),
                self._cluster.read_scale(target_ref, kind) if attempt or not seen.resource_version else _known(seen),
            )
            changed = changed_since(live, resource.uid, resource.generation)
            if changed:
                return ScaleResult(Write.REDECIDE, Reason.WRITE_CONFLICT, changed)
            # NB: metadata alone is of the generation that was decided on, and so is its mode.
            if "spec" in live and (mode := live_mode(live)) is not ScalingMode.ACTIVE:
                return ScaleResult(Write.NONE, Reason(mode.value), f"scaling.mode is {mode} now")
            early = _already_settled(scale, decision, target)
            if early is not None:
                return early
            before_write(decision)
            try:
                written = await self._cluster.patch_scale(
                    target_ref, decision.to_replicas, uid=scale.uid, resource_version=scale.resource_version, kind=kind
                )
            except Conflict:
                # The target's status changes all the time (pods becoming ready), which is a conflict as well. Reading
                # again tells that apart from a rival: repeat only while the replicas are what the decision saw.
                continue
            if written.replicas != decision.to_replicas:
                raise Unavailable(f"the server took {decision.to_replicas} replicas but shows {written.replicas}")
            return ScaleResult(Write.DONE, decision.reason, decision.message, written.replicas)
        text = f"{MAX_ATTEMPTS} writes in a row met a newer {kind.kind} {target.name}"
        return ScaleResult(Write.REDECIDE, Reason.WRITE_CONFLICT, text)


async def _known(scale: Scale) -> Scale:
    return scale


def _already_settled(scale: Scale, decision: Decision, target: Target) -> ScaleResult | None:
    """Settle from the live scale alone, before any write; None: it is what the decision was made on."""
    if scale.uid != target.uid:
        text = f"{target.kind.kind} {target.name} was deleted and recreated"
        return ScaleResult(Write.REDECIDE, Reason.WRITE_CONFLICT, text, scale.replicas)
    if scale.replicas == decision.to_replicas:
        # An earlier write was applied and its answer lost: the decision is already true.
        return ScaleResult(Write.DONE, decision.reason, decision.message, scale.replicas)
    if scale.replicas != decision.from_replicas:
        text = f"{target.kind.kind} {target.name} has {scale.replicas} replicas, decided on {decision.from_replicas}"
        return ScaleResult(Write.REDECIDE, Reason.WRITE_CONFLICT, text, scale.replicas)
    return None
