"""Lookout between two ticks: arrivals that ask for more replicas make the next tick come early.

A tick measures and decides everything; the lookout asks each source for arrivals alone, five times an interval, and
compares them with what the last decision can carry. It decides nothing, and lowers nothing: where it is wrong a tick
came early for nothing, and the resource that it was for makes none come early for one interval.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from firsttoken_operator.domain import Decision, FleetSnapshot, Outcome, Target
from firsttoken_operator.observe.arriving import Arriving
from firsttoken_operator.observe.bounds import PodKey
from firsttoken_operator.observe.gateway import Backend
from firsttoken_operator.observe.store import Store

logger = logging.getLogger(__name__)

LOOKS_PER_TICK = 5
"""Every 3 s of the default of 15: about what a scrape of 5 s takes to show a step anyway."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Arrivals of one resource from which on a tick would raise it."""

    pods: tuple[PodKey, ...]
    backend: Backend
    raising_requests_per_second: float

    def is_exceeded(self, arriving: Arriving) -> bool:
        """Tell whether more arrive."""
        return arriving.of(self.pods, self.backend) > self.raising_requests_per_second


class Lookout:
    """Looks at the sources called `names`; `arriving` asks one. `clock` is monotonic seconds."""

    def __init__(
        self,
        names: Iterable[str],
        arriving: Callable[[str], Awaitable[Arriving]],
        tick_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names = tuple(names)
        self._arriving = arriving
        self._tick_seconds = tick_seconds
        self._clock = clock
        self._expected: dict[str, dict[str, Expected]] = {}
        """By source, then by uid of the resource."""
        self._rose: set[str] = set()
        self._muted: dict[str, float] = {}
        """Resources for which a tick came early for nothing, and until when they make none come early again."""
        self.rising = asyncio.Event()
        """Set where a tick is worth while before it is due."""

    def begin(self) -> None:
        """Take note that a tick begins: it answers what has been seen so far."""
        self.rising.clear()

    def expect(self, snapshot: FleetSnapshot, decisions: Iterable[Decision], store: Store) -> None:
        """Take note of what a tick decided."""
        decided, now = {decision.uid: decision for decision in decisions}, self._clock()
        self._muted = {uid: until for uid, until in self._muted.items() if now < until}
        raised = {uid for uid, decision in decided.items() if decision.outcome is Outcome.UP}
        self._muted |= dict.fromkeys(self._rose - raised, now + self._tick_seconds)
        self._rose.clear()
        self._expected = {}
        for resource in snapshot.resources:
            decision, stored, target = decided.get(resource.uid), store.resources.get(resource.uid), resource.target
            if decision is None or decision.raising_requests_per_second is None or not isinstance(target, Target):
                continue
            if stored is None or stored.parsed is None or resource.uid in self._muted:
                continue
            pods = tuple((pod.namespace, pod.name) for pod in store.pods_of(target.uid))
            backend = resource.namespace, target.name
            expected = Expected(pods, backend, decision.raising_requests_per_second)
            self._expected.setdefault(stored.parsed.spec.metrics.source, {})[resource.uid] = expected

    async def run(self, leads: Callable[[], bool]) -> None:
        """Look for ever, at each source by itself: one that is slow holds up no other."""
        # NB: without a source too, because the process ends with any part of it.
        await asyncio.gather(asyncio.Event().wait(), *(self._watch(name, leads) for name in self._names))

    async def look(self, name: str) -> None:
        """Look at one source once."""
        if not self._expected.get(name):
            return
        arriving = await self._arriving(name)
        # NB: asked for again, because a tick may have come meanwhile.
        rose = {uid for uid, expected in self._expected.get(name, {}).items() if expected.is_exceeded(arriving)}
        if rose:
            self._rose |= rose
            self.rising.set()

    async def _watch(self, name: str, leads: Callable[[], bool]) -> None:
        while True:
            await asyncio.sleep(self._tick_seconds / LOOKS_PER_TICK)
            if leads():
                try:
                    await self.look(name)
                except Exception:
                    # The next tick comes when it is due.
                    logger.exception("the lookout failed")
