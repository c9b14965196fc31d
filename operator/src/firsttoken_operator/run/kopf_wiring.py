"""Kopf as a watcher of our own kinds and nothing else: every event goes into the store, and kopf never writes.

No timers, daemons, finalizers, annotations or handler results: a single failed patch of kopf's would stop a timer for
good, and a finalizer would keep resources from being deleted while the operator is down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import kopf
from kubernetes.aio import client

from firsttoken_operator.act.kubernetes import load_configuration
from firsttoken_operator.run.reflector import RETRY_SECONDS, Feed
from firsttoken_operator.run.watches import Watched

_PAGE = 100
"""Objects that are listed at once: kopf holds the bodies of a page all together."""
_EXIT_SECONDS = 20.0
"""After this long a graceful exit is forced: below the pod's grace period."""


def registry(feed: Feed, kubeconfig: str | None, kinds: Iterable[Watched]) -> kopf.OperatorRegistry:
    """Handlers that pass every event of these kinds to `feed`, and the login."""
    handlers = kopf.OperatorRegistry()

    async def login(**_: Any) -> kopf.ConnectionInfo:
        # Read again at every login: after a 401 the token or the certificate authority may have been rotated.
        return _connection(await load_configuration(kubeconfig))

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
    chosen.networking.error_backoffs = RETRY_SECONDS
    chosen.execution.max_workers = 2
    chosen.process.ultimate_exiting_timeout = _EXIT_SECONDS
    return chosen


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
