"""The past of each resource is read once after the start, off the loop; a source without it is asked an hour later."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from types import MappingProxyType
from urllib.parse import parse_qs, urlsplit

import pytest

from firsttoken_operator.decide import Memory
from firsttoken_operator.domain import FleetSnapshot, Reason, TargetMissing
from firsttoken_operator.estimate import ResourceMemory
from firsttoken_operator.families import FAMILIES, FAMILY, VLLM
from firsttoken_operator.observe.history import presence_query
from firsttoken_operator.observe.prometheus import SourceConfig
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.history import AGAIN_SECONDS, Histories
from firsttoken_operator.run.settings import Settings
from tests.operator.decide.builders import TICK_SECONDS, metrics, resource, target
from tests.operator.observe.bodies import NAMESPACE, inference_deployment
from tests.operator.observe.fault_server import FaultServer, body

pytestmark = pytest.mark.slow

NOW = 1_790_000_000.0
SEEN = replace(resource(target(5), metrics(20.0)), namespace=NAMESPACE, name="rag")
SNAPSHOT = FleetSnapshot(9.0, TICK_SECONDS, (SEEN,))
MEMORY = Memory(resources=MappingProxyType({SEEN.uid: ResourceMemory("d-1", "key", 5)}))
DEADLINE_SECONDS = 10.0


def two_weeks(warnings: tuple[str, ...] = ()) -> object:
    """A Prometheus that knows 12 requests a second of the Deployment `nim`, and as much of another."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
        at = range(int(asked["start"]), int(asked["end"]) + 1, int(asked["step"]))
        values = [[t, "12"] for t in at]
        series = [
            {"metric": {"namespace": NAMESPACE, "deployment": name}, "values": values} for name in ("nim", "other")
        ]
        known = "(vllm:" in asked["query"]
        if asked["query"] == presence_query(FAMILIES):
            series, known = [{"metric": {FAMILY: VLLM.name}, "values": values}], True
        data = {"resultType": "matrix", "result": series if known else []}
        body(json.dumps({"status": "success", "data": data, "warnings": list(warnings)}).encode())(request)

    return answer


class Clock:
    """Seconds that pass when told."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer(two_weeks()) as server:  # type: ignore[arg-type]
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> Store:
    store = Store()
    store.feed("InferenceDeployment", None, inference_deployment("rag", uid=SEEN.uid))
    return store


@pytest.fixture
def histories(server: FaultServer, clock: Clock) -> Iterator[Histories]:
    made = Histories({"default": SourceConfig("default", server.url)}, Settings().timing, clock, lambda: NOW)
    yield made
    made.close()


async def settled(histories: Histories, store: Store, memory: Memory = MEMORY) -> Memory:
    """Tick until what is being read has been taken."""
    ends = time.monotonic() + DEADLINE_SECONDS
    memory = histories.seeded(memory, SNAPSHOT, store)
    while histories.is_reading:
        assert time.monotonic() < ends, "the reading does not end"
        await asyncio.sleep(0.01)
        memory = histories.seeded(memory, SNAPSHOT, store)
    return memory


async def test_what_was_learned_is_put_into_the_memory(histories: Histories, store: Store) -> None:
    memory = await settled(histories, store)
    known = memory.resources[SEEN.uid]

    assert known.forecast is not None
    assert min(known.forecast.season.day_seen) >= 2
    assert known.forecast.samples == 14 * 144
    assert replace(known, forecast=None) == MEMORY.resources[SEEN.uid]


async def test_it_is_asked_for_once(histories: Histories, store: Store, server: FaultServer, clock: Clock) -> None:
    await settled(histories, store)
    asked = len(server.requests)
    clock.now += 2 * AGAIN_SECONDS
    memory = await settled(histories, store)

    assert asked == (1 + 1) * 14, "which families there were, and what arrived at the only one"
    assert len(server.requests) == asked
    assert memory == MEMORY, "and given once"


async def test_a_memory_of_another_target_is_left_alone(histories: Histories, store: Store) -> None:
    other = Memory(resources=MappingProxyType({SEEN.uid: ResourceMemory("d-2", "key", 5)}))

    assert await settled(histories, store, other) == other


async def test_a_resource_without_a_target_is_not_asked_for(histories: Histories, store: Store) -> None:
    missing = replace(SEEN, target=TargetMissing(Reason.TARGET_NOT_FOUND, "gone"))

    assert histories.seeded(Memory(), replace(SNAPSHOT, resources=(missing,)), store) == Memory()
    assert not histories.is_reading


@pytest.mark.parametrize("failing", [body(b"", status=503), two_weeks(warnings=("one store is down",))])
async def test_a_source_that_fails_is_told_of_once_and_asked_again_an_hour_later(
    failing: object,
    histories: Histories,
    store: Store,
    server: FaultServer,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.answer = failing  # type: ignore[assignment]
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert await settled(histories, store) == MEMORY
            clock.now += AGAIN_SECONDS / 2
    asked = len(server.requests)
    server.answer = two_weeks()  # type: ignore[assignment]
    clock.now += AGAIN_SECONDS
    memory = await settled(histories, store)

    assert asked == 2, "at once and after an hour, not in between"
    said = [record.message.partition("): ")[0] for record in caplog.records]
    assert said == [f'no past from source "default" ({server.url}']
    assert memory.resources[SEEN.uid].forecast is not None


async def test_a_source_that_never_answers_holds_up_no_other(
    histories: Histories, store: Store, server: FaultServer
) -> None:
    given_up = threading.Event()

    def silent(_: BaseHTTPRequestHandler) -> None:
        server.stopping.wait(DEADLINE_SECONDS)
        given_up.set()

    server.answer = silent
    began = time.monotonic()
    for _ in range(20):
        assert histories.seeded(MEMORY, SNAPSHOT, store) == MEMORY
        await asyncio.sleep(0)
    assert not given_up.is_set(), "no call waits for the answer"
    histories.close()
    while any(thread.name.startswith("history") for thread in threading.enumerate()):
        assert time.monotonic() - began < DEADLINE_SECONDS / 2, "closing ends the query under way"
        await asyncio.sleep(0.02)
