"""The HTTP side of an emulated fleet: a metrics page for each pod, service discovery, the live score.

One server stands for all pods (`/pods/<namespace>/<pod>/metrics`), and Prometheus finds them through `/sd`, one target
group a pod with the labels that a real cluster's discovery would give. As there, a pod is listed from the moment it has
an address, and its page fails until the pod is ready: Prometheus takes up to 7.5 s to act on a changed list, and a pod
that was listed before is scraped from its readiness on. The page of a replica that is a real server is that server's,
to which a scrape is sent on. The control endpoints change the load, break the scraping and
have the pages lie on purpose; they exist only where the caller asked for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from enum import StrEnum
from typing import Any

from aiohttp import web

from firsttoken_lab.emulate.exposition import CONTENT_TYPE
from firsttoken_lab.emulate.fleet import Fleet
from firsttoken_lab.emulate.traffic import PoissonTraffic

HANG_SECONDS = 3600.0


class ScrapeMode(StrEnum):
    """Behavior of the metrics pages."""

    OK = "ok"
    STOP = "stop"
    HANG = "hang"
    ZEROS = "zeros"
    """Every value is 0."""
    ABSURD = "absurd"
    """Every counter is a thousand times too large; gauges tell the truth."""

    def told(self, page: bytes) -> bytes:
        """The page as it is shown."""
        if self is ScrapeMode.ZEROS:
            return _VALUE.sub(rb"\1 0", page)
        if self is ScrapeMode.ABSURD:
            return _COUNTER.sub(lambda found: found[1] + b" %r" % (1000 * float(found[2])), page)
        return page


_VALUE = re.compile(rb"^([^#\n].*) (\S+)$", re.MULTILINE)
_COUNTER = re.compile(rb"^([^#\n{]*(?:_total|_bucket|_sum|_count)(?:{.*})?) (\S+)$", re.MULTILINE)


class FleetEndpoints:
    """Handlers over one fleet."""

    def __init__(self, fleet: Fleet, *, allow_control: bool = False) -> None:
        """`allow_control` adds `/load` and `/fault`; keep such a server on a loopback address."""
        self._fleet = fleet
        self._allow_control = allow_control
        self._scrape = ScrapeMode.OK
        self._stopping = asyncio.Event()

    def application(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application()
        app.router.add_get("/pods/{namespace}/{pod}/metrics", self._metrics)
        app.router.add_get("/sd", self._discovery)
        app.router.add_get("/stats", self._stats)
        app.router.add_get("/truth", self._truth)
        if self._allow_control:
            app.router.add_post("/load", self._load)
            app.router.add_post("/fault", self._fault)
        app.on_shutdown.append(self._stop)
        return app

    async def _stop(self, _app: web.Application) -> None:
        self._stopping.set()

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        if self._scrape is ScrapeMode.HANG:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), HANG_SECONDS)
        if self._scrape in (ScrapeMode.STOP, ScrapeMode.HANG):
            raise web.HTTPServiceUnavailable(text="scraping is broken on purpose\n")
        key = (request.match_info["namespace"], request.match_info["pod"])
        self._fleet.advance()
        replica = self._fleet.replicas.get(key)
        if replica is None and key in self._fleet.targets:
            # A real engine does not listen yet while it loads its model; for Prometheus both are `up == 0`.
            raise web.HTTPServiceUnavailable(text=f"pod {key[0]}/{key[1]} is not ready yet\n")
        if replica is None:
            raise web.HTTPNotFound(text=f"no pod {key[0]}/{key[1]}\n")
        if replica.real is not None:
            raise web.HTTPTemporaryRedirect(replica.real.metrics_url)
        return web.Response(body=self._scrape.told(replica.metrics.page()), headers={"Content-Type": CONTENT_TYPE})

    async def _discovery(self, request: web.Request) -> web.Response:
        # NB: still answered while scraping is broken: targets that are there but down are the harder case.
        groups = [
            {
                "targets": [request.host],
                "labels": {
                    "namespace": namespace,
                    "pod": pod,
                    "__metrics_path__": f"/pods/{namespace}/{pod}/metrics",
                },
            }
            for namespace, pod in self._fleet.targets
        ]
        return web.json_response(groups)

    async def _stats(self, _request: web.Request) -> web.Response:
        return web.json_response(self._fleet.stats())

    async def _truth(self, _request: web.Request) -> web.Response:
        self._fleet.advance()
        return web.Response(text="".join(self._fleet.export()), content_type="application/x-ndjson")

    async def _load(self, request: web.Request) -> web.Response:
        rate = (await self._object(request)).get("requestsPerSecond")
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not rate >= 0:
            raise web.HTTPBadRequest(text='requestsPerSecond: send {"requestsPerSecond": <number >= 0>}\n')
        if not isinstance(self._fleet.traffic, PoissonTraffic):
            raise web.HTTPConflict(text="the load follows a trace; run without --trace to change it\n")
        self._fleet.advance()
        self._fleet.traffic.change_rate(self._fleet.traffic_seconds, float(rate))
        return web.json_response({"requestsPerSecond": rate})

    async def _fault(self, request: web.Request) -> web.Response:
        scrape = (await self._object(request)).get("scrape")
        try:
            self._scrape = ScrapeMode(str(scrape))
        except ValueError:
            choices = ", ".join(ScrapeMode)
            raise web.HTTPBadRequest(text=f"scrape: unknown value {scrape!r}; use one of {choices}\n") from None
        return web.json_response({"scrape": self._scrape})

    @staticmethod
    async def _object(request: web.Request) -> dict[str, Any]:
        try:
            body = await request.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise web.HTTPBadRequest(text="body: not a JSON object\n")
        return body
