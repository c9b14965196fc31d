from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from firsttoken_lab.emulate import pacing
from firsttoken_lab.emulate.fleet import ReplicaSpec
from firsttoken_lab.emulate.openai import WORDS, count_tokens, words
from firsttoken_lab.emulate.pacing import PacedEngine
from firsttoken_lab.emulate.server import EmulatedServer
from firsttoken_operator.families import EMULATED, TRITON, Metric
from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.simulation.fleet import Settings
from firsttoken_sizing.simulation.online import OnlineReplica
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Batching

MODEL = StepModel(0.01, 0.0, 0.0, 1e-3, 0.0, max_batch=8)
NAME = "meta/llama3-8b-instruct"
CHAT = {"model": NAME, "messages": [{"role": "user", "content": "one two three four five"}]}
TEXT = {"model": NAME, "prompt": "one two three four five"}


@asynccontextmanager
async def a_client(natural_output_tokens=None, **changes):
    spec = ReplicaSpec(MODEL, NAME, **{"max_model_tokens": 1000, **changes})
    server = EmulatedServer(spec, natural_output_tokens)
    async with TestClient(TestServer(server.application())) as client:
        yield client, server


async def events(response):
    """(seconds since the call, event) of a stream; the end mark is the text [DONE]."""
    found = []
    began = time.monotonic()
    async for line in response.content:
        if line.startswith(b"data: "):
            data = line[6:].strip()
            found.append((time.monotonic() - began, data.decode() if data == b"[DONE]" else json.loads(data)))
    return found


async def test_a_chat_answer_has_text_and_usage():
    async with a_client() as (client, _):
        answer = await (await client.post("/v1/chat/completions", json={**CHAT, "max_tokens": 7})).json()
    choice = answer["choices"][0]

    assert answer["object"] == "chat.completion"
    assert choice["message"]["role"] == "assistant"
    assert count_tokens(choice["message"]["content"]) == 7
    assert choice["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}


async def test_a_completion_answer_has_text_and_usage():
    async with a_client() as (client, _):
        answer = await (await client.post("/v1/completions", json={**TEXT, "max_tokens": 3})).json()
    assert answer["object"] == "text_completion"
    assert count_tokens(answer["choices"][0]["text"]) == 3
    assert answer["usage"]["total_tokens"] == 8


@pytest.mark.parametrize(("path", "body"), [("/v1/chat/completions", CHAT), ("/v1/completions", TEXT)])
async def test_a_stream_has_one_event_a_token_then_usage_where_asked_then_the_end_mark(path, body):
    asked = {**body, "max_tokens": 4, "stream": True, "stream_options": {"include_usage": True}}
    async with a_client() as (client, _):
        response = await client.post(path, json=asked)
        assert response.headers["Content-Type"].startswith("text/event-stream")
        found = [event for _, event in await events(response)]
    *tokens, usage, end = found

    assert len(tokens) == 4
    assert [event["choices"][0]["finish_reason"] for event in tokens] == [None, None, None, "length"]
    texts = [
        (event["choices"][0].get("delta") or {"content": event["choices"][0].get("text")})["content"]
        for event in tokens
    ]
    assert "".join(texts) == words(0, 4)
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 4
    assert end == "[DONE]"


async def test_no_token_comes_before_its_time():
    body = {"model": NAME, "prompt": list(range(200)), "max_tokens": 30, "stream": True}
    async with a_client() as (client, _):
        began = time.monotonic()
        response = await client.post("/v1/completions", json=body)
        found = await events(response)
        total = time.monotonic() - began
    first = total - found[-1][0] + found[0][0]
    expected_first, expected_total = 0.01 + 0.2, 0.01 + 0.2 + 29 * 0.01

    assert expected_first <= first
    assert expected_total <= total


async def test_no_token_comes_after_its_time_where_the_machine_wakes_it_in_time(monkeypatch):
    now = 0.0

    async def wakes_in_time(seconds):
        nonlocal now
        for _ in range(3):
            await asyncio.sleep(0)  # the caller takes its token before time goes on
        now += seconds

    monkeypatch.setattr(pacing, "asyncio", SimpleNamespace(Event=asyncio.Event, sleep=wakes_in_time))
    paced = PacedEngine(OnlineReplica(MODEL), clock=lambda: now)
    driving = asyncio.create_task(paced.drive())
    came = [now async for count in paced.generate(paced.engine.submit(0.0, 200, 30)) for _ in range(count)]
    driving.cancel()

    assert came == pytest.approx([0.01 + 0.2 + 0.01 * number for number in range(30)])
    assert paced.lateness.percentile(99) == pytest.approx(0)


async def test_a_caller_that_is_slower_than_the_engine_still_gets_every_token():
    began = time.monotonic()
    paced = PacedEngine(OnlineReplica(MODEL), clock=lambda: time.monotonic() - began)
    driving = asyncio.create_task(paced.drive())
    got = 0
    async for count in paced.generate(paced.engine.submit(paced.clock(), 5, 20)):
        await asyncio.sleep(0.15)
        got += count
    driving.cancel()
    assert got == 20


@pytest.mark.slow
async def test_chunked_prefill_spares_the_stream_that_runs_while_a_long_prompt_comes():
    """A prompt of 400 tokens takes 0.4 s here; in chunks of 40 no step takes longer than 0.05 s and some."""
    gaps = {}
    for batching in (Batching.IN_FLIGHT, Batching.CHUNKED_PREFILL):
        async with a_client(settings=Settings(batching, Scheduler(41))) as (client, server):
            running = server._paced.engine.submit(server._paced.clock(), 5, 100)
            long = {"model": NAME, "prompt": list(range(400)), "max_tokens": 2}
            await asyncio.gather(
                (await client.post("/v1/completions", json=long)).read(), _until_done(server._paced, running)
            )
            page = await (await client.get("/metrics")).text()
        values = {
            s.labels.get("le"): s.value
            for f in text_string_to_metric_families(page)
            for s in f.samples
            if s.name == "time_per_output_token_seconds_bucket"
        }
        gaps[batching] = values["+Inf"] - values["0.3"]

    assert gaps == {Batching.IN_FLIGHT: 1, Batching.CHUNKED_PREFILL: 0}


async def _until_done(paced, request):
    async for _ in paced.generate(request):
        pass


async def test_concurrent_requests_share_the_batch():
    body = {**TEXT, "max_tokens": 50}
    async with a_client() as (client, _):
        began = time.monotonic()
        await asyncio.gather(*(client.post("/v1/completions", json=body) for _ in range(4)))
        together = time.monotonic() - began
    assert together < 4 * (0.01 + 0.005 + 49 * 0.01), "as long as one after the other"


@pytest.mark.parametrize(
    ("natural", "options", "tokens", "reason"),
    [
        (20, {}, 20, "stop"),
        (20, {"max_tokens": 50}, 20, "stop"),
        (20, {"max_tokens": 5}, 5, "length"),
        (20, {"max_tokens": 50, "min_tokens": 30}, 30, "stop"),
        (20, {"max_tokens": 50, "ignore_eos": True}, 50, "length"),
        (20, {"max_completion_tokens": 6}, 6, "length"),
        (None, {}, 16, "length"),
        (None, {"max_tokens": 9}, 9, "length"),
    ],
    ids=["stops", "stops early", "cut", "at least", "ignores the end", "newer name", "default", "no natural end"],
)
async def test_the_length_of_the_answer_follows_the_request(natural, options, tokens, reason):
    async with a_client(natural) as (client, _):
        answer = await (await client.post("/v1/chat/completions", json={**CHAT, **options})).json()
    assert answer["usage"]["completion_tokens"] == tokens
    assert answer["choices"][0]["finish_reason"] == reason


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/v1/completions", {**TEXT, "model": "other"}, 404, "model: 'other' is not served; use 'meta/llama3"),
        ("/v1/completions", {**TEXT, "max_tokens": 2000}, 400, "exceed the context window of 1000"),
        ("/v1/completions", {**TEXT, "max_tokens": 0}, 400, "max_tokens: must be an integer >= 1, not 0"),
        ("/v1/completions", {**TEXT, "n": 2}, 400, "n: only 1 answer"),
        ("/v1/completions", {"model": NAME}, 400, "prompt: send one text"),
        ("/v1/completions", {"model": NAME, "prompt": ["a", "b"]}, 400, "prompt: send one text"),
        ("/v1/chat/completions", {"model": NAME}, 400, "messages: send a non-empty list"),
        ("/v1/chat/completions", {"model": NAME, "messages": [{"role": "user"}]}, 400, "content must be text"),
        ("/v1/chat/completions", [], 400, "body: send a JSON object"),
    ],
)
async def test_a_request_that_cannot_be_served_is_refused_in_openai_form(path, body, status, says):
    async with a_client() as (client, _):
        response = await client.post(path, json=body)
        error = (await response.json())["error"]
    assert response.status == status
    assert says in error["message"]
    assert error["code"] == status


async def test_a_prompt_beyond_the_kv_cache_is_refused_even_as_a_stream():
    async with a_client(settings=Settings(kv_cache_tokens=100)) as (client, _):
        response = await client.post("/v1/completions", json={**TEXT, "max_tokens": 200, "stream": True})
        assert response.status == 400
        assert "exceed the KV cache of 100 tokens" in (await response.json())["error"]["message"]


async def test_models_and_health_are_where_nim_and_vllm_have_them():
    async with a_client() as (client, _):
        models = await (await client.get("/v1/models")).json()
        assert [model["id"] for model in models["data"]] == [NAME]
        for path in ("/v1/health/ready", "/v1/health/live", "/health"):
            assert (await client.get(path)).status == 200


@pytest.mark.parametrize("family", EMULATED, ids=lambda family: family.name)
async def test_metrics_count_what_was_served(family):
    async with a_client(family=family) as (client, _):
        await client.post("/v1/completions", json={**TEXT, "max_tokens": 5})
        pages = [await (await client.get(path)).text() for path in ("/metrics", "/v1/metrics")]
    values = {s.name: s.value for family in text_string_to_metric_families(pages[0]) for s in family.samples}

    assert pages[0] == pages[1]
    assert values[f"{family.ttft}_count"] == 1
    if family is TRITON:
        # Triton's counters have no `_total`, which the parser of the Python client puts behind each.
        assert values["nv_inference_request_success_total"] == 1
        assert values["nv_inference_request_failure_total"] == 0
    else:
        assert values[family.series(Metric.GENERATION_TOKENS).name] == 5
        assert values[f"{family.series(Metric.REQUEST_PROMPT_TOKENS).name}_sum"] == 5


async def test_a_client_that_hangs_up_frees_its_place():
    async with a_client() as (client, server):
        response = await client.post("/v1/completions", json={**TEXT, "max_tokens": 900, "stream": True})
        await response.content.readline()
        response.close()
        engine = server._paced.engine
        for _ in range(200):
            await asyncio.sleep(0.01)
            if not engine.in_flight:
                break
        page = await (await client.get("/metrics")).text()
    assert engine.in_flight == 0
    assert 'request_finish_total{finished_reason="abort"' in page


def test_every_output_word_is_one_token():
    assert len(set(WORDS)) == len(WORDS)
    assert [count_tokens(words(start, count)) for start, count in [(0, 1), (5, 40), (999, 3)]] == [1, 40, 3]
    assert words(0, 5) == words(0, 2) + words(2, 3)
