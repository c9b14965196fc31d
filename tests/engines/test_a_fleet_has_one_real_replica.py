"""A fleet of emulated replicas and one real Triton, which runs the model of the demo: one answers as the others do."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from demo.real import MODEL, models
from firsttoken_lab.emulate.endpoints import FleetEndpoints
from firsttoken_lab.emulate.fleet import Fleet, GatewayPolicy, Pod, ReplicaSpec
from firsttoken_lab.emulate.real import RealServer
from firsttoken_lab.emulate.traffic import Lengths, Phase, PoissonTraffic
from firsttoken_operator.domain import Metrics, Reason
from firsttoken_operator.families import TRITON
from firsttoken_operator.observe.prometheus import PrometheusSource, SourceConfig
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Limit, Percentile, Sla
from tests.engines.client import shown
from tests.operator.observe.exporter import NAMESPACE
from tests.operator.observe.looking import DEADLINE_SECONDS, look, value
from tools.cluster import Prometheus, PrometheusOptions
from tools.engines import Triton, missing

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(missing()), reason=f"no Triton on this machine: {missing()}"),
]

NAME = "meta-llama/Meta-Llama-3-8B-Instruct"
"""Name of the emulated model, as the demo declares it: no folder of a model repository can be called so."""
SPEC = ReplicaSpec(StepModel(0.0057, 0.0, 9.2e-8, 1.45e-5, 0.0, max_batch=100), NAME, TRITON, tells_ttft=False)
SLA = Sla(time_to_first_token=Limit(300, Percentile.P95))
RATE, SECONDS = 20.0, 4.0
INPUT_TOKENS, OUTPUT_TOKENS = 2000, 100


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    folder = tmp_path_factory.mktemp("triton")
    with Triton(models(SPEC, folder / "repository"), folder) as running:
        yield running


@pytest.fixture
async def real(triton: Triton) -> AsyncIterator[RealServer]:
    async with RealServer(
        f"{triton.url}/v2/models/{MODEL}/generate_stream", f"http://{triton.metrics_address}/metrics"
    ) as server:
        yield server


def a_fleet(real: RealServer, rate: float, seconds: float = SECONDS) -> Fleet:
    traffic = PoissonTraffic([Phase(0, rate)], seconds, Lengths(INPUT_TOKENS, OUTPUT_TOKENS), seed=1)
    fleet = Fleet(SPEC, traffic, SLA, GatewayPolicy(), clock=time.monotonic, real=real)
    fleet.follow([pod("a"), pod("b")])
    return fleet


def pod(name: str, *, ready: bool = True) -> Pod:
    return Pod(NAMESPACE, name, name, ready=ready)


async def play(fleet: Fleet, real: RealServer) -> None:
    fleet.start()
    while fleet.traffic_seconds < SECONDS:
        fleet.advance()
        await asyncio.sleep(0.02)
    await real.settle(30)
    fleet.finish()


async def test_it_takes_its_share_and_counts_what_it_was_sent(triton: Triton, real: RealServer) -> None:
    page, counter = f"http://{triton.metrics_address}/metrics", "nv_inference_request_success"
    before = shown(page, counter)
    fleet = a_fleet(real, RATE)
    await play(fleet, real)
    told = [record for record in fleet.truth.records if record.real]

    assert {record.pod for record in told} == {"a"}
    assert all(record.ok for record in told)
    assert len(told) == real.sent == real.answered == shown(page, counter) - before
    assert 0.25 * RATE * SECONDS < len(told) < 0.75 * RATE * SECONDS


async def test_it_takes_as_long_as_the_emulated_one(real: RealServer) -> None:
    fleet = a_fleet(real, RATE)
    await play(fleet, real)

    def least(name: str, *, of_the_real: bool) -> float:
        return min(getattr(record, name) for record in fleet.truth.records if record.real is of_the_real)

    # The least of many: what a busy machine adds is not the server's. HTTP is: a few milliseconds. A model that was
    # held up catches up with its clock, and is faster for that long.
    for latency in ("ttft_seconds", "e2e_seconds"):
        emulated = least(latency, of_the_real=False)
        assert 0.4 * emulated < least(latency, of_the_real=True) < 1.3 * emulated + 0.05
    assert fleet.stats()["real"]["ttftP95Milliseconds"] > 1000 * least("ttft_seconds", of_the_real=True) * 0.99


async def test_its_page_is_that_of_the_server_and_the_next_pod_takes_its_place(real: RealServer) -> None:
    fleet = a_fleet(real, 0.1)
    server = TestServer(FleetEndpoints(fleet).application())

    async def page(name: str) -> str:
        async with aiohttp.request("GET", server.make_url(f"/pods/{NAMESPACE}/{name}/metrics")) as response:
            assert response.status == 200
            return await response.text()

    only_of_a_server = "nv_cpu_utilization"
    async with server:
        assert only_of_a_server in await page("a")
        emulated = await page("b")
        assert only_of_a_server not in emulated
        assert "nv_inference_request_success" in emulated
        assert "first_response" not in emulated
        fleet.follow([pod("b"), pod("c")])
        assert only_of_a_server not in await page("b")
        assert only_of_a_server in await page("c")


async def test_the_operator_reads_the_requests_of_both(real: RealServer, control_plane: Path, tmp_path: Path) -> None:
    fleet = a_fleet(real, RATE, seconds=2 * DEADLINE_SECONDS)
    options = PrometheusOptions(scrape_interval_seconds=0.5, discovery_interval_seconds=0.2)

    async def pump() -> None:
        while True:
            fleet.advance()
            await asyncio.sleep(0.02)

    def check(metrics: Metrics) -> None:
        # Poisson's noise in a window of 4 s is a ninth; half of the requests are the other pod's.
        assert value(metrics.arrivals) == pytest.approx(RATE, rel=0.35)

    async with TestServer(FleetEndpoints(fleet).application()) as server:
        with Prometheus(control_plane / "prometheus", tmp_path, options) as prometheus:
            prometheus.add_http_sd(str(server.make_url("/sd")))
            source = PrometheusSource(SourceConfig("default", prometheus.url), deadline_seconds=5.0)
            fleet.start()
            pumping = asyncio.create_task(pump())
            try:
                metrics = await look(source, "a", "b", wanted=Reason.PRESENT, check=check)
            finally:
                pumping.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await pumping
                source.close()

    assert [problem.reason for problem in metrics.shortcomings] == [Reason.TTFT_NOT_OBSERVED]
    assert metrics.may_lower


async def test_requests_of_a_server_that_dies_fail(triton: Triton, real: RealServer) -> None:
    fleet = a_fleet(real, RATE)
    fleet.start()
    while not (held := fleet.replicas[NAMESPACE, "a"].engine.in_flight):
        fleet.advance()
        await asyncio.sleep(0.02)
    triton.kill()
    try:
        await real.settle(30)
        fleet.finish()
    finally:
        triton.start()

    lost = [record for record in fleet.truth.records if record.ok is False]
    assert len(lost) >= held > 0
    assert all(record.real and record.error.startswith("real server: ") for record in lost)
