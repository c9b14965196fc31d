"""Waiting with a deadline for something another process does. Nothing here sleeps for a fixed time and hopes."""

from __future__ import annotations

import json
import ssl
import time
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def wait_until(predicate: Callable[[], T], seconds: float, what: str, *, poll_seconds: float = 0.1) -> T:
    """Call `predicate` until it returns something true, and return that.

    Raises `TimeoutError` naming `what` and the last value seen after `seconds`. What `predicate` raises passes through:
    a predicate that may fail while the system settles catches its own errors.
    """
    deadline = time.monotonic() + seconds
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s; last seen: {value!r}")
        time.sleep(poll_seconds)


def answers(url: str, tls: ssl.SSLContext | None = None) -> bool:
    """Tell whether a server answers here now, and with no error."""
    try:
        urllib.request.urlopen(url, context=tls, timeout=2).close()
    except OSError:
        return False
    return True


def wait_until_established(kubectl: Callable[..., str], seconds: float = 30.0) -> None:
    """Wait until the API server serves every custom resource definition that it has, of which there is at least one.

    `kubectl` runs kubectl and returns its output.

    NB: neither `kubectl wait` nor a JSONPath outlives a definition that is so new that its conditions are null.
    """

    def is_established() -> bool:
        definitions = json.loads(kubectl("get", "crd", "-o", "json"))["items"]
        return bool(definitions) and all(map(_is_established, definitions))

    wait_until(is_established, seconds, "every custom resource definition established")


def _is_established(definition: dict[str, Any]) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
