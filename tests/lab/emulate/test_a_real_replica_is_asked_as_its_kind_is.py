from __future__ import annotations

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from firsttoken_lab.emulate.fleet import Fleet, GatewayPolicy, Pod, ReplicaSpec
from firsttoken_lab.emulate.real import RealServer
from firsttoken_lab.emulate.server import EmulatedServer
from firsttoken_lab.emulate.traffic import Lengths, Phase, PoissonTraffic
from firsttoken_operator.families import VLLM
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Routing, Sla

SPEC = ReplicaSpec(StepModel(1e-4, 0.0, 0.0, 1e-6, 0.0, max_batch=64), "meta/llama3", VLLM)
SECONDS, REQUESTS_PER_SECOND = 100.0, 4.0
INPUT_TOKENS, OUTPUT_TOKENS = 5, 3


async def played(application: web.Application, share: float, routing: Routing = Routing.RANDOM) -> tuple[Fleet, str]:
    """A fleet of two, one of them this server, that got all answers; and the metrics page of that one."""
    now = [0.0]
    traffic = PoissonTraffic([Phase(0, REQUESTS_PER_SECOND)], SECONDS, Lengths(INPUT_TOKENS, OUTPUT_TOKENS), seed=1)
    gateway = GatewayPolicy(routing=routing, real_share=share)
    async with (
        TestServer(application) as server,
        RealServer(str(server.make_url("/v1/completions")), str(server.make_url("/metrics"))) as real,
    ):
        fleet = Fleet(SPEC, traffic, Sla(), gateway, clock=lambda: now[0], real=real)
        fleet.follow([Pod("web", name, name, ready=True) for name in ("a", "b")])
        fleet.start()
        now[0] = SECONDS
        fleet.advance()
        await real.settle(60)
        fleet.finish()
        async with aiohttp.request("GET", real.metrics_url) as response:
            return fleet, await response.text()


async def test_a_server_that_speaks_as_openais_gets_words_and_counts_them_all():
    fleet, page = await played(EmulatedServer(SPEC).application(), share=1.0)
    sent = [record for record in fleet.truth.records if record.real]

    assert 0.3 * len(fleet.truth.records) < len(sent) < 0.7 * len(fleet.truth.records)
    assert all(record.ok for record in sent)
    for counter, each in (
        ("request_success", 1),
        ("prompt_tokens", INPUT_TOKENS),
        ("generation_tokens", OUTPUT_TOKENS),
    ):
        values = [line.rpartition(" ")[2] for line in page.splitlines() if line.startswith(f"vllm:{counter}_total{{")]
        assert sum(map(float, values)) == each * len(sent)


async def test_a_slow_one_gets_a_part_of_what_another_replica_gets():
    for routing in (Routing.RANDOM, Routing.ROUND_ROBIN):
        fleet, _ = await played(EmulatedServer(SPEC).application(), share=0.2, routing=routing)
        sent = sum(record.real for record in fleet.truth.records)

        assert 0.05 * len(fleet.truth.records) < sent < 0.16 * len(fleet.truth.records), routing


async def test_an_answer_that_breaks_off_is_none():
    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "one"}]})

    async def broken(_: web.Request) -> web.Response:
        return web.Response(text='data: {"choices": [{"text": "word"}]}\n\n', content_type="text/event-stream")

    application = web.Application()
    application.add_routes([web.get("/v1/models", models), web.post("/v1/completions", broken)])
    fleet, _ = await played(application, share=1.0)
    sent = [record for record in fleet.truth.records if record.real]

    assert sent
    assert {record.ok for record in sent} == {False}
    assert {record.error for record in sent} == {"real server: an answer that was not complete"}
