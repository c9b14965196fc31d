"""Lets an engine run in real time: a stream of tokens, each available at the moment the engine computes and not before.

The fleet computes latencies without waiting; a real client has to wait, so here the virtual time is followed by
sleeping until the next step ends. How far behind that it wakes up is measured (`lateness`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable

from firsttoken_lab.emulate.truth import Lateness
from firsttoken_sizing.simulation.online import OnlineReplica
from firsttoken_sizing.simulation.online_requests import Request


class PacedEngine:
    """An engine driven by `clock` (seconds, monotonic). Run `drive` as a task beside the callers of `generate`."""

    def __init__(self, engine: OnlineReplica, clock: Callable[[], float]) -> None:
        """Take over `engine`; others advance it by `catch_up` and `submit` only."""
        self.engine = engine
        self.clock = clock
        self.lateness = Lateness()
        self._work = asyncio.Event()
        self._step = asyncio.Event()

    def catch_up(self) -> None:
        """Advance the engine to now (before its gauges are read)."""
        self.engine.advance(self.clock())

    def abort(self, requests: Iterable[Request]) -> None:
        """End these requests now; what they have so far stays theirs."""
        self.catch_up()
        for request in requests:
            self.engine.abort(request)
        self._step.set()
        self._step = asyncio.Event()

    async def drive(self) -> None:
        """Advance the engine at the end of every step, for ever."""
        while True:
            boundary = self.engine.next_event_seconds()
            if boundary is None:
                # NB: no `catch_up` here: on a machine that stalled it would run past the end of the request that came,
                # whose caller would not be woken, and whose lateness would not be booked.
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

    async def generate(self, request: Request) -> AsyncGenerator[int, None]:
        """Tokens of a request that the engine has: how many are new each time there are some, until its end.

        A caller that stops iterating (its client hung up) aborts the request.
        """
        self._work.set()
        sent = 0
        try:
            while True:
                # NB: asked anew after each yield: the engine goes on while the caller writes to its client.
                done = self.engine.tokens_generated(request)
                if done > sent:
                    yield done - sent
                    sent = done
                elif request.is_done:
                    return
                else:
                    await self._step.wait()
        finally:
            self.catch_up()
            self.engine.abort(request)
