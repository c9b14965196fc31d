"""Actions on a request on its way: each is given the exchange and answers, resets or hangs.

One that may leave an answer as it is says in `entry.changed` whether it did.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.faults.proxy import Exchange, carry, hang

JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer in the server's place, which never has the request."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.answer(self.status, self.body, self.headers)


def refused(status: int, message: str, *, retry_after_seconds: int | None = None) -> Answer:
    """A refusal as an API server words it."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": status}
    retry = {} if retry_after_seconds is None else {"Retry-After": str(retry_after_seconds)}
    return Answer(status, json.dumps(body).encode(), JSON | retry)


@dataclass(frozen=True, slots=True)
class Delay:
    """Pass the request on only after so many seconds."""

    seconds: float

    async def __call__(self, exchange: Exchange) -> None:
        await asyncio.sleep(self.seconds)
        await carry(exchange)


@dataclass(frozen=True, slots=True)
class Hang:
    """Accept the request and never answer."""

    async def __call__(self, exchange: Exchange) -> None:
        await hang()


@dataclass(frozen=True, slots=True)
class Reset:
    """Tear the connection down, before or after the server had the request."""

    forwarding: bool = False

    async def __call__(self, exchange: Exchange) -> None:
        if self.forwarding:
            await (await exchange.forward()).read()
        await exchange.reset()


@dataclass(frozen=True, slots=True)
class Drip:
    """Send the answer at so many bytes a second."""

    bytes_per_second: float = 1.0

    async def __call__(self, exchange: Exchange) -> None:
        upstream = await exchange.forward()

        async def drops() -> AsyncIterator[bytes]:
            async for piece in upstream.content.iter_any():
                for byte in piece:
                    yield bytes([byte])
                    await asyncio.sleep(1 / self.bytes_per_second)

        await exchange.relay(upstream, drops())


@dataclass(frozen=True, slots=True)
class Truncate:
    """Send the first bytes of the answer and tear the connection down."""

    after_bytes: int

    async def __call__(self, exchange: Exchange) -> None:
        upstream = await exchange.forward()
        response = await exchange.begin(upstream)
        left = self.after_bytes
        async for piece in upstream.content.iter_any():
            await response.write(piece[:left])
            left -= len(piece)
            if left <= 0:
                break
        await exchange.reset()


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Change the whole answer."""

    change: Callable[[bytes], bytes]

    async def __call__(self, exchange: Exchange) -> None:
        upstream = await exchange.forward()
        content = await upstream.read()
        changed = self.change(content)
        exchange.entry.changed = changed != content

        async def whole() -> AsyncIterator[bytes]:
            yield changed

        await exchange.relay(upstream, whole())


Event = dict[str, Any]
"""One watch event: `{"type": ..., "object": ...}`."""


@dataclass(frozen=True, slots=True)
class WatchEvents:
    """Change the events of a watch: each one becomes those that `change` makes of it, dropped, repeated or others."""

    change: Callable[[Event], list[Event]]

    async def __call__(self, exchange: Exchange) -> None:
        exchange.entry.changed = False
        upstream = await exchange.forward()

        async def events() -> AsyncIterator[bytes]:
            async for line in upstream.content:
                event = json.loads(line)
                made = self.change(event)
                exchange.entry.changed |= made != [event]
                for each in made:
                    yield json.dumps(each).encode() + b"\n"

        await exchange.relay(upstream, events())


def dropped(event: Event) -> list[Event]:
    """An event that is lost on the way; bookmarks are not, so that the watcher cannot tell."""
    return [event] if event["type"] == "BOOKMARK" else []


def repeated(event: Event) -> list[Event]:
    """An event that comes three times."""
    return [event] * 3


class Reordered:
    """Each event comes after the one that followed it."""

    def __init__(self) -> None:
        self._held: deque[Event] = deque()

    def __call__(self, event: Event) -> list[Event]:
        """The event that was held back comes after this one."""
        if event["type"] == "BOOKMARK":
            return [event]
        if not self._held:
            self._held.append(event)
            return []
        return [event, self._held.popleft()]


@dataclass(frozen=True, slots=True)
class Interject:
    """Put a line before each event of a watch, and before there is any: one that is empty, or no JSON."""

    line: bytes

    async def __call__(self, exchange: Exchange) -> None:
        upstream = await exchange.forward()

        async def lines() -> AsyncIterator[bytes]:
            yield self.line + b"\n"
            async for event in upstream.content:
                yield event
                yield self.line + b"\n"

        await exchange.relay(upstream, lines())


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """Take a watch as the server does, and pass on nothing of what it says: no event, no bookmark and no end."""

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.begin(await exchange.forward())
        await hang()


@dataclass(frozen=True, slots=True)
class WatchError:
    """Answer a watch with an ERROR event, as when its history was compacted (410) or the server failed (500)."""

    code: int

    async def __call__(self, exchange: Exchange) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": self.code, "message": "injected"}
        line = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
        await exchange.answer(200, line, JSON)


class Snapshot:
    """Answers with what the server answered the first time, however old that is: a replica behind the others."""

    def __init__(self) -> None:
        self._answers: dict[str, bytes] = {}

    async def __call__(self, exchange: Exchange) -> None:
        """Remember the answer of each path, or repeat the remembered one."""
        path = exchange.request.raw_path
        if path in self._answers:
            await exchange.answer(200, self._answers[path], JSON)
            return
        exchange.entry.changed = False
        upstream = await exchange.forward()
        self._answers[path] = await upstream.read()
        await exchange.answer(upstream.status, self._answers[path], JSON)


class Kill:
    """Calls `kill` before or after the server had the request; the client never has an answer."""

    def __init__(self, kill: Callable[[], object], *, forwarding: bool) -> None:
        self._kill, self._forwarding = kill, forwarding
        self.done = threading.Event()

    async def __call__(self, exchange: Exchange) -> None:
        """Kill once."""
        if self._forwarding:
            await (await exchange.forward()).read()
        self._kill()
        self.done.set()
        await exchange.reset()
