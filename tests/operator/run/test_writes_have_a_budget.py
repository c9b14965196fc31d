"""Whole ticks of many resources against an API server that is slow, hangs, or asks to wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio import client

from firsttoken_operator.act.backlog import Budget
from firsttoken_operator.act.errors import Unavailable
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.status import Observed
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.loop import Loop, Parts
from tests.operator.observe.bodies import deployment, inference_deployment
from tests.operator.run.looped import looped
from tests.operator.run.sizings import settled

LONGEST_SECONDS = 1.0
"""Time that a request may take here; a tenth of what it may take in production, as are the delays below."""


@dataclass
class Server:
    """An API server over `store`: `delay` says how long a request takes, `refusal` what it is refused with."""

    store: Store = field(default_factory=Store)
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[tuple[float, str, str]] = field(default_factory=list)
    taken: list[tuple[str, str]] = field(default_factory=list)
    delay: Callable[[str, str], float] = lambda method, path: 0.0
    refusal: Callable[[], web.Response | None] = lambda: None
    drips: bool = False

    def declare(self, count: int, minimum: Callable[[int], int]) -> None:
        for i in range(count):
            name = f"r{i:04d}"
            document = inference_deployment(name, target=f"d-{name}", scaling={"minReplicas": minimum(i)})
            workload = deployment(f"d-{name}", replicas=2)
            self.store.feed("InferenceDeployment", None, document)
            self.store.feed("Deployment", None, workload)
            self.documents |= {f"inferencedeployments/{name}": document, f"deployments/d-{name}/scale": workload}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((time.monotonic(), request.method, request.path))
        refused = self.refusal()
        if refused is not None:
            return refused
        if self.drips:
            return await dripping(request)
        await asyncio.sleep(self.delay(request.method, request.path))
        key = request.path.partition("/call-center/")[2]
        if request.path.endswith("/inferencedeployments"):
            items = [each for path, each in self.documents.items() if path.startswith("inferencedeployments/")]
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})
        document: dict[str, Any] = self.documents.get(key, {"metadata": {"uid": "", "resourceVersion": "1"}})
        if request.method == "PATCH" and key.endswith("/scale"):
            document["spec"]["replicas"] = (await request.json())["spec"]["replicas"]
        self.taken.append((request.method, key))
        return web.json_response(document)

    def done(self, method: str, end: str) -> list[str]:
        return [key for verb, key in self.taken if verb == method and key.endswith(end)]


async def dripping(request: web.Request) -> web.StreamResponse:
    """Spaces for ten times as long as an answer may take."""
    response = web.StreamResponse()
    with suppress(ConnectionError):
        await response.prepare(request)
        for _ in range(100):
            await response.write(b" ")
            await asyncio.sleep(LONGEST_SECONDS / 10)
    return response


@asynccontextmanager
async def reached(server: Server, longest_seconds: float = LONGEST_SECONDS) -> AsyncIterator[KubernetesCluster]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = client.Configuration()
    configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    cluster = KubernetesCluster(client.ApiClient(configuration), timeout_seconds=longest_seconds)
    try:
        yield cluster
    finally:
        await cluster.close()
        await runner.cleanup()


@asynccontextmanager
async def serving(server: Server, longest_seconds: float = LONGEST_SECONDS) -> AsyncIterator[tuple[Loop, Parts]]:
    async with reached(server, longest_seconds) as cluster:
        loop, parts = looped(cluster, server.store, deadline_seconds=1.5 * longest_seconds)
        await settled(parts.sizer, server.store)
        try:
            yield loop, parts
        finally:
            parts.sizer.close()
            await parts.writes.close()


@pytest.mark.slow
async def test_two_thousand_slow_statuses_do_not_delay_a_scale_up() -> None:
    server = Server(delay=lambda method, path: 0.25)
    server.declare(2000, lambda i: 5 if i == 1999 else 2)
    # NB: as long as in production, since the CPU's part of such a tick is no tenth of what it is there.
    async with serving(server, 10 * LONGEST_SECONDS) as (loop, parts):
        await loop.tick(time.monotonic())
        paths = [path for _, _, path in server.requests]
        scale_writes = [i for i, path in enumerate(paths) if path.endswith("/d-r1999/scale")]

        assert server.done("PATCH", "/scale") == ["deployments/d-r1999/scale"]
        # Its three requests take as long as three rounds of the two dozen others that may be under way at once.
        assert max(scale_writes) < 100
        assert parts.writes.waiting()["status"] > 1000, "of the statuses most wait still"


@pytest.mark.slow
async def test_a_request_for_silence_is_obeyed_by_all_and_answered_with_no_burst() -> None:
    refusing = True

    def refusal() -> web.Response | None:
        message = {"message": "too many requests"}
        return web.json_response(message, status=429, headers={"Retry-After": "2"}) if refusing else None

    server = Server(refusal=refusal)
    server.declare(300, lambda i: 2)
    async with serving(server) as (loop, _):
        await loop.tick(time.monotonic())
        while not server.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        asked = len(server.requests)
        await loop.tick(time.monotonic())
        refusing = False
        while len(server.done("PATCH", "/status")) < 60:
            await asyncio.sleep(0.05)

        assert asked <= 24, "those that were under way"
        times = [at for at, _, _ in server.requests]
        silent_until = times[asked - 1] + 2.0
        for sent, at in enumerate(times[asked:], start=1):
            assert sent <= 50 * (at - silent_until), "50 a second since then, without the burst"


@pytest.mark.slow
async def test_who_had_no_turn_comes_first_at_the_next_tick() -> None:
    server = Server(delay=lambda method, path: 0.5 if path.endswith("/scale") else 0.0)
    server.declare(200, lambda i: 5)
    async with serving(server) as (loop, _):
        await loop.tick(time.monotonic())
        written, asked = set(server.done("PATCH", "/scale")), len(server.requests)
        await loop.tick(time.monotonic())
        paths = [path for _, method, path in server.requests[asked:] if (method, path[-6:]) == ("PATCH", "/scale")]

        assert 0 < len(written) < 200
        first = {path.partition("/call-center/")[2] for path in paths[:32]}
        assert not first & written


async def test_an_answer_that_drips_is_given_up_as_one_that_hangs() -> None:
    """No single read of it is late."""
    async with reached(Server(drips=True)) as cluster:
        began = time.monotonic()
        with pytest.raises(Unavailable):
            await cluster.read(ObjectRef("apps/v1", "Deployment", "call-center", "nim"))

        assert time.monotonic() - began < 3 * LONGEST_SECONDS


async def test_what_fails_as_one_is_carried_out_keeps_no_other_from_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server()
    server.declare(3, lambda i: 5)
    async with serving(server) as (loop, parts):
        publish = parts.publisher.publish

        def failing(status: Any, seen: Observed, foreign: Any) -> None:
            if seen.resource.name == "r0000":
                raise ZeroDivisionError
            publish(status, seen, foreign)

        monkeypatch.setattr(parts.publisher, "publish", failing)
        decisions = await loop.tick(time.monotonic())

        assert len(decisions) == len(server.done("PATCH", "/scale")) == 3


async def test_no_status_is_made_before_all_replicas_of_its_tick_are_on_their_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server()
    server.declare(120, lambda i: 5 if i % 2 else 2)
    async with serving(server) as (loop, parts):
        publish, sent = parts.publisher.publish, list[int]()

        def counting(status: Any, seen: Observed, foreign: Any) -> None:
            sent.append(len(server.done("PATCH", "/scale")))
            publish(status, seen, foreign)

        monkeypatch.setattr(parts.publisher, "publish", counting)
        await loop.tick(time.monotonic())

        assert len(sent) == 120
        assert min(sent) >= 60 - Budget().in_flight, "the others are under way"


async def test_writes_that_hang_are_given_up_before_the_process_looks_dead() -> None:
    server = Server(delay=lambda method, path: 60.0)
    server.declare(80, lambda i: 5)
    async with serving(server) as (loop, parts):
        began = time.monotonic()
        await loop.tick(began)

        assert time.monotonic() - began < 12.0, "one deadline of 1.5 s, not ten rounds of it"
        assert set(parts.heartbeats.undecided_ticks.values()) == {0}, "decided counts, not written"
        assert parts.heartbeats.problem(time.monotonic()) == ""
        await loop.tick(time.monotonic())
        assert set(parts.heartbeats.undecided_ticks.values()) == {0}
