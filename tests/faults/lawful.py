"""Rules that every log of requests of an operator keeps to, whatever befell it: judged on what the API server took."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from tests.faults.proxy import Entry


def taken(entries: Iterable[Entry], path: str) -> list[Entry]:
    """Writes of this path that the API server had and, as far as is known, did not refuse."""
    found = [e for e in entries if e.is_write and e.path.endswith(path) and e.forwarded]
    return [e for e in found if e.status is None or e.status < 300]


def sent(entry: Entry, *path: str) -> Any:
    """A field of what was sent, or None. Of a JSON patch: what its last operation puts there, below its own path."""
    value = json.loads(entry.body)
    if isinstance(value, list):
        value = {value[-1]["path"].removeprefix("/"): value[-1]["value"]}
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def assert_lawful(entries: list[Entry], name: str, *, least: int, most: int, deleted: int) -> None:
    """Replicas within their bounds, generations that only grow, and no write after request number `deleted`."""
    scaled = [sent(e, "spec", "replicas") for e in taken(entries, f"/deployments/{name}/scale")]
    assert scaled, "what was never scaled proves nothing"
    assert all(least <= replicas <= most for replicas in scaled), scaled
    # NB: a status that was not answered, because its writer was killed, may never have been taken.
    told = [
        sent(entry, "status", "observedGeneration")
        for entry in taken(entries, f"/inferencedeployments/{name}/status")
        if entry.status is not None
    ]
    generations = [generation for generation in told if generation is not None]
    assert generations, "a status without a generation proves nothing"
    assert all(before <= after for before, after in pairwise(generations)), generations
    for path in (f"/deployments/{name}/scale", f"/deployments/{name}", f"/inferencedeployments/{name}/status"):
        late = [e for e in taken(entries, path) if e.number > deleted]
        assert not late, f"written after its deletion: {late[0].method} {late[0].path} {late[0].body!r}"
