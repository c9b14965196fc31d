"""The loop: one tick for all resources, on a schedule. Observe, decide, act, tell; each part is somewhere else.

A tick never overlaps with the next one: where it takes longer than its interval, the ticks that were missed are left
out and the lag is a metric. One comes early where the lookout saw arrivals that ask for more replicas, or sizes came.
What goes wrong with one resource stays with that resource.

An operator that stands by does all of this but act and tell, so that it can go on at once where the leader ends.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from firsttoken_operator.act.events import EventRecorder
from firsttoken_operator.act.pool_status import PoolPublisher
from firsttoken_operator.act.publish import Publisher
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.scale import ScaleResult, ScaleWriter, Write
from firsttoken_operator.act.status import Answer, Observed
from firsttoken_operator.decide import ForeignWrite, Memory, Ownership, adopting, judge_facts, judge_owners, wrote
from firsttoken_operator.domain import Decision, FleetSnapshot, ResourceSnapshot, Target
from firsttoken_operator.observe.snapshot import build_snapshot
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run import sizing_store
from firsttoken_operator.run.health import Heartbeats
from firsttoken_operator.run.history import Histories
from firsttoken_operator.run.isolation import Decided, decide_isolated
from firsttoken_operator.run.lookout import Lookout
from firsttoken_operator.run.measuring import Measuring
from firsttoken_operator.run.metrics import OperatorMetrics
from firsttoken_operator.run.rendering import Rendered
from firsttoken_operator.run.restore import Restoring
from firsttoken_operator.run.settings import Settings
from firsttoken_operator.run.sizer import Sizer
from firsttoken_operator.run.victims import Victims, marked

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Interval of looks between two ticks whether this process leads by now."""
LEAST_INTERVAL_SHARE = 1 / 3
"""Share of the interval that is between two ticks in any case."""
LEAST_REST = 2.0
"""Multiple of a tick's CPU time, after which the next one may begin early: such ticks take at most half of a core."""


async def _is_caught_up() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts that the loop drives. `leads`: whether this process may write; `catch_up`: asked once before it does.

    `rendered` is None where nothing is, `victims` where Kubernetes chooses the pods that end.
    """

    store: Store
    writes: WriteQueue
    measuring: Measuring
    histories: Histories
    sizer: Sizer
    writer: ScaleWriter
    publisher: Publisher
    recorder: EventRecorder
    pools: PoolPublisher
    metrics: OperatorMetrics
    heartbeats: Heartbeats
    lookout: Lookout
    rendered: Rendered | None
    victims: Victims | None = None
    leads: Callable[[], bool] = lambda: True
    catch_up: Callable[[], Awaitable[bool]] = _is_caught_up


_Sent = asyncio.Task[None]


@dataclass(frozen=True, slots=True)
class _Tick:
    """Values that all resources of one tick share."""

    answers: Mapping[str, Answer]
    foreign: Mapping[str, ForeignWrite]
    now: datetime


class Loop:
    """Ticks until it is stopped. `clock` is monotonic seconds, `wall` seconds since the epoch."""

    def __init__(
        self,
        settings: Settings,
        parts: Parts,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._timing = settings.timing
        self._parts = parts
        self._clock = clock
        self._wall = wall
        self._memory = Memory()
        self._restoring = Restoring()
        self._ownerships: dict[str, Ownership] = {}
        self._earliest_seconds = -math.inf
        """Time before which no tick comes early."""
        self._publishing, self._led = asyncio.Lock(), False
        """True once this process has decided as the leader: from then on no other one of ours writes."""

    async def run(self, stop: asyncio.Event) -> None:
        """Tick on schedule until `stop` is set; the tick under way, and what it has to write, is finished first."""
        due = self._clock()
        while not stop.is_set():
            self._parts.metrics.event_loop_lag.set(max(0.0, self._clock() - due))
            led = self._parts.leads()
            try:
                await self.tick(due)
            except Exception:
                # The next tick starts from what the cluster then looks like; health tells if none ever completes.
                logger.exception("the tick failed")
                self._parts.heartbeats.failures += 1
            interval = self._timing.tick_seconds
            missed = int((self._clock() - due) // interval)
            due = await self._next_due(due + (missed + 1) * interval, stop, led=led)
        await self._parts.writes.settle()

    async def _next_due(self, due: float, stop: asyncio.Event, *, led: bool) -> float:
        """Wait for the next tick, which is due then at the latest; the time at which it is."""
        earliest = self._earliest_seconds
        rising = self._parts.lookout.rising
        while (now := self._clock()) < due and not stop.is_set():
            if self._parts.leads() and not led:
                return now  # Taken over: what the last leader left is decided now.
            if rising.is_set() and now >= earliest:
                self._parts.metrics.early_ticks.inc()
                return now
            wait = min(due - now, LOOK_SECONDS, *([earliest - now] if now < earliest else []))
            waiting = [asyncio.ensure_future(stop.wait())]
            waiting += [asyncio.ensure_future(rising.wait())] if now >= earliest else []
            await asyncio.wait(waiting, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            for each in waiting:
                each.cancel()
        return due

    async def tick(self, due_seconds: float) -> tuple[Decision, ...]:
        """One whole cycle; returns what was decided."""
        parts, leads = self._parts, self._parts.leads()
        if leads and not self._led:
            # NB: a pool has one ledger: what another process gave of it must be in the caches before this one gives.
            leads = await parts.catch_up()
        began, cpu_before = self._clock(), time.process_time()
        parts.lookout.begin()
        self._note_resources()
        answers = await parts.sizer.answers(
            list(parts.store.resources.values()),
            list(parts.store.pools.values()),
            list(parts.store.profiles.values()),
            parts.store.tenancy,
        )
        parts.heartbeats.step(self._clock())
        wall = self._wall()
        measured = await parts.measuring.metrics(parts.store, wall)
        parts.heartbeats.step(self._clock())
        sized = {uid: answer.sized for uid, answer in answers.items()}
        seen = build_snapshot(
            parts.store, measured, sized, self._timing, now_seconds=self._clock(), wall_seconds=self._wall()
        )
        may_write = not (self._settings.advisory or parts.writer.withheld)
        told = self._explained(seen, answers)
        snapshot = judge_facts(told, time_scale=self._timing.scale, may_write=may_write)
        known = self._ownerships if self._led else adopting(self._ownerships)
        owned = judge_owners(snapshot, known, self._timing.foreign_write_window_seconds)
        snapshot, self._ownerships = owned.snapshot, dict(owned.ownerships)
        memory = self._restoring.seeded(self._memory, snapshot, parts.store, wall)
        memory = parts.histories.seeded(memory, snapshot, parts.store)
        # NB: in a thread, so that watches, health and metrics are served while a large fleet is decided.
        decided = await asyncio.to_thread(decide_isolated, snapshot, memory)
        self._memory, cpu_seconds = decided.memory, time.process_time() - cpu_before
        least_seconds = LEAST_INTERVAL_SHARE * self._timing.tick_seconds
        self._earliest_seconds = began + max(least_seconds, LEAST_REST * cpu_seconds)
        parts.lookout.expect(snapshot, decided.decisions, parts.store)
        self._note_decided(snapshot)
        parts.metrics.lag.observe(max(0.0, self._clock() - due_seconds))
        if leads:
            self._led = True
            await self._act(snapshot, decided, _Tick(answers, owned.foreign, datetime.fromtimestamp(wall, UTC)))
        self._tell_metrics(snapshot, decided, leads=leads)
        self._finish(snapshot, due_seconds)
        return decided.decisions

    def _note_resources(self) -> None:
        """Expect a decision for every resource from the tick at which it was first seen."""
        stored = self._parts.store.resources.values()
        keys = {f"{resource.namespace}/{resource.name}" for resource in stored if not resource.deleting}
        self._parts.heartbeats.begin(keys, self._clock())

    def _note_decided(self, snapshot: FleetSnapshot) -> None:
        """Note that each was decided. One on which the decision fails counts too.

        It says so itself and is an error in the metrics; a restart would not help it, and would stop all the others.
        """
        self._parts.heartbeats.step(self._clock())
        for resource in snapshot.resources:
            self._parts.heartbeats.decided(f"{resource.namespace}/{resource.name}")

    def _explained(self, snapshot: FleetSnapshot, answers: Mapping[str, Answer]) -> FleetSnapshot:
        """The snapshot, with which sizing is outdated and why a Deployment was not rendered."""
        resources = tuple(_dated(resource, answers.get(resource.uid)) for resource in snapshot.resources)
        if self._parts.rendered is not None:
            resources = tuple(self._parts.rendered.explain(resource) for resource in resources)
        return replace(snapshot, resources=resources)

    async def _act(self, snapshot: FleetSnapshot, decided: Decided, tick: _Tick) -> None:
        parts = self._parts
        resources = {resource.uid: resource for resource in snapshot.resources}
        for resource in decided.failed:
            self._tell_undecided(resource, tick.now)
        sent = asyncio.create_task(parts.writer.until_sent(), name="replicas before statuses")
        ordered = sorted(decided.decisions, key=self._written_seconds)
        carried_out = (self._carry_out(resources[d.uid], d, tick, sent) for d in ordered)
        # NB: waits for what a tick decides anew, replicas and rendered objects, and not for what is state: a status.
        await asyncio.gather(self._render(snapshot, decided), *carried_out, sent)
        if parts.writer.withheld:
            return
        try:
            shown = {pool.name: pool.status for pool in parts.store.pools.values()}
            parts.pools.publish(snapshot, decided.decisions, shown, tick.now)
        except Exception:
            logger.exception("the status of the pools failed")

    async def _render(self, snapshot: FleetSnapshot, decided: Decided) -> None:
        """Render what is due. Never raises."""
        parts = self._parts
        if parts.rendered is None or self._settings.advisory or parts.writer.withheld:
            return
        resources = {resource.uid: resource for resource in snapshot.resources}
        try:
            results = await parts.rendered.reconcile(snapshot, parts.store, decided.decisions)
            for uid, rendered in results.items():
                parts.recorder.record(resources[uid], rendered.reason, rendered.message)
        except Exception:
            logger.exception("rendering failed")

    async def _carry_out(self, resource: ResourceSnapshot, decision: Decision, tick: _Tick, sent: _Sent) -> None:
        """Everything that follows from one decision. Never raises: no resource may hold up another."""
        try:
            async with marked(self._parts.victims, decision, resource, self._parts.store):
                result = await self._parts.writer.execute(decision, resource, self._note_attempt)
                self._parts.heartbeats.step(self._clock())
                if decision.changes:
                    self._log(decision, result)
                if result.write is Write.DONE and result.replicas is not None:
                    self._note_write(resource.uid, result.replicas, confirmed=True)
                # NB: making a status takes as long as sending replicas, which others wait for.
                await asyncio.shield(sent)
                async with self._publishing:
                    self._publish(resource, decision, result, tick)
                    await asyncio.sleep(0)
        except Exception:
            logger.exception("carrying out a decision failed", extra={"fields": _fields(decision)})

    def _written_seconds(self, decision: Decision) -> float:
        """Time of our last write: where not all have their turn, it is not always the same ones that have none."""
        return self._ownerships.get(decision.uid, Ownership()).written_seconds

    def _note_attempt(self, decision: Decision) -> None:
        self._note_write(decision.uid, decision.to_replicas, confirmed=False)

    def _note_write(self, uid: str, replicas: int, *, confirmed: bool) -> None:
        known = self._ownerships.get(uid, Ownership())
        self._ownerships[uid] = wrote(known, replicas, self._clock(), confirmed=confirmed)

    def _tell_undecided(self, resource: ResourceSnapshot, now: datetime) -> None:
        """Show on the resource itself that it makes the decision fail. Never raises."""
        stored = self._parts.store.resources.get(resource.uid)
        if stored is None:
            return
        try:
            self._parts.publisher.publish_undecided(stored.status, resource, now)
        except Exception:
            logger.exception("telling of a failed decision failed")

    def _publish(self, resource: ResourceSnapshot, decision: Decision, result: ScaleResult, tick: _Tick) -> None:
        stored = self._parts.store.resources.get(resource.uid)
        if stored is None:
            return
        answer, target = tick.answers.get(resource.uid, Answer(resource.sized)), resource.target
        ready = self._parts.store.time_to_ready(target.uid) if isinstance(target, Target) else None
        percentiles = (ready.p50_seconds, ready.p90_seconds) if ready else None
        seen = Observed(resource, decision, result, answer, tick.now, percentiles)
        self._parts.publisher.publish(stored.status, seen, tick.foreign.get(resource.uid))

    def _tell_metrics(self, snapshot: FleetSnapshot, decided: Decided, *, leads: bool) -> None:
        """Publish what was decided, which is the leader's to say: an HPA that reads it must find one value."""
        metrics = self._parts.metrics
        if not leads:
            nothing = replace(snapshot, resources=(), pools={})
            metrics.record_tick(nothing, ())
            metrics.record_statuses(nothing, {})
            return
        metrics.record_tick(snapshot, decided.decisions)
        metrics.record_scorecards(snapshot, self._parts.publisher.scorecards)
        metrics.record_statuses(snapshot, self._parts.publisher.statuses)
        metrics.record_failures(len(decided.failed))

    def _finish(self, snapshot: FleetSnapshot, due_seconds: float) -> None:
        parts, now = self._parts, self._clock()
        parts.metrics.writes_paused.set(bool(parts.writer.withheld))
        parts.metrics.record_queries(parts.measuring.outcomes())
        parts.metrics.sizings_waiting.set(parts.sizer.waiting)
        parts.metrics.record_writes(parts.writes.outcomes, parts.writes.waiting())
        parts.metrics.cycle.observe(max(0.0, now - due_seconds))
        parts.metrics.last_tick.set(self._wall())
        uids = {resource.uid for resource in snapshot.resources}
        parts.publisher.forget(uids)
        parts.writes.keep_only(uids | {pool.uid for pool in snapshot.pools.values()} | {sizing_store.UID})
        parts.heartbeats.completed(now)

    def _log(self, decision: Decision, result: ScaleResult) -> None:
        level = logging.WARNING if result.write is Write.FAILED else logging.INFO
        text = result.message if result.write is not Write.DONE else decision.message
        fields = _fields(decision) | ({"withheld": result.reason} if result.write is Write.NONE else {})
        logger.log(level, "%s: %s", result.write, text, extra={"fields": fields})


def _dated(resource: ResourceSnapshot, answer: Answer | None) -> ResourceSnapshot:
    """Date it by the generation that was sized, if that is not the one seen: it may have changed within the tick."""
    if answer is None or not (answer.is_outdated or answer.generation != resource.generation):
        return resource
    return replace(resource, sized_generation=answer.generation)


def _fields(decision: Decision) -> dict[str, object]:
    return {
        "namespace": decision.namespace,
        "name": decision.name,
        "outcome": decision.outcome,
        "reason": decision.reason,
        "from": decision.from_replicas,
        "to": decision.to_replicas,
        "limitedBy": decision.limited_by,
    }
