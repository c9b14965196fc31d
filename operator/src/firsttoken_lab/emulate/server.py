"""One emulated replica as an OpenAI-compatible server, for real clients and load generators: the handlers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path

from aiohttp import web

from firsttoken_lab.emulate.exposition import CONTENT_TYPE
from firsttoken_lab.emulate.fleet import ReplicaSpec
from firsttoken_lab.emulate.hosting import serve, stop_on_signals
from firsttoken_lab.emulate.openai import Answer, BadRequest, parse
from firsttoken_lab.emulate.pacing import PacedEngine
from firsttoken_lab.emulate.sleeping import Sleeper
from firsttoken_operator.runtimes import CONTAINERS
from firsttoken_sizing.simulation.online_requests import Request, RequestTooLarge

MAX_BODY_BYTES = 16 * 1024 * 1024
HEALTH_PATHS = tuple(dict.fromkeys(path for image in CONTAINERS for path in (image.ready_path, image.live_path)))
METRICS_PATHS = tuple(dict.fromkeys(image.metrics_path for image in CONTAINERS))


def _error(status: int, message: str, field: str | None = None) -> web.Response:
    kind = "NotFoundError" if status == 404 else "BadRequestError"
    return web.json_response(
        {"error": {"message": message, "type": kind, "param": field, "code": status}}, status=status
    )


class EmulatedServer:
    """One replica. `natural_output_tokens`: where the emulated model stops by itself; None: only at `max_tokens`.

    `wake_up_seconds`: time that it takes to wake up; None: it has no sleep mode.
    """

    def __init__(
        self, spec: ReplicaSpec, natural_output_tokens: int | None = None, wake_up_seconds: float | None = None
    ) -> None:
        """Make an idle server; its engine runs while the application does."""
        self.spec = spec
        self._natural_output_tokens = natural_output_tokens
        self._metrics = spec.metrics()
        self._metrics.engine = engine = spec.replica(self._metrics, 0.0)
        began = time.monotonic()
        self._paced = PacedEngine(engine, clock=lambda: time.monotonic() - began)
        self.lateness = self._paced.lateness
        self._numbers = itertools.count(1)
        self._under_way: set[Request] = set()
        self._idle = asyncio.Event()
        self._sleeper = None
        if wake_up_seconds is not None:
            self._sleeper = Sleeper(spec.model_name, wake_up_seconds, self._settle)
            self._metrics.instruments.append(self._sleeper.gauge)

    def application(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/v1/completions", partial(self._answer, chat=False))
        app.router.add_post("/v1/chat/completions", partial(self._answer, chat=True))
        app.router.add_get("/v1/models", self._models)
        for path in HEALTH_PATHS:
            app.router.add_get(path, self._healthy)
        for path in METRICS_PATHS:
            app.router.add_get(path, self._metrics_page)
        if self._sleeper is not None:
            self._sleeper.add_to(app)
        app.cleanup_ctx.append(self._engine_task)
        return app

    async def _engine_task(self, _app: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(self._paced.drive())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def _answer(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        arrival = self._paced.clock()
        try:
            body = await request.json()
        except ValueError:
            return _error(400, "body: not JSON; send a JSON object", "body")
        try:
            prompt = parse(body, chat=chat, natural_output_tokens=self._natural_output_tokens)
        except BadRequest as error:
            return _error(400, str(error), error.field)
        if prompt.model != self.spec.model_name:
            return _error(404, f"model: {prompt.model!r} is not served; use {self.spec.model_name!r}", "model")
        if prompt.input_tokens + prompt.output_tokens > self.spec.max_model_tokens:
            return _error(
                400,
                f"max_tokens: {prompt.input_tokens} prompt + {prompt.output_tokens} output tokens exceed the context "
                f"window of {self.spec.max_model_tokens}; send a shorter prompt or ask for less",
                "max_tokens",
            )
        if self._sleeper is not None:
            await self._sleeper.awake()
            # It is the engine's from here on: what waited while it slept is no time of the engine.
            arrival = self._paced.clock()
        try:
            served = self._paced.engine.submit(
                arrival,
                prompt.input_tokens,
                prompt.output_tokens,
                cached_tokens=self.spec.cached_tokens(prompt.input_tokens),
                finish_reason=prompt.finish_reason,
            )
        except RequestTooLarge as error:
            return _error(400, f"prompt: {error}; send a shorter one", "prompt")
        answer = Answer(prompt, f"cmpl-{next(self._numbers)}", int(time.time()))
        self._under_way.add(served)
        try:
            # NB: no `await` before the first token is asked for: a generator that is closed before aborts nothing.
            async with aclosing(self._paced.generate(served)) as tokens:
                if prompt.stream:
                    return await self._stream(request, tokens, answer)
                given = sum([count async for count in tokens])
        finally:
            self._under_way.discard(served)
            self._idle.set()
        if served.is_aborted:
            answer = replace(answer, prompt=replace(prompt, output_tokens=given, finish_reason="abort"))
        return web.json_response(answer.whole())

    async def _settle(self, waits: bool) -> None:
        """End what is under way, or wait until it is answered."""
        if not waits:
            self._paced.abort(self._under_way)
        while self._under_way:
            self._idle.clear()
            await self._idle.wait()

    async def _stream(self, request: web.Request, tokens: AsyncIterator[int], answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        )
        sent = 0
        async for count in tokens:
            if not response.prepared:
                await response.prepare(request)
            for chunk in answer.chunk(sent, count):
                await response.write(chunk)
            sent += count
        for chunk in answer.ending():
            await response.write(chunk)
        await response.write_eof()
        return response

    async def _models(self, _request: web.Request) -> web.Response:
        card = {
            "id": self.spec.model_name,
            "object": "model",
            "created": 0,
            "owned_by": "firsttoken",
            "max_model_len": self.spec.max_model_tokens,
        }
        return web.json_response({"object": "list", "data": [card]})

    async def _healthy(self, _request: web.Request) -> web.Response:
        return web.json_response({"message": "Service is ready."})

    async def _metrics_page(self, _request: web.Request) -> web.Response:
        self._paced.catch_up()
        return web.Response(body=self._metrics.page(), headers={"Content-Type": CONTENT_TYPE})


async def run_server(
    server: EmulatedServer,
    host: str,
    port: int,
    port_file: Path | None,
    seconds: float | None,
    shutdown_timeout_seconds: float = 1.0,
) -> None:
    """Serve for so many seconds; None: until SIGINT or SIGTERM. Requests under way then have a last time-out."""
    stop = stop_on_signals()
    runner, bound = await serve(server.application(), host, port, port_file, shutdown_timeout_seconds)
    print(f"emulated {server.spec.model_name} on http://{host}:{bound}/v1", flush=True)
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), seconds)
    finally:
        await runner.cleanup()
