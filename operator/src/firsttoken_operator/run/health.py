"""The HTTP port of the operator: /metrics, /healthz and /readyz.

Healthy means that the loop is alive *and* that every active resource was decided on recently: a loop that turns
while one resource silently drops out of it is the failure that a plain "process is up" probe never shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

TICKS_ALLOWED = 4
LEAST_ALLOWED_SECONDS = 60.0
"""More than the deadlines of all that a tick waits for, one after the other: where a Prometheus and an API server hang
at once, a tick ends late, and that is no reason for a restart."""
DECISION_TICKS_ALLOWED = 3
LEAST_DECISION_SECONDS = 45.0
"""The same of a decision, which waits for no write of its own tick."""
SYNC_ALLOWED_SECONDS = 300.0
"""Time that a start may take without getting any further: another process has new connections and credentials."""


@dataclass(slots=True)
class Heartbeats:
    """Times at which the loop and each of its resources were last seen alive, in seconds of the loop's clock."""

    tick_seconds: float
    progress_seconds: float
    """Time at which the process began, or its start last got further: caches that fill, an API server that answers."""
    synced: bool = False
    """Every watch has delivered its first list."""
    awaited: str = "the API server"
    """Names of what the start lacks, in words."""
    last_tick_seconds: float | None = None
    """End of the last complete tick."""
    due_since: dict[str, float] = field(default_factory=dict)
    """Per resource (namespace/name): its last decision, or when it was first seen."""

    @property
    def allowed_seconds(self) -> float:
        """Time from the end of one tick to the end of the next."""
        return max(TICKS_ALLOWED * self.tick_seconds, LEAST_ALLOWED_SECONDS)

    @property
    def decision_allowed_seconds(self) -> float:
        """Time from one decision on a resource to the next."""
        return max(DECISION_TICKS_ALLOWED * self.tick_seconds, LEAST_DECISION_SECONDS)

    def note(self, awaited: str, now_seconds: float) -> None:
        """Note that the start got further, and what it lacks now."""
        self.awaited, self.progress_seconds = awaited, now_seconds

    def problem(self, now_seconds: float) -> str:
        """Say why the process should be restarted; empty: it is fine."""
        allowed = self.allowed_seconds
        if self.last_tick_seconds is not None and now_seconds - self.last_tick_seconds > allowed:
            return f"no complete tick for {now_seconds - self.last_tick_seconds:.0f} s"
        still_seconds = now_seconds - self.progress_seconds
        if not self.synced and still_seconds > SYNC_ALLOWED_SECONDS:
            return f"the start gets no further: {self.awaited} for {still_seconds:.0f} s"
        oldest = now_seconds - self.decision_allowed_seconds
        late = [name for name, at in self.due_since.items() if at < oldest]
        return f"no decision for {len(late)} resources, first {min(late)}" if late else ""

    def not_ready(self) -> str:
        """Say why the process is not ready; empty: it is."""
        if not self.synced:
            return f"starting: {self.awaited}"
        return "" if self.last_tick_seconds is not None else "no complete tick yet"


class HealthServer:
    """Serves the three paths on one port. `start` it before kopf: kopf cancels every task that is younger than it.

    `role`: what /readyz says where the process is ready, as one that stands by is too.
    """

    def __init__(
        self,
        heartbeats: Heartbeats,
        metrics: Callable[[], bytes],
        clock: Callable[[], float],
        role: Callable[[], str] = lambda: "ok",
    ) -> None:
        self._heartbeats = heartbeats
        self._metrics = metrics
        self._clock = clock
        self._role = role
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port (a free one was chosen where `port` is 0). Raises OSError where it is taken."""
        app = web.Application()
        app.add_routes([
            web.get("/metrics", self._get_metrics),
            web.get("/healthz", self._get_healthz),
            web.get("/readyz", self._get_readyz),
        ])  # fmt: skip
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close the port."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _get_metrics(self, _: web.Request) -> web.Response:
        # NB: in a thread: a megabyte of text for each thousand resources, while probes have to be answered.
        return web.Response(body=await asyncio.to_thread(self._metrics), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _get_healthz(self, _: web.Request) -> web.Response:
        return _answer(self._heartbeats.problem(self._clock()))

    async def _get_readyz(self, _: web.Request) -> web.Response:
        return _answer(self._heartbeats.not_ready(), self._role())


def _answer(problem: str, fine: str = "ok") -> web.Response:
    return web.Response(status=503 if problem else 200, text=(problem or fine) + "\n")
