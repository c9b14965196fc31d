"""Kopf as a watcher and nothing else: every event goes into the store, and kopf never writes.

No timers, daemons, finalizers, annotations or handler results: a single failed patch of kopf's would stop a timer for
good, and a finalizer would keep resources from being deleted while the operator is down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import kopf
from kubernetes.aio import client

from firsttoken_operator.act.kubernetes import PAGE, load_configuration
from firsttoken_operator.run.watches import WATCHED, Watched

Feed = Callable[[Watched, str | None, Mapping[str, Any]], None]
"""Takes one watch event: the kind, its type (None: listed, ADDED, MODIFIED, DELETED) and the object."""

_RETRY_SECONDS = (1.0, 2.0, 3.0, *(5.0,) * 18)
"""How long to wait before a watch is tried again: for 96 s, so that an API server that starts anew ends no operator."""
_EXIT_SECONDS = 20.0
"""After this long a graceful exit is forced: below the pod's grace period."""


def registry(feed: Feed, kubeconfig: str | None, kinds: tuple[Watched, ...]) -> kopf.OperatorRegistry:
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
    chosen.watching.chunk_size = PAGE
    # NB: for so long kopf keeps the body of an object that it has told of; bodies of ten thousand pods are 300 MiB.
    chosen.queueing.idle_timeout = 0.1
    chosen.networking.connect_timeout = 10
    chosen.networking.request_timeout = 30
    chosen.networking.error_backoffs = _RETRY_SECONDS
    chosen.execution.max_workers = 2
    chosen.process.ultimate_exiting_timeout = _EXIT_SECONDS
    for watched in WATCHED:
        if watched.field_selector:
            # NB: a key "v1/pods" would silently select nothing; it has to be the tuple.
            key = (watched.group, watched.version, watched.plural)
            chosen.watching.field_selectors[key] = watched.field_selector
    return chosen


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
