"""Runs an emulated fleet against a cluster: wires the pods, the HTTP server and the end of the run."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

from kubernetes.aio import client, config

from firsttoken_lab.emulate.cluster import PodFollower
from firsttoken_lab.emulate.endpoints import FleetEndpoints
from firsttoken_lab.emulate.fleet import Fleet
from firsttoken_lab.emulate.hosting import serve, stop_on_signals

PUMP_SECONDS = 0.025
"""Time after which the fleet catches up with the clock when it is not asked; the floor of its lateness."""
SETTLE_SECONDS = 5.0
"""Time that a real server has for the answers that are under way when the traffic ends."""


async def run_fleet(
    fleet: Fleet,
    namespace: str,
    deployment: str,
    *,
    kubeconfig: str | None,
    host: str,
    port: int,
    port_file: Path | None,
    allow_control: bool,
    start_when_ready: int,
) -> None:
    """Emulate until the traffic ends or a signal comes.

    `start_when_ready`: replicas that must be ready before the traffic begins.
    """
    stop = stop_on_signals()
    await _load_configuration(kubeconfig)
    async with client.ApiClient() as api:
        following = asyncio.create_task(PodFollower(api, namespace, deployment, fleet.follow).run())
        app = FleetEndpoints(fleet, allow_control=allow_control).application()
        runner, bound = await serve(app, host, port, port_file)
        print(f"emulated fleet of {namespace}/{deployment} on http://{host}:{bound}", flush=True)
        try:
            await _pump(fleet, start_when_ready, stop, following)
            if fleet.real is not None:
                await fleet.real.settle(SETTLE_SECONDS)
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
            await runner.cleanup()
    fleet.finish()


async def _load_configuration(kubeconfig: str | None) -> None:
    """Server and credentials from a kubeconfig; in a pod that has none, of its service account."""
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ
    if kubeconfig is None and in_pod:
        config.load_incluster_config()  # type: ignore[no-untyped-call]
    else:
        await config.load_kube_config(config_file=kubeconfig)  # type: ignore[no-untyped-call]


async def _pump(fleet: Fleet, start_when_ready: int, stop: asyncio.Event, following: asyncio.Task[None]) -> None:
    while not stop.is_set() and fleet.traffic_seconds < fleet.traffic.end_seconds:
        if fleet.started_seconds is None and fleet.ready >= start_when_ready:
            fleet.start()
        fleet.advance()
        if following.done():
            following.result()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), PUMP_SECONDS)
