"""A streaming HTTP proxy that numbers and logs every request, and does to some of them what a network may do.

    with FaultProxy(cluster.api_url, cluster.ca) as proxy:
        with proxy.injecting(Answer(503), method="PATCH", path="/scale$", times=3) as fault:
            ...                                     # the end of the block fails unless it changed something
        writes = [entry for entry in proxy.log if entry.is_write]

It runs on an event loop in a thread of its own, so that a test may block. Credentials are those of the client: the
proxy speaks plain HTTP to it, and TLS to a server whose certificate was signed by `authority`.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Never, Protocol

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, TCPConnector, web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

READS = frozenset({"GET", "HEAD", "OPTIONS"})
NOT_PASSED_ON = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "accept-encoding"}
)
"""Headers of one hop."""
UNCOMPRESSED = ("Accept-Encoding", "identity")
"""So that actions can read the answers."""
TLS_CLOSING_SECONDS = 0.25
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of 0 s: closing sends RST instead of FIN."""


@dataclass(slots=True)
class Entry:
    """One request as the proxy saw it; times are of the monotonic clock, in seconds."""

    number: int
    method: str
    path: str
    query: Mapping[str, str]
    began_seconds: float
    body: bytes = b""
    status: int | None = None
    """None: no answer was sent, or none yet."""
    forwarded: bool = False
    """True where the server had it."""
    fault: str | None = None
    changed: bool = False
    """Set where the fault made a difference to what the client has."""
    ended_seconds: float | None = None

    @property
    def is_write(self) -> bool:
        """True where it asks for a change."""
        return self.method not in READS

    @property
    def is_watch(self) -> bool:
        """True where it asks for a stream of changes."""
        return self.query.get("watch") in ("true", "1")

    def told(self, since_seconds: float) -> str:
        """It in one line, with when it came."""
        fault = f" [{self.fault[:60]}{'' if self.changed else ', without effect'}]" if self.fault else ""
        what = f"{self.method} {self.path}{' (watch)' if self.is_watch else ''}"
        reached = "" if self.forwarded else ", not forwarded"
        took = "under way" if self.ended_seconds is None else f"{self.ended_seconds - self.began_seconds:.3f} s"
        at = self.began_seconds - since_seconds
        return f"{self.number:6} {at:9.3f} s {what}: {self.status}{reached}, {took}{fault} {self.body[:200]!r}"


class Exchange:
    """One request under way, in the hands of an action."""

    def __init__(self, request: web.BaseRequest, entry: Entry, session: ClientSession, upstream: str) -> None:
        self.request = request
        self.entry = entry
        self.response: web.StreamResponse | None = None
        self._upstream_response: ClientResponse | None = None
        self._session = session
        self._upstream = upstream

    async def forward(self) -> ClientResponse:
        """The server's answer, of which no byte of the body was read yet."""
        url = URL(self._upstream + self.request.raw_path, encoded=True)
        self.entry.forwarded = True
        self._upstream_response = await self._session.request(
            self.entry.method, url, headers=[*_end_to_end(self.request.headers).items(), UNCOMPRESSED],
            data=self.entry.body or None, allow_redirects=False,
        )  # fmt: skip
        return self._upstream_response

    def close(self) -> None:
        """Let go of the server's answer, read or not."""
        if self._upstream_response is not None:
            self._upstream_response.close()

    async def answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Answer in the server's place."""
        await self._send(web.Response(status=status, body=body, headers=headers))
        await self._end()

    async def begin(self, upstream: ClientResponse) -> web.StreamResponse:
        """Send status and headers of the server's answer; the caller writes the body."""
        response = web.StreamResponse(status=upstream.status, headers=_end_to_end(upstream.headers))
        # The length may not be what the action will write.
        response.headers.popall("Content-Length", None)
        response.enable_chunked_encoding()
        return await self._send(response)

    async def relay(self, upstream: ClientResponse, pieces: AsyncIterator[bytes] | None = None) -> None:
        """Stream the server's answer, or `pieces` as its body, as they come."""
        response = await self.begin(upstream)
        async for piece in pieces if pieces is not None else upstream.content.iter_any():
            await response.write(piece)
        await self._end()

    async def reset(self) -> Never:
        """Tear the connection down, as a crashed load balancer does."""
        self.cut()
        await hang()

    def cut(self) -> None:
        """The same from outside."""
        if (transport := self.request.transport) is not None:
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            transport.abort()

    async def _send(self, response: web.StreamResponse) -> web.StreamResponse:
        self.entry.status, self.response = response.status, response
        await response.prepare(self.request)
        return response

    async def _end(self) -> None:
        if self.response is not None:
            await self.response.write_eof()


def _end_to_end(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in NOT_PASSED_ON)


async def hang() -> Never:
    """Do nothing until the client goes away: the handler is cancelled then."""
    while True:
        await asyncio.sleep(3600)


class Action(Protocol):
    """Action on a request."""

    async def __call__(self, exchange: Exchange) -> None: ...


@dataclass(slots=True)
class Fault:
    """An action, the requests that it is for, and those that it met."""

    action: Action
    matches: Callable[[Entry], bool]
    after: int
    times: float
    met: int = 0
    entries: list[Entry] = field(default_factory=list)

    def takes(self, entry: Entry) -> bool:
        """Tell whether this request is to fail; counts it."""
        if not self.matches(entry):
            return False
        self.met += 1
        if self.met <= self.after or len(self.entries) >= self.times:
            return False
        self.entries.append(entry)
        return True


class FaultProxy:
    """Carries requests to `upstream` between `with` and the end of the block."""

    running: ClassVar[list[FaultProxy]] = []
    """Those of which the logs are shown where a test fails."""

    def __init__(self, upstream: str, authority: Path | None = None) -> None:
        self._upstream = upstream.rstrip("/")
        self._tls = ssl.create_default_context(cafile=str(authority)) if authority else None
        self._faults: list[Fault] = []
        self._open: set[Exchange] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self.log: list[Entry] = []
        self.url = ""

    @contextmanager
    def injecting(
        self,
        action: Action,
        *,
        method: str = "",
        path: str = "",
        watch: bool | None = None,
        after: int = 0,
        times: float = float("inf"),
    ) -> Iterator[Fault]:
        """Do `action` to requests inside the block: at most `times` of those that match, the first `after` left out.

        `method` and `path` are regular expressions, the first for all of it, the second for a part. A block in which
        nothing matched, or what matched was passed on as it was, raises `AssertionError` at its end: a fault that was
        not there proves nothing.
        """

        def matches(entry: Entry) -> bool:
            return (
                re.fullmatch(method or ".*", entry.method) is not None
                and re.search(path, entry.path) is not None
                and watch in (None, entry.is_watch)
            )

        fault = Fault(action, matches, after, times)
        self._faults.append(fault)
        try:
            yield fault
        finally:
            self._faults.remove(fault)
        if not any(entry.changed for entry in fault.entries):
            met = f"{fault.met} matched, {len(fault.entries)} were met, {len(self.log)} came"
            raise AssertionError(f"{action} changed no answer: {met}")

    def cut_watches(self, path: str = "") -> int:
        """Tear down every watch under way whose path `path` (a regular expression) is found in; how many there were."""

        async def cut() -> int:
            found = [e for e in self._open if e.entry.is_watch and re.search(path, e.entry.path)]
            for exchange in found:
                exchange.cut()
            return len(found)

        return asyncio.run_coroutine_threadsafe(cut(), self._loop).result(10)

    def all_watches_live(self, seconds: float) -> bool:
        """Tell whether each path that ever was watched is, and has been for so long, by a watch that the server has."""
        now = time.monotonic()
        watches = [e for e in self.log if e.is_watch]
        living = [e for e in watches if e.forwarded and e.ended_seconds is None and now - e.began_seconds >= seconds]
        return {e.path for e in watches} == {e.path for e in living}

    def since(self, number: int) -> list[Entry]:
        """Requests after the one with this number."""
        return [entry for entry in self.log if entry.number > number]

    def told(self, most: int) -> str:
        """The last requests, one on each line."""
        began = self.log[0].began_seconds if self.log else 0.0
        return "\n".join(entry.told(began) for entry in self.log[-most:])

    def __enter__(self) -> FaultProxy:
        self.running.append(self)
        self._thread.start()
        self.url = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.running.remove(self)
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> str:
        self._session = ClientSession(
            connector=TCPConnector(ssl=self._tls or True, limit=0), timeout=ClientTimeout(total=None),
            auto_decompress=False, read_bufsize=2**20,
        )  # fmt: skip
        server = web.Server(self._serve, access_log=None, handler_cancellation=True)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def _stop(self) -> None:
        await self._runner.cleanup()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._session.close()
        # NB: connections with TLS are still open then; aiohttp's documentation says to wait so long for them.
        await asyncio.sleep(TLS_CLOSING_SECONDS)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        entry = Entry(len(self.log) + 1, request.method, request.path, dict(request.query), time.monotonic())
        self.log.append(entry)
        entry.body = await request.read()
        fault = next((fault for fault in tuple(self._faults) if fault.takes(entry)), None)
        action: Action = carry if fault is None else fault.action
        entry.fault, entry.changed = (None, False) if fault is None else (str(action), True)
        exchange = Exchange(request, entry, self._session, self._upstream)
        self._open.add(exchange)
        try:
            await action(exchange)
        except (ClientError, OSError):
            # The server is gone, or what it sent: so is the connection, for the client too.
            await exchange.reset()
        finally:
            self._open.discard(exchange)
            exchange.close()
            entry.ended_seconds = time.monotonic()
        assert exchange.response is not None, "an action answers, resets or hangs"
        return exchange.response


async def carry(exchange: Exchange) -> None:
    """Pass the request on and stream the answer back."""
    await exchange.relay(await exchange.forward())
