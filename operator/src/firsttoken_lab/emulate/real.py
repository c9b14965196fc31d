"""One replica of a fleet that is no emulation: a real Triton or vLLM, asked over HTTP, judged by its client's clock.

Requests go to the `generate_stream` of a Triton's model, as `text_input` and `max_tokens`, or to `/v1/completions`, of
as many words. The first event of the stream is the first token. What its pod publishes is the page of the server.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import aiohttp
import numpy as np

from firsttoken_sizing.simulation.online_requests import Request

RECENT_SECONDS = 10.0
"""Time that "recent" figures look back."""
GENERATE_STREAM, COMPLETIONS = "/generate_stream", "/v1/completions"
"""Ends of the address of a Triton's model, and of a server that speaks as OpenAI's."""
_DONE = b"data: [DONE]"


class Listener(Protocol):
    """Listener to a real replica: it is told what became of a request when the replica is advanced."""

    def prefilled(self, request: Request) -> None:
        """The first piece of the answer came."""

    def finished(self, request: Request) -> None:
        """The answer is complete."""

    def failed(self, request: Request, error: str) -> None:
        """There will be no answer."""


class RealServer:
    """A model of a real server, for one `async with` block, and the score of what was sent to it."""

    def __init__(self, url: str, metrics_url: str) -> None:
        """`url`: where the model streams; `metrics_url`: the page of its server."""
        self.url, self.metrics_url = url, metrics_url
        self._model = ""
        self.sent = self.answered = self.failed = 0
        self._session: aiohttp.ClientSession | None = None
        self._asked: set[asyncio.Task[None]] = set()
        self._recent_ttft: deque[tuple[float, float]] = deque()

    async def __aenter__(self) -> RealServer:
        # As many at once as there are: what waits shall wait at the server.
        connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, raise_for_status=True)
        if self.url.endswith(COMPLETIONS):
            async with self._session.get(f"{self.url.removesuffix(COMPLETIONS)}/v1/models") as response:
                self._model = (await response.json())["data"][0]["id"]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None, "it was entered"
        for task in self._asked:
            task.cancel()
        await asyncio.gather(*self._asked, return_exceptions=True)
        await self._session.close()

    def ask(self, request: Request, tell: Callable[[Event], None]) -> asyncio.Task[None]:
        """Send a request; `tell` gets its first piece and its end."""
        task = asyncio.get_running_loop().create_task(self._ask(request, tell))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        return task

    async def settle(self, seconds: float) -> None:
        """Wait so long for the answers that are under way."""
        if self._asked:
            await asyncio.wait(self._asked, timeout=seconds)

    def stats(self) -> dict[str, Any]:
        """The score so far and the recent past."""
        since = time.monotonic() - RECENT_SECONDS
        while self._recent_ttft and self._recent_ttft[0][0] < since:
            self._recent_ttft.popleft()
        recent = [ttft for _, ttft in self._recent_ttft]
        return {
            "sent": self.sent,
            "answered": self.answered,
            "failed": self.failed,
            "ttftP95Milliseconds": 1000 * float(np.percentile(recent, 95)) if recent else None,
        }

    async def _ask(self, request: Request, tell: Callable[[Event], None]) -> None:
        assert self._session is not None, "it was entered"
        asked, last = self._asked_for(request), b""
        began = time.monotonic()
        self.sent += 1
        try:
            async with self._session.post(self.url, json=asked) as response:
                async for line in response.content:
                    last = line.strip() or last
                    if line.startswith(b"data:") and not request.first_token:
                        ttft_seconds = time.monotonic() - began
                        self._recent_ttft.append((time.monotonic(), ttft_seconds))
                        request.first_token = request.arrival + ttft_seconds
                        tell(Event(request, is_first=True))
        except (aiohttp.ClientError, OSError) as error:
            self.failed += 1
            tell(Event(request, error=f"real server: {error}"))
            return
        request.finish = request.arrival + time.monotonic() - began
        if request.first_token and (last == _DONE or not self._model):
            self.answered += 1
            tell(Event(request))
        else:
            self.failed += 1
            tell(Event(request, error="real server: an answer that was not complete"))

    def _asked_for(self, request: Request) -> dict[str, Any]:
        """The body of a request; a word is taken for a token."""
        words = "word " * request.input
        if not self._model:
            return {"text_input": words, "max_tokens": request.output}
        answer = {"max_tokens": request.output, "ignore_eos": True, "stream": True}
        return {"model": self._model, "prompt": words, **answer}


@dataclass(frozen=True, slots=True)
class Event:
    """The first piece of an answer, its end, or its failure."""

    request: Request
    is_first: bool = False
    error: str = ""


class RealEngine:
    """The engine of one replica, in the shape of an emulated one: what came since is told by `advance`."""

    def __init__(self, server: RealServer, listener: Listener) -> None:
        self.server = server
        self._listener = listener
        self._events: deque[Event] = deque()
        self._under_way: dict[Request, asyncio.Task[None]] = {}

    @property
    def in_flight(self) -> int:
        """Requests that were sent, and whose end was not told yet."""
        return len(self._under_way)

    def submit(self, now_seconds: float, input_tokens: int, output_tokens: int, *, cached_tokens: int = 0) -> Request:
        """Send a request. Times are its arrival and what the client's clock adds."""
        request = Request(input_tokens, max(1, input_tokens - cached_tokens), output_tokens, arrival=now_seconds)
        self._under_way[request] = self.server.ask(request, self._events.append)
        return request

    def advance(self, _until_seconds: float) -> None:
        """Tell what came in since."""
        while self._events:
            event = self._events.popleft()
            if event.request not in self._under_way:
                continue
            if event.is_first:
                self._listener.prefilled(event.request)
                continue
            del self._under_way[event.request]
            if event.error:
                self._listener.failed(event.request, event.error)
            else:
                self._listener.finished(event.request)

    def drop_all(self) -> list[Request]:
        """Break off every request that has not ended, and return them (oldest first)."""
        dropped = list(self._under_way)
        for task in self._under_way.values():
            task.cancel()
        self._under_way.clear()
        return dropped
