"""Runs an emulated fleet against a cluster: wires the clock, the pods, the HTTP server and the end of the run.

The pieces are elsewhere (fleet, cluster, endpoints); here is only their life cycle and the final verdict on lateness.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from kubernetes.aio import client, config

from firsttoken_lab.emulate.cluster import PodFollower
from firsttoken_lab.emulate.endpoints import FleetEndpoints
from firsttoken_lab.emulate.fleet import Fleet, GatewayPolicy, ReplicaSpec
from firsttoken_lab.emulate.hosting import serve, stop_on_signals
from firsttoken_lab.emulate.traffic import ArrivalSchedule
from firsttoken_sizing.workload import Sla

PUMP_SECONDS = 0.025
"""How often the fleet catches up with the clock when it is not asked; the floor of its lateness."""


@dataclass(frozen=True, slots=True)
class FleetRun:
    """One run of an emulated fleet. `start_when_ready`: replicas that must be ready before the traffic begins."""

    spec: ReplicaSpec
    traffic: ArrivalSchedule
    sla: Sla
    gateway: GatewayPolicy
    namespace: str
    deployment: str
    kubeconfig: str | None = None
    host: str = "127.0.0.1"
    port: int = 0
    port_file: Path | None = None
    truth_file: Path | None = None
    allow_control: bool = False
    start_when_ready: int = 0


@dataclass(frozen=True, slots=True)
class FleetReport:
    """Result of the run."""

    requests: int
    failed: int
    attainment_percent: float | None
    means_met: bool | None
    lateness_p99_seconds: float
    in_time: bool
    """Whether the emulation kept up with its own clock; if not, the other figures mean nothing."""


async def run_fleet(run: FleetRun) -> FleetReport:
    """Emulate until the traffic ends or a signal comes, write the truth file, and report."""
    began = time.monotonic()
    fleet = Fleet(run.spec, run.traffic, run.sla, run.gateway, clock=lambda: time.monotonic() - began)
    stop = stop_on_signals()
    await config.load_kube_config(config_file=run.kubeconfig)  # type: ignore[no-untyped-call]
    async with client.ApiClient() as api:
        follower = PodFollower(api, run.namespace, run.deployment, fleet.follow)
        following = asyncio.create_task(follower.run())
        runner, port = await serve(
            FleetEndpoints(fleet, allow_control=run.allow_control).application(), run.host, run.port, run.port_file
        )
        print(f"emulated fleet of {run.namespace}/{run.deployment} on http://{run.host}:{port}", flush=True)
        try:
            await _pump(fleet, run, stop, following)
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
            await runner.cleanup()
    fleet.finish()
    if run.truth_file is not None:
        run.truth_file.write_text("".join(fleet.export()))
    return FleetReport(
        requests=len(fleet.truth.records),
        failed=fleet.truth.failed,
        attainment_percent=fleet.truth.attainment_percent,
        means_met=fleet.truth.means_met(),
        lateness_p99_seconds=fleet.lateness.percentile(99),
        in_time=fleet.lateness.acceptable,
    )


async def _pump(fleet: Fleet, run: FleetRun, stop: asyncio.Event, following: asyncio.Task[None]) -> None:
    while not stop.is_set() and fleet.traffic_seconds < run.traffic.end_seconds:
        if fleet.started_seconds is None and fleet.ready >= run.start_when_ready:
            fleet.start()
        fleet.advance()
        if following.done():
            following.result()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), PUMP_SECONDS)
