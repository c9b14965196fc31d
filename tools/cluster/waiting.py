"""Waiting with a deadline for something another process does. Nothing here sleeps for a fixed time and hopes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

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


ESTABLISHED = '{range .items[*]}{.status.conditions[?(@.type=="Established")].status}{"\\n"}{end}'


def wait_until_established(kubectl: Callable[..., str], seconds: float = 30.0) -> None:
    """Wait until the API server serves every custom resource definition that it has, of which there is at least one.

    `kubectl` runs kubectl and returns its output.

    NB: `kubectl wait` ends with an error where a definition is so new that it has no status.
    """

    def is_established() -> bool:
        said = kubectl("get", "crd", "-o", f"jsonpath={ESTABLISHED}").splitlines()
        return set(said) == {"True"}

    wait_until(is_established, seconds, "every custom resource definition established")
