"""The sleep mode of an emulated vLLM, by what the real one does (vLLM 0.32, development mode)."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from firsttoken_lab.emulate.fleet import ReplicaSpec
from firsttoken_lab.emulate.server import EmulatedServer
from firsttoken_lab.emulate.sleeping import SLEEP_STATE
from firsttoken_operator.cli import main
from firsttoken_operator.families import VLLM
from firsttoken_sizing.step.model import StepModel
from tests.lab.emulate.test_server_speaks_openai_at_the_engines_pace import NAME, TEXT

EXAMPLE = Path(__file__).parents[3] / "examples/call-center.yaml"
RECORDED = Path(__file__).parents[2] / "fixtures/pages/vllm.txt"
MODEL = StepModel(0.01, 0.0, 0.0, 1e-3, 0.0, max_batch=8)
WAKE_UP_SECONDS = 0.3


@asynccontextmanager
async def a_server(wake_up_seconds=WAKE_UP_SECONDS):
    spec = ReplicaSpec(MODEL, NAME, max_model_tokens=1000, family=VLLM)
    server = EmulatedServer(spec, wake_up_seconds=wake_up_seconds)
    async with TestClient(TestServer(server.application())) as client:
        yield client


def states(page):
    (family,) = [each for each in text_string_to_metric_families(page) if each.name == SLEEP_STATE]
    return {sample.labels["sleep_state"]: sample.value for sample in family.samples}, family.samples[0].labels.keys()


async def state(client):
    page = await (await client.get("/metrics")).text()
    return [name for name, value in states(page)[0].items() if value]


async def test_the_gauge_has_the_series_of_the_real_one():
    async with a_server() as client:
        page = await (await client.get("/metrics")).text()

    assert states(page) == states(RECORDED.read_text())


@pytest.mark.parametrize(("level", "told"), [(0, []), (1, ["weights_offloaded"]), (2, ["discard_all"])])
async def test_it_sleeps_at_a_level_and_wakes_up(level, told):
    async with a_server() as client:
        assert await state(client) == ["awake"]
        answer = await (await client.post(f"/sleep?level={level}&mode=wait")).json()

        assert answer == {"status": "sleeping", "level": level}
        assert await (await client.get("/is_sleeping")).json() == {"is_sleeping": True}
        assert await state(client) == told
        assert (await client.get("/health")).status == 200, "its health does not tell"

        began = time.monotonic()
        assert await (await client.post("/wake_up")).json() == {"status": "awake", "tags": None}
        assert time.monotonic() - began >= WAKE_UP_SECONDS
        assert await (await client.get("/is_sleeping")).json() == {"is_sleeping": False}
        assert await state(client) == ["awake"]


async def test_what_is_under_way_is_answered_first_where_it_is_to_wait():
    async with a_server() as client:
        asked = asyncio.create_task(client.post("/v1/completions", json={**TEXT, "max_tokens": 50}))
        await asyncio.sleep(0.1)
        await client.post("/sleep?level=1&mode=wait")
        answer = await (await asked).json()

    assert answer["usage"]["completion_tokens"] == 50
    assert answer["choices"][0]["finish_reason"] == "length"


async def test_what_is_under_way_is_aborted_where_nothing_else_is_said():
    async with a_server() as client:
        asked = asyncio.create_task(client.post("/v1/completions", json={**TEXT, "max_tokens": 900}))
        await asyncio.sleep(0.1)
        await client.post("/sleep")
        answer = await (await asked).json()

    assert answer["choices"][0]["finish_reason"] == "abort"
    assert 0 < answer["usage"]["completion_tokens"] < 900


async def test_a_request_to_one_that_sleeps_waits_until_it_is_awake():
    async with a_server() as client:
        await client.post("/sleep?mode=wait")
        asked = asyncio.create_task(client.post("/v1/completions", json={**TEXT, "max_tokens": 3}))
        await asyncio.sleep(0.2)
        assert not asked.done()
        await client.post("/wake_up")

        assert (await asked).status == 200


@pytest.mark.parametrize("question", ["level=3", "level=deep", "mode=never"])
async def test_what_the_real_one_refuses_is_refused(question):
    async with a_server() as client:
        assert (await client.post(f"/sleep?{question}")).status == 422
        assert await state(client) == ["awake"]


async def test_a_server_without_sleep_mode_has_none_of_it():
    async with a_server(wake_up_seconds=None) as client:
        assert (await client.post("/sleep")).status == 404
        assert SLEEP_STATE not in await (await client.get("/metrics")).text()


@pytest.mark.parametrize("arguments", [[], ["--runtime", "nim"], ["--runtime", "vllm", "--fleet"]], ids=str)
def test_only_a_server_of_vllm_sleeps(arguments, capsys):
    assert main(["emulate", "-f", str(EXAMPLE), "--wake-up-seconds", "2", *arguments]) == 2
    assert "--wake-up-seconds: only one server of vLLM sleeps" in capsys.readouterr().err
