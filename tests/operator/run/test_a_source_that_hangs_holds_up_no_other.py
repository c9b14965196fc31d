"""A Prometheus that does not answer: no tick waits for it twice, it is asked ever less often, and it is heard again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from firsttoken_operator.domain import Metrics, Missing, Reason
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run import reading
from firsttoken_operator.run.measuring import Measuring
from firsttoken_operator.run.reading import NoReading, SourceReader, read_all
from firsttoken_operator.run.settings import Settings
from tests.operator.observe.bodies import EPOCH, deployment, inference_deployment
from tests.operator.observe.fault_server import FaultServer, black_hole, document, vector

ANSWER, NO_ANSWER = "answer", "no answer"


class Source:
    """Answers at once, or owes an answer until `give_up`, which its deadline is for."""

    def __init__(self) -> None:
        self.hangs = False
        self.asked = 0
        self._owed: asyncio.Future[str] | None = None
        self.reader = SourceReader(self.read, lambda said: said == ANSWER, time.monotonic)

    async def read(self) -> str:
        self.asked += 1
        if not self.hangs:
            return ANSWER
        self._owed = asyncio.get_running_loop().create_future()
        return await self._owed

    async def give_up(self) -> None:
        await self.say(NO_ANSWER)

    async def say(self, what: str) -> None:
        if self._owed is not None and not self._owed.done():
            self._owed.set_result(what)
        for _ in range(3):
            await asyncio.sleep(0)


@pytest.fixture
async def source(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Source]:
    """Waited for in milliseconds."""
    monkeypatch.setattr(reading, "LEAST_WAIT_SECONDS", 0.02)
    monkeypatch.setattr(reading, "FIRST_WAIT_SECONDS", 0.02)
    made = Source()
    yield made
    made.reader.close()


async def tick(source: Source) -> tuple[str | NoReading, bool]:
    """Run one tick: what it said, and whether it was asked; what it owes after the tick meets its deadline."""
    before = source.asked
    said = (await read_all({"slow": source.reader, "other": Source().reader}))["slow"]
    await source.give_up()
    return said, source.asked > before


async def test_what_happens_when_it_hangs_and_comes_back(source: Source) -> None:
    """The table of `run/reading.py`."""
    assert await tick(source) == (ANSWER, True)
    source.hangs = True
    ticks = [await tick(source) for _ in range(2, 18)]
    asked = [number for number, (_, was_asked) in enumerate(ticks, 2) if was_asked]
    source.hangs = False
    back = [await tick(source) for _ in range(18, 26)]

    assert [said for said, _ in ticks] == [NoReading.AWAITED, *[NoReading.MISSING] * 15]
    assert asked == [2, 3, 5, 9, 17]
    assert [number for number, (_, was_asked) in enumerate(back, 18) if was_asked] == [25]
    assert await tick(source) == (ANSWER, True)


async def test_an_answer_that_came_late_makes_it_count_again_at_the_next_tick(source: Source) -> None:
    source.hangs = True
    first = (await read_all({"slow": source.reader, "other": Source().reader}))["slow"]
    assert first is NoReading.AWAITED
    source.hangs = False
    await source.say(ANSWER)

    assert await tick(source) == (ANSWER, True)


async def test_it_is_awaited_once_however_often_it_answers_late(source: Source) -> None:
    source.hangs = True
    said = []
    for _ in range(4):
        said.append((await read_all({"slow": source.reader, "other": Source().reader}))["slow"])
        await source.say(ANSWER)

    assert said == [NoReading.AWAITED, NoReading.MISSING, NoReading.AWAITED, NoReading.MISSING]


async def test_it_is_asked_one_question_at_a_time(source: Source) -> None:
    source.hangs = True
    for _ in range(3):
        await read_all({"slow": source.reader, "other": Source().reader})

    assert source.asked == 1


async def test_one_that_says_at_once_that_it_cannot_answer_is_asked_at_every_tick(source: Source) -> None:
    async def refuse() -> str:
        source.asked += 1
        return NO_ANSWER

    reader = SourceReader(refuse, lambda said: said == ANSWER, time.monotonic)
    said = [(await read_all({"slow": reader, "other": Source().reader}))["slow"] for _ in range(12)]

    assert (source.asked, set(said)) == (12, {NO_ANSWER})


async def test_a_fault_in_reading_one_is_its_own(caplog: pytest.LogCaptureFixture) -> None:
    faults = iter([ValueError("odd"), None])

    async def read() -> str:
        if (fault := next(faults)) is not None:
            raise fault
        return ANSWER

    readers = {"odd": SourceReader(read, lambda said: said == ANSWER, time.monotonic), "other": Source().reader}

    assert await read_all(readers) == {"odd": NoReading.MISSING, "other": ANSWER}
    assert "odd" in caplog.text
    assert await read_all(readers) == {"odd": ANSWER, "other": ANSWER}


@pytest.mark.parametrize("beside", [0, 1], ids=["alone", "beside a quick one"])
async def test_a_source_that_is_slow_as_ever_is_waited_for(beside: int) -> None:
    async def slow() -> str:
        await asyncio.sleep(0.2)
        return ANSWER

    reader = SourceReader(slow, lambda said: said == ANSWER, time.monotonic)
    readers = {"slow": reader} | ({"other": Source().reader} if beside else {})

    assert [(await read_all(readers))["slow"] for _ in range(3)] == [ANSWER] * 3


async def test_one_that_is_alone_has_all_the_time_it_takes(source: Source) -> None:
    source.hangs = True
    tick = asyncio.create_task(read_all({"slow": source.reader}))
    await asyncio.sleep(0.1)  # five times what another source would wait for it
    assert not tick.done()
    await source.say(ANSWER)

    assert await tick == {"slow": ANSWER}


async def test_a_tick_with_one_that_hangs_takes_less_than_its_deadline() -> None:
    store = Store()
    store.feed("Deployment", None, deployment())
    store.feed("InferenceDeployment", None, inference_deployment())
    with FaultServer(black_hole) as slow, FaultServer(document(vector())) as good:
        settings = Settings.model_validate({
            "tickSeconds": 60.0, "prometheus": {"slow": {"url": slow.url}, "default": {"url": good.url}},
        })  # fmt: skip
        measuring, seconds, seen = Measuring(settings), [], []
        for _ in range(3):
            began = time.monotonic()
            seen += (await measuring.metrics(store, EPOCH)).values()
            seconds.append(time.monotonic() - began)
        measuring.close()

    deadline_seconds = 10.0
    assert max(seconds) < deadline_seconds / 2
    # It is waited for once. Where the machine is busy the healthy one may take long, too, but not at every tick.
    assert min(seconds[1:]) < reading.LEAST_WAIT_SECONDS
    # On a machine that is busy enough the healthy one may be late too, once.
    assert Reason.NO_READY_PODS in {health_reason(metrics) for metrics in seen}, "the healthy source was read"


async def test_what_it_measures_is_awaited_for_a_tick_and_missing_from_then_on() -> None:
    store = Store()
    store.feed("Deployment", None, deployment())
    for name in ("slow", "default"):
        declared = inference_deployment(name)
        declared["spec"]["metrics"] = {"source": name}
        store.feed("InferenceDeployment", None, declared)
    with FaultServer(document(vector())) as slow, FaultServer(document(vector())) as good:
        settings = Settings.model_validate({
            "tickSeconds": 60.0, "prometheus": {"slow": {"url": slow.url}, "default": {"url": good.url}},
        })  # fmt: skip
        measuring = Measuring(settings)
        seen = [await measuring.metrics(store, EPOCH)]
        slow.answer = black_hole
        began = time.monotonic()
        seen += [await measuring.metrics(store, EPOCH) for _ in range(2)]
        took_seconds = time.monotonic() - began
        measuring.close()

    assert [found["uid-slow"].awaited for found in seen] == [False, True, False]
    assert health_reason(seen[-1]["uid-slow"]) is Reason.SOURCE_UNREACHABLE
    assert {health_reason(found["uid-default"]) for found in seen} == {Reason.NO_READY_PODS}
    assert took_seconds < reading.FIRST_WAIT_SECONDS


def health_reason(metrics: Metrics) -> Reason:
    assert isinstance(metrics.arrivals, Missing)
    return metrics.arrivals.reason
