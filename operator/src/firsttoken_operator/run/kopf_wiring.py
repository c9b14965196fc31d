"""Kopf as a watcher of our own kinds and nothing else: every event goes into the store, and kopf never writes.

No timers, daemons, finalizers, annotations or handler results: a single failed patch of kopf's would stop a timer for
good, and a finalizer would keep resources from being deleted while the operator is down.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import aiohttp
import kopf
from kubernetes.aio import client

from firsttoken_operator.act.kubernetes import load_configuration
from firsttoken_operator.act.objects import LARGEST_OBJECT, Json, bounded_event, read_document, read_list
from firsttoken_operator.run.kopf_watches import KopfWatches
from firsttoken_operator.run.reflector import RETRY_SECONDS, Feed
from firsttoken_operator.run.watches import Watched

_PAGE = 25
"""Objects that are listed at once: kopf has the text of a page and the objects in it in memory together."""
_EXIT_SECONDS = 20.0
"""Time after which a graceful exit is forced: below the pod's grace period."""


def registry(
    feed: Feed, kubeconfig: str | None, kinds: Iterable[Watched], watches: KopfWatches
) -> kopf.OperatorRegistry:
    """Handlers that pass every event of these kinds to `feed`, and the login; `watches` is told what is answered."""
    handlers = kopf.OperatorRegistry()

    async def login(**_: Any) -> kopf.AiohttpSession:
        # Read again at every login: after a 401 the token or the certificate authority may have been rotated.
        connection = _connection(await load_configuration(kubeconfig))
        connector = aiohttp.TCPConnector(limit=0, ssl=connection.as_ssl_context())
        session = aiohttp.ClientSession(
            connector=connector, headers=connection.as_http_headers(), response_class=_noted_by(watches)
        )
        return kopf.AiohttpSession(server=connection.server, aiohttp_session=session)

    kopf.on.login(id="login", registry=handlers)(login)
    for watched in kinds:
        kopf.on.event(
            watched.group, watched.version, watched.plural, id=f"watch-{watched.plural}", registry=handlers
        )(_handler(watched, feed))  # fmt: skip
    return handlers


def settings(*, initial_streaming: bool) -> kopf.OperatorSettings:
    """Settings of kopf for watching only."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    chosen.peering.standalone = True
    chosen.scanning.disabled = True
    chosen.watching.initial_streaming = initial_streaming
    chosen.watching.chunk_size = _PAGE
    # NB: for so long kopf keeps the body of an object that it has told of.
    chosen.queueing.idle_timeout = 0.1
    chosen.persistence.diffbase_storage = _NoDiff()
    chosen.networking.connect_timeout = 10
    chosen.networking.request_timeout = 30
    # NB: `KopfWatches` says when it is enough. kopf itself would give up a list and never a watch.
    chosen.networking.error_backoffs = _WithoutEnd()
    chosen.execution.max_workers = 2
    chosen.process.ultimate_exiting_timeout = _EXIT_SECONDS
    return chosen


class _WithoutEnd:
    """Waits between attempts, for as long as it takes."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain(RETRY_SECONDS, itertools.repeat(RETRY_SECONDS[-1]))


class _BoundedResponse(aiohttp.ClientResponse):
    """An answer in which kopf finds no object that is too large or too deep for it."""

    watches: KopfWatches

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        await super().start(connection)
        self.watches.answered(self.url.path, self.status, is_watch="watch" in self.url.query)
        self.content = _BoundedLines(self.content, partial(self.watches.told, self.url.path))  # type: ignore[assignment]
        return self

    async def json(self, **_: Any) -> Any:
        text, items = (await self.read()).decode(), list[Json]()
        if '"items"' not in text:
            return read_document(text)
        return read_list(text, items.append, LARGEST_OBJECT) | {"items": items}


class _BoundedLines:
    """The content of an answer; where it is read piece by piece, it is a watch with an event on each line."""

    def __init__(self, content: aiohttp.StreamReader, told: Callable[[], None]) -> None:
        self._content, self._told = content, told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        begun = b""
        async for chunk in self._content.iter_chunked(size):
            *lines, begun = (begun + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    self._told()
                yield bounded_event(line) + b"\n"
        if begun:
            yield begun


def _noted_by(watches: KopfWatches) -> type[_BoundedResponse]:
    return type("_NotedResponse", (_BoundedResponse,), {"watches": watches})


class _NoDiff(kopf.DiffBaseStorage):
    """Compares nothing: the usual storage copies every object, level by level, for handlers that there are none of."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Keep nothing."""


def _handler(watched: Watched, feed: Feed) -> Callable[..., Any]:
    # NB: async, though it awaits nothing: a plain function would cost a thread switch for every event.
    async def on_event(event: Mapping[str, Any], **_: Any) -> None:
        feed(watched, event["type"], event["object"])

    return on_event


def _connection(configuration: client.Configuration) -> kopf.ConnectionInfo:
    scheme, _, token = str(configuration.api_key.get("BearerToken", "")).partition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        scheme=scheme.capitalize() or None,
        token=token or None,
    )
