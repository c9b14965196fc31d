"""Lets an engine run in real time: a stream of tokens, each available at the moment the engine computes and not before.

The fleet computes latencies without waiting; a real client has to wait, so here the virtual time is followed by
sleeping until the next step ends. How far behind that it wakes up is measured (`lateness`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from firsttoken_lab.emulate.engine import Engine, Sequence
from firsttoken_lab.emulate.truth import Lateness


class PacedEngine:
    """An engine driven by `clock` (seconds, monotonic). Run `drive` as a task beside the callers of `generate`."""

    def __init__(self, engine: Engine, clock: Callable[[], float]) -> None:
        """Take over `engine`: nobody else may advance it except through `catch_up`."""
        self.engine = engine
        self.clock = clock
        self.lateness = Lateness()
        self._work = asyncio.Event()
        self._step = asyncio.Event()

    def catch_up(self) -> None:
        """Advance the engine to now (before its gauges are read)."""
        self.engine.advance(self.clock())

    async def drive(self) -> None:
        """Advance the engine at the end of every step, for ever."""
        while True:
            boundary = self.engine.next_boundary_seconds()
            if boundary is None:
                # NB: no `catch_up` here: on a machine that stalled it would run past the end of the request that came,
                # whose caller nobody would wake, and whose lateness nobody would book.
                self._work.clear()
                await self._work.wait()
                continue
            await asyncio.sleep(max(0.0, boundary - self.clock()))
            self.catch_up()
            now = self.clock()
            if now >= boundary:
                self.lateness.add(now, [boundary])
            self._step.set()
            self._step = asyncio.Event()

    async def generate(self, sequence: Sequence) -> AsyncGenerator[int, None]:
        """Submit a request that arrives now; yields how many tokens are new each time there are some, until its end.

        A caller that stops iterating (its client hung up) aborts the request.

        Raises:
            RequestTooLarge: it would never fit into the KV cache.

        """
        self.engine.submit(sequence)
        self._work.set()
        sent = 0
        try:
            while True:
                # NB: asked anew after each yield: the engine goes on while the caller writes to its client.
                done = self.engine.tokens_generated(sequence)
                if done > sent:
                    yield done - sent
                    sent = done
                elif sequence.finished_seconds is not None:
                    return
                else:
                    await self._step.wait()
        finally:
            self.catch_up()
            self.engine.abort(sequence)
