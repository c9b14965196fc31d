"""Arrivals that ask for more replicas make the next tick come early; nothing else does, and not too often."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import cast

import pytest

from firsttoken_operator.act.kubernetes import ObjectRef
from firsttoken_operator.domain import Metrics, Missing, Reason
from firsttoken_operator.families import FAMILIES, NIM1, VLLM
from firsttoken_operator.observe import arriving
from firsttoken_operator.observe.arriving import Arriving
from firsttoken_operator.observe.gateway import GatewayCounter
from firsttoken_operator.observe.source import Sample, Vector
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.lookout import Lookout
from firsttoken_operator.run.loop import LEAST_INTERVAL_SHARE, Loop
from firsttoken_operator.run.measuring import Measuring
from firsttoken_operator.run.settings import Settings
from firsttoken_operator.run.sizer import Sizer
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.decide.builders import metrics
from tests.operator.observe.bodies import NAMESPACE, deployment, inference_deployment, pod, replica_set
from tests.operator.run.looped import looped
from tests.operator.run.sizings import settled

REF = ObjectRef("firsttoken.dev/v1alpha1", "InferenceDeployment", NAMESPACE, "rag")
TARGET = ObjectRef("apps/v1", "Deployment", NAMESPACE, "nim")
TICK_SECONDS = 9.0
"""Long enough that a busy machine looks in between."""
QUIET, STEP = 0.5, 500.0
FIRST = ((NAMESPACE, "p0"),)


class Traffic:
    """A Prometheus whose pods have this load; asked by ticks and by the lookout."""

    names = ("default",)

    def __init__(self) -> None:
        self.load, self.step = QUIET, STEP
        self.follows = True
        self.ticks: list[float] = []
        self.looks = 0

    async def metrics(self, store: Store, wall_seconds: float) -> Mapping[str, Metrics]:
        self.ticks.append(asyncio.get_running_loop().time())
        load = self.load if self.follows else QUIET
        return {uid: replace(metrics(load)) for uid in store.resources}

    async def arriving(self, name: str) -> Arriving:
        self.looks += 1
        return Arriving({FIRST[0]: self.load})

    def outcomes(self) -> Mapping[tuple[str, str], int]:
        return {}


class Process:
    """A loop that runs over one resource of two replicas, with a lookout beside it."""

    def __init__(self, *, leads: bool = True) -> None:
        self.traffic = Traffic()
        resource = inference_deployment("rag")
        self.cluster = FakeCluster({REF: resource | {"status": {}}, TARGET: deployment("nim", replicas=2)})
        self.store, self.sizer = Store(), Sizer()
        self.store.feed("InferenceDeployment", None, resource)
        self.store.feed("Deployment", None, deployment("nim", replicas=2))
        self.store.feed("ReplicaSet", None, replica_set())
        for number in range(2):
            self.store.feed("Pod", None, pod(f"p{number}", ready=1))
        settings = Settings.model_validate({"tickSeconds": TICK_SECONDS})
        _, parts = looped(self.cluster, self.store, settings, sizer=self.sizer, leads=lambda: leads)
        lookout = Lookout(self.traffic.names, self.traffic.arriving, TICK_SECONDS)
        self.parts = replace(parts, measuring=cast(Measuring, self.traffic), lookout=lookout)
        self.loop = Loop(settings, self.parts)

    async def run(self, *waits: float) -> list[float]:
        """Run; after each wait the load is stepped up. The ticks, in seconds since the first of them."""
        await settled(self.sizer, self.store)
        stop = asyncio.Event()
        tasks = [
            asyncio.create_task(self.loop.run(stop)),
            asyncio.create_task(self.parts.lookout.run(self.parts.leads)),
        ]
        for wait in waits:
            await asyncio.sleep(wait)
            self.traffic.load = self.traffic.step
        stop.set()
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return [at - self.traffic.ticks[0] for at in self.traffic.ticks]

    @property
    def replicas(self) -> int:
        return int(self.cluster.objects[TARGET]["spec"]["replicas"])


async def test_a_step_is_decided_before_the_next_tick_is_due() -> None:
    process = Process()
    ticks = await process.run(0.3, 0.8 * TICK_SECONDS)

    assert early(process) == 1
    assert 0.9 * LEAST_INTERVAL_SHARE * TICK_SECONDS <= ticks[1] < TICK_SECONDS
    assert process.replicas > 2


async def test_a_load_that_stays_makes_no_tick_come_early() -> None:
    process = Process()
    process.traffic.step = QUIET
    await process.run(0.1, 0.8 * TICK_SECONDS)

    assert process.traffic.looks >= 1
    assert early(process) == 0


async def test_a_tick_that_came_for_nothing_is_not_repeated_before_it_is_due() -> None:
    process = Process()
    process.traffic.follows = False
    ticks = await process.run(0.1, (1 + LEAST_INTERVAL_SHARE) * TICK_SECONDS)

    assert early(process) == 1
    assert all(later - tick >= 0.9 * TICK_SECONDS for tick, later in pairwise(ticks[1:]))
    assert process.replicas == 2


async def test_one_that_stands_by_asks_nothing_between_two_ticks() -> None:
    process = Process(leads=False)
    await process.run(0.1, 0.5 * TICK_SECONDS)

    assert process.traffic.looks == 0
    assert early(process) == 0


async def test_a_lookout_that_fails_stops_neither_itself_nor_the_ticks(caplog: pytest.LogCaptureFixture) -> None:
    process = Process()

    async def failing(name: str) -> Arriving:
        process.traffic.looks += 1
        raise ValueError("a fault of ours")

    process.parts.lookout._arriving = failing
    ticks = await process.run(0.1, 1.2 * TICK_SECONDS)

    assert process.traffic.looks >= 2
    assert len(ticks) >= 2
    assert "the lookout failed" in caplog.text


def early(process: Process) -> float:
    """Ticks that came early."""
    return float(process.parts.metrics.registry.get_sample_value("firsttoken_early_ticks_total") or 0.0)


async def test_without_a_source_the_lookout_waits_and_does_not_end() -> None:
    lookout = Lookout((), Traffic().arriving, TICK_SECONDS)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lookout.run(lambda: True), 0.1)


class Script:
    def __init__(self, answer: Vector | Missing) -> None:
        self.answer, self.asked = answer, list[str]()

    async def query(self, promql: str) -> Vector | Missing:
        self.asked.append(promql)
        return self.answer


COUNTER = GatewayCounter("requests_total", "backend_namespace", "backend")


async def test_one_query_asks_for_every_family_that_there_is_and_the_gateway() -> None:
    pods = Sample({"namespace": NAMESPACE, "pod": "p0"}, 3.0, 0.0), Sample({"namespace": "b", "pod": "p0"}, 4.0, 0.0)
    gateway = Sample({"backend_namespace": NAMESPACE, "backend": "nim"}, 7.0, 0.0)
    source = Script(Vector((*pods, gateway)))

    found = await arriving.ask(source, (VLLM, NIM1), COUNTER, 60.0)

    assert len(source.asked) == 1
    assert found.of(FIRST, (NAMESPACE, "other")) == 3.0
    assert found.of(FIRST, (NAMESPACE, "nim")) == 7.0
    assert found.of([*FIRST, ("b", "p0"), (NAMESPACE, "unseen")], ("", "")) == 7.0


@pytest.mark.parametrize("answer", [Missing(Reason.SERVER_ERROR, "HTTP 503"), Vector(())])
async def test_without_an_answer_nothing_arrives(answer: Vector | Missing) -> None:
    assert (await arriving.ask(Script(answer), FAMILIES, COUNTER, 60.0)).of(FIRST, (NAMESPACE, "nim")) == 0.0


async def test_where_there_is_no_family_and_no_gateway_nothing_is_asked() -> None:
    source = Script(Vector(()))

    assert await arriving.ask(source, (), None, 60.0) == Arriving()
    assert source.asked == []
