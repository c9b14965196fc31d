"""A sizer that is given time, and one that is held up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from firsttoken_operator.act.status import Answer
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run import question
from firsttoken_operator.run.sizer import Sizer


def stored(*documents: dict[str, Any]) -> Store:
    """A store with these resources, `r-0`, `r-1` and so on by uid."""
    store = Store()
    for number, document in enumerate(documents):
        document["metadata"] |= {"uid": f"r-{number}", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
        store.feed("InferenceDeployment", "ADDED", document)
    return store


def edit(store: Store, document: dict[str, Any], **spec: Any) -> None:
    """Change the spec of a resource."""
    document["metadata"] = document["metadata"] | {"generation": document["metadata"]["generation"] + 1}
    document["spec"] = document["spec"] | spec
    store.feed("InferenceDeployment", "MODIFIED", document)


async def tick(sizer: Sizer, store: Store) -> Mapping[str, Answer]:
    """Answers in force at a tick."""
    return await sizer.answers(store.resources.values(), store.pools.values(), store.profiles.values(), store.tenancy)


async def rest(sizer: Sizer) -> None:
    """Wait until nothing is left to answer."""
    while sizer.is_working:
        await asyncio.sleep(0.005)


async def settled(sizer: Sizer, store: Store) -> Mapping[str, Answer]:
    """Answers in force once everything that a tick asks is answered."""
    await tick(sizer, store)
    await rest(sizer)
    return await tick(sizer, store)


def told(answers: Mapping[str, Answer]) -> dict[str, str]:
    """Verdict on each resource: that it is sized, or why not."""
    return {uid: getattr(answer.sized, "reason", "Sized") for uid, answer in answers.items()}


class Held:
    """Sizings that wait until they are let through, and what was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self._gate = threading.Semaphore(0)

    def let(self, count: int = 1_000_000) -> None:
        """Let so many through."""
        self._gate.release(count)

    async def began(self, count: int) -> None:
        """Wait until so many have begun."""
        while len(self.asked) < count:
            await asyncio.sleep(0.005)

    def size(self, request: Any, **options: Any) -> Any:
        """Size, once it is let through."""
        self.asked.append(request)
        self._gate.acquire()
        return self.real(request, **options)

    real = staticmethod(question.size)


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """Hold up every sizing of the block; its end lets all of them through."""
    gate = Held()
    monkeypatch.setattr(question, "size", gate.size)
    try:
        yield gate
    finally:
        gate.let()
