"""The HTTP port of the operator: /metrics, /healthz and /readyz.

Healthy means that a restart would mend nothing: the event loop answers the probe, the tick under way gets further, and
every resource is decided on whenever the others are. A loop that turns while one resource silently drops out of it is
the failure that a plain "process is up" probe never shows. A tick that is only slow is no reason for a restart, which
would be slower still: its lag is a metric, and an alert.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

TICKS_ALLOWED = 4
"""Intervals without any progress, and ticks that fail one after the other."""
LEAST_ALLOWED_SECONDS = 60.0
"""More than the deadlines of all that a tick waits for, one after the other: where a Prometheus and an API server hang
at once, a tick ends late, and that is no reason for a restart."""
DECISION_TICKS_ALLOWED = 3
"""Ticks in a row that may leave a resource undecided."""
SYNC_ALLOWED_SECONDS = 300.0
"""Time that a start may take without getting any further: another process has new connections and credentials."""


@dataclass(slots=True)
class Heartbeats:
    """Signs of life of the loop and of each of its resources, in seconds of the loop's clock and in ticks."""

    tick_seconds: float
    progress_seconds: float
    """Time at which the process began, its start last got further (caches that fill, an API server that answers), or a
    tick did."""
    synced: bool = False
    """Every watch has delivered its first list."""
    awaited: str = "the API server"
    """Names of what the start lacks, in words."""
    has_ticked: bool = False
    """A tick was completed."""
    failures: int = 0
    """Ticks that failed since the last one that was completed."""
    undecided_ticks: dict[str, int] = field(default_factory=dict)
    """Per resource (namespace/name): ticks that began since its last decision, or since it was first seen."""

    @property
    def allowed_seconds(self) -> float:
        """Time from one step of a tick to the next, the wait between two ticks included."""
        return max(TICKS_ALLOWED * self.tick_seconds, LEAST_ALLOWED_SECONDS)

    def step(self, now_seconds: float) -> None:
        """Note that a tick got further."""
        self.progress_seconds = now_seconds

    def begin(self, resources: set[str], now_seconds: float) -> None:
        """Note that a tick begins, which is to decide on these."""
        self.undecided_ticks = {name: self.undecided_ticks.get(name, 0) + 1 for name in resources}
        self.step(now_seconds)

    def decided(self, name: str) -> None:
        """Note that a resource was decided on."""
        self.undecided_ticks[name] = 0

    def completed(self, now_seconds: float) -> None:
        """Note that a tick is over."""
        self.has_ticked, self.failures = True, 0
        self.step(now_seconds)

    def note(self, awaited: str, now_seconds: float) -> None:
        """Note that the start got further, and what it lacks now."""
        self.awaited, self.progress_seconds = awaited, now_seconds

    def problem(self, now_seconds: float) -> str:
        """Say why the process should be restarted; empty: it is fine."""
        still_seconds = now_seconds - self.progress_seconds
        if not self.synced:
            stuck = still_seconds > SYNC_ALLOWED_SECONDS
            return f"the start gets no further: {self.awaited} for {still_seconds:.0f} s" if stuck else ""
        if still_seconds > self.allowed_seconds:
            return f"the tick gets no further for {still_seconds:.0f} s"
        if self.failures >= TICKS_ALLOWED:
            return f"{self.failures} ticks failed one after the other"
        late = [name for name, ticks in self.undecided_ticks.items() if ticks > DECISION_TICKS_ALLOWED]
        return f"no decision for {len(late)} resources, first {min(late)}" if late else ""

    def not_ready(self) -> str:
        """Say why the process is not ready; empty: it is."""
        if not self.synced:
            return f"starting: {self.awaited}"
        return "" if self.has_ticked else "no complete tick yet"


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
