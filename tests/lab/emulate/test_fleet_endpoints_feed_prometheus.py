from __future__ import annotations

import asyncio
import re
import time
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from firsttoken_lab.emulate.endpoints import FleetEndpoints
from firsttoken_lab.emulate.fleet import Fleet, GatewayPolicy, Pod, ReplicaSpec
from firsttoken_lab.emulate.traffic import Arrival, ArrivalSchedule, Lengths, Phase, PoissonTraffic
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Limit, Percentile, Routing, Sla
from tests.fixtures.reference_core import on_reference_core

MODEL = StepModel(0.0057, 0.0, 9.2e-8, 1.45e-5, 0.0, max_batch=100)
SLA = Sla(time_to_first_token=Limit(300, Percentile.P95))


@asynccontextmanager
async def a_client(traffic, pods=("a", "b"), *, allow_control=True, routing=Routing.RANDOM):
    began = time.monotonic()
    fleet = Fleet(ReplicaSpec(MODEL, "m"), traffic, SLA, GatewayPolicy(routing), clock=lambda: time.monotonic() - began)
    fleet.follow([Pod("ns", name, name, ready=True) for name in pods])
    fleet.start()
    async with TestClient(TestServer(FleetEndpoints(fleet, allow_control=allow_control).application())) as client:
        yield client, fleet


def poisson(rate):
    return PoissonTraffic([Phase(0, rate)], 100, Lengths(2000, 200), seed=1)


async def test_discovery_lists_one_group_a_pod_and_each_leads_to_a_metrics_page():
    async with a_client(poisson(100)) as (client, _):
        await asyncio.sleep(0.3)
        groups = await (await client.get("/sd")).json()
        assert [group["labels"] for group in groups] == [
            {"namespace": "ns", "pod": name, "__metrics_path__": f"/pods/ns/{name}/metrics"} for name in ("a", "b")
        ]
        for group in groups:
            async with aiohttp.ClientSession() as session:
                url = f"http://{group['targets'][0]}{group['labels']['__metrics_path__']}"
                async with session.get(url) as response:
                    assert response.status == 200
                    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                    assert "time_to_first_token_seconds_bucket" in await response.text()


async def test_a_pod_is_discovered_from_its_address_on_and_fails_to_be_scraped_until_it_is_ready():
    async with a_client(poisson(1), []) as (client, fleet):

        async def seen(**state):
            fleet.follow([Pod("ns", "a", "a", **state)])
            listed = [group["labels"]["pod"] for group in await (await client.get("/sd")).json()]
            return listed, (await client.get("/pods/ns/a/metrics")).status

        assert await seen(ready=False, addressed=False) == ([], 404)
        assert await seen(ready=False) == (["a"], 503)
        assert await seen(ready=True) == (["a"], 200)
        assert await seen(ready=False) == (["a"], 200), "an engine that was ready once keeps its counters"
        assert await seen(ready=False, terminating=True) == (["a"], 200)
        stats = await (await client.get("/stats")).json()
        assert stats["readyReplicas"] == 0


async def test_a_pod_that_is_gone_is_not_found_and_not_discovered():
    async with a_client(poisson(1)) as (client, fleet):
        fleet.follow([Pod("ns", "a", "a", ready=True)])
        assert (await client.get("/pods/ns/b/metrics")).status == 404
        assert len(await (await client.get("/sd")).json()) == 1


async def test_the_live_score_shows_load_replicas_and_latency():
    async with a_client(poisson(50)) as (client, _):
        await asyncio.sleep(0.5)
        stats = await (await client.get("/stats")).json()
        assert stats["offeredRequestsPerSecond"] == 50
        assert stats["readyReplicas"] == 2
        assert stats["arrived"] > 5
        assert stats["ttftP95Milliseconds"] > 30
        assert stats["latenessP99Seconds"] < 1
        truth = (await (await client.get("/truth")).text()).splitlines()
        assert len(truth) >= stats["arrived"]


async def test_the_load_can_be_changed_and_scraping_broken_where_control_is_allowed():
    async with a_client(poisson(10)) as (client, _):
        assert (await client.post("/load", json={"requestsPerSecond": 33})).status == 200
        assert (await (await client.get("/stats")).json())["offeredRequestsPerSecond"] == 33

        assert (await client.post("/fault", json={"scrape": "stop"})).status == 200
        assert (await client.get("/pods/ns/a/metrics")).status == 503
        assert len(await (await client.get("/sd")).json()) == 2, "the targets stay, they are only down"

        await client.post("/fault", json={"scrape": "hang"})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.get("/pods/ns/a/metrics"), 0.2)

        await client.post("/fault", json={"scrape": "ok"})
        assert (await client.get("/pods/ns/a/metrics")).status == 200


async def test_pages_lie_where_control_is_allowed():
    async def page(mode):
        assert (await client.post("/fault", json={"scrape": mode})).status == 200
        lines = (await (await client.get("/pods/ns/a/metrics")).text()).splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}

    async with a_client(poisson(50)) as (client, _):
        await asyncio.sleep(0.5)
        true, zeros, absurd = [await page(mode) for mode in ("ok", "zeros", "absurd")]

    assert true.keys() == zeros.keys() == absurd.keys()
    assert any(true.values())
    assert not any(zeros.values())
    counters = {name for name in true if re.search("_(total|bucket|sum|count)($|{)", name) and true[name]}
    gauges = {name for name in true if "requests_running" in name or "num_requests" in name}
    assert counters
    assert gauges
    assert all(absurd[name] >= 1000 * true[name] for name in counters)
    assert all(absurd[name] < 1000 for name in gauges)


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/load", '{"requestsPerSecond": "many"}', "requestsPerSecond"),
        ("/load", '{"requestsPerSecond": -1}', "requestsPerSecond"),
        ("/load", "[]", "not a JSON object"),
        ("/load", "{", "not a JSON object"),
        ("/fault", '{"scrape": "maybe"}', "use one of ok, stop, hang"),
    ],
)
async def test_a_bad_control_request_is_refused_with_the_field(path, body, says):
    async with a_client(poisson(1)) as (client, _):
        response = await client.post(path, data=body)
        assert response.status == 400
        assert says in await response.text()


async def test_a_trace_cannot_be_given_another_rate():
    async with a_client(ArrivalSchedule([Arrival(0.0, 1, 1)], 10)) as (client, _):
        assert (await client.post("/load", json={"requestsPerSecond": 3})).status == 409


async def test_without_control_the_load_and_the_scraping_cannot_be_touched():
    async with a_client(poisson(1), allow_control=False) as (client, _):
        assert (await client.post("/load", json={"requestsPerSecond": 3})).status == 404
        assert (await client.post("/fault", json={"scrape": "stop"})).status == 404


@pytest.mark.slow
async def test_sixty_pods_scraped_twice_a_second_at_200_requests_a_second_leave_a_core_time_to_spare():
    """The demo's size."""
    names = [f"pod-{number}" for number in range(60)]
    async with a_client(poisson(200), names, routing=Routing.LEAST_LOADED) as (client, fleet):

        async def scrape(name, offset):
            await asyncio.sleep(offset)
            for _ in range(8):
                assert (await client.get(f"/pods/ns/{name}/metrics")).status == 200
                await asyncio.sleep(0.5)

        used = time.process_time()
        await asyncio.gather(*(scrape(name, number / 120) for number, name in enumerate(names)))
        used = time.process_time() - used

        assert on_reference_core(used) < 0.6 * fleet.traffic_seconds, "client included"
