"""10,000 pods and 2,000 autoscalers of others: listed page by page, hardly kept, and no part of what is decided."""

from __future__ import annotations

import asyncio
import copy
import json
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import pytest

from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.reflector import Reflector
from firsttoken_operator.run.watches import WATCHED
from tests.operator.observe.bodies import EPOCH, autoscaler, deployment, pod, replica_set

PODS, AUTOSCALERS = 10_000, 2_000
MEBIBYTE = 2**20
MOST_KEPT_MEBIBYTES, MOST_MEBIBYTES = 12.0, 24.0
"""Beside what there was before: of 40 MiB of pods as they are sent."""
KINDS = {kind.kind: kind for kind in WATCHED}
LONG = {"annotations": {"example.com/of-a-sidecar": "x" * 3500}}
Body = dict[str, Any]


class Server:
    """Lists that are made page by page, so that only the reader can keep anything of them."""

    def __init__(self, *ours: Body) -> None:
        self._ours = {"Pod": ours, "HorizontalPodAutoscaler": ()}

    async def page(self, path: str, query: Mapping[str, str], largest_bytes: float, *, metadata_only: bool) -> str:
        begin = int(query.get("continue", 0))
        items = [body for _, body in zip(range(int(query["limit"])), self._from(path, begin), strict=False)]
        end = begin + len(items)
        more = "" if end >= (PODS + len(self._ours["Pod"]) if path.endswith("pods") else AUTOSCALERS) else str(end)
        return json.dumps({"metadata": {"resourceVersion": "9", "continue": more}, "items": items})

    async def watch(self, path: str, query: Mapping[str, str], *, metadata_only: bool) -> AsyncIterator[Body | None]:
        yield None
        await asyncio.Event().wait()

    def _from(self, path: str, begin: int) -> Iterator[Body]:
        if not path.endswith("pods"):
            yield from (autoscaler(f"h{i}", target=f"web-{i}", **LONG) for i in range(begin, AUTOSCALERS))
            return
        for i in range(begin, PODS):
            yield pod(f"web-{i}", of=f"web-{i % 500}", gpus=0, ready=1, labels={"app": f"web-{i % 500}"}, **LONG)
        yield from copy.deepcopy(self._ours["Pod"])


@pytest.mark.slow
async def test_they_are_read_past_and_ours_are_found_among_them() -> None:
    store, server = Store(), Server(pod("nim-a", ready=1), pod("nim-b", ready=1))
    store.feed("Deployment", None, deployment(replicas=2))
    store.feed("ReplicaSet", None, replica_set())
    reflectors = [
        Reflector(server, KINDS[kind], "", lambda kind, told, body: store.feed(kind.kind, told, body))  # type: ignore[arg-type]
        for kind in ("Pod", "HorizontalPodAutoscaler")
    ]
    tracemalloc.start()
    tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
    while not all(reflector.listed for reflector in reflectors):
        assert not any(task.done() for task in tasks)
        await asyncio.sleep(0.05)
    kept, most = (size / MEBIBYTE for size in tracemalloc.get_traced_memory())
    tracemalloc.stop()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    print(f"{kept:.1f} MiB kept, {most:.1f} MiB at most")
    assert {live.name for live in store.live_pods("uid-nim", EPOCH)} == {"nim-a", "nim-b"}
    assert kept < MOST_KEPT_MEBIBYTES
    assert most < MOST_MEBIBYTES
