"""Sleep mode of vLLM, emulated: the endpoints that it has in development mode, and the state that it publishes.

As in vLLM 0.32 (`entrypoints/serve/dev/sleep/api_router.py`, `v1/engine/core.py`, `v1/metrics/loggers.py`): `mode=wait`
answers what is under way first, `mode=abort` (the default) aborts it. What comes to a server that sleeps waits until it
is awake. Its health stays well, so nothing but the gauge, or `/is_sleeping`, tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum

from aiohttp import web

from firsttoken_lab.emulate.exposition import States

SLEEP_STATE = "vllm:engine_sleep_state"
LEVELS = 3
"""Levels of sleep: 0 only takes nothing up, 1 keeps the weights in the host's memory, 2 discards them."""


class SleepState(StrEnum):
    """Values of the gauge's label; at level 0 none of them is 1."""

    AWAKE = "awake"
    WEIGHTS_OFFLOADED = "weights_offloaded"
    DISCARD_ALL = "discard_all"


class SleepMode(StrEnum):
    """Way to deal with requests under way."""

    ABORT = "abort"
    WAIT = "wait"


class Sleeper:
    """One server that can sleep. `settle` ends, or waits for, the requests under way; True: wait for them."""

    def __init__(self, model_name: str, wake_up_seconds: float, settle: Callable[[bool], Awaitable[None]]) -> None:
        self._wake_up_seconds, self._settle = wake_up_seconds, settle
        self._awake = asyncio.Event()
        self._awake.set()
        self._turn = asyncio.Lock()
        self.gauge = States(
            SLEEP_STATE,
            "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake.",
            {"engine": "0", "model_name": model_name},
            "sleep_state",
            tuple(SleepState),
            SleepState.AWAKE,
        )

    @property
    def is_asleep(self) -> bool:
        """True while nothing is taken up."""
        return not self._awake.is_set()

    async def awake(self) -> None:
        """Wait until requests are taken up."""
        await self._awake.wait()

    def add_to(self, app: web.Application) -> None:
        """Serve the endpoints."""
        app.router.add_post("/sleep", self._sleep)
        app.router.add_post("/wake_up", self._wake_up)
        app.router.add_get("/is_sleeping", self._is_sleeping)

    async def _sleep(self, request: web.Request) -> web.Response:
        try:
            level = int(request.query.get("level", "1"))
            mode = SleepMode(request.query.get("mode", SleepMode.ABORT))
        except ValueError:
            level, mode = -1, SleepMode.ABORT
        if not 0 <= level < LEVELS:
            modes = " or ".join(SleepMode)
            raise web.HTTPUnprocessableEntity(text=f"level: an integer of 0 to {LEVELS - 1}; mode: {modes}\n")
        async with self._turn:
            self._awake.clear()
            await self._settle(mode is SleepMode.WAIT)
            self.gauge.state = ("", SleepState.WEIGHTS_OFFLOADED, SleepState.DISCARD_ALL)[level]
        return web.json_response({"status": "sleeping", "level": level})

    async def _wake_up(self, _request: web.Request) -> web.Response:
        async with self._turn:
            if self.is_asleep:
                await asyncio.sleep(self._wake_up_seconds)
            self.gauge.state = SleepState.AWAKE
            self._awake.set()
        return web.json_response({"status": "awake", "tags": None})

    async def _is_sleeping(self, _request: web.Request) -> web.Response:
        return web.json_response({"is_sleeping": self.is_asleep})
