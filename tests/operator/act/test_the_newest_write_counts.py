"""The queue over an API server that is slow, fails or is silent: of what is state, the newest is written, once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

import pytest

from firsttoken_operator.act.backlog import Budget, Key, Priority
from firsttoken_operator.act.errors import ClusterError, NotFound, Rejected, Throttled, Unavailable
from firsttoken_operator.act.queue import WriteQueue

STATUS = Key("a", "status")
SCALE = Key("a", "scale")


class Written:
    """Writes in their order; `errors` come first."""

    def __init__(self, *errors: ClusterError) -> None:
        self.done: list[str] = []
        self.errors = list(errors)
        self.gate = asyncio.Event()
        self.gate.set()

    def write(self, text: str) -> Callable[[], Awaitable[str]]:
        async def write() -> str:
            await self.gate.wait()
            if self.errors:
                raise self.errors.pop(0)
            self.done.append(text)
            return text

        return write


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_of_several_that_wait_the_newest_is_written() -> None:
    queue, server = WriteQueue(), Written()
    for text in ("1", "2", "3"):
        queue.put(STATUS, Priority.STATUS, server.write(text))
    await queue.settle()

    assert server.done == ["3"]


async def test_one_that_comes_during_a_write_follows_it() -> None:
    queue, server = WriteQueue(), Written()
    server.gate.clear()
    queue.put(STATUS, Priority.STATUS, server.write("1"))
    await asyncio.sleep(0.05)
    for text in ("2", "3"):
        queue.put(STATUS, Priority.STATUS, server.write(text))
    assert queue.waiting() == {"status": 1}
    server.gate.set()
    await queue.settle()

    assert server.done == ["1", "3"]


@pytest.mark.parametrize("error", [Unavailable("503"), Rejected("403", 403)])
async def test_a_failed_one_is_written_later_in_its_newest_form(error: ClusterError) -> None:
    clock = Clock()
    queue, server = WriteQueue(clock=clock), Written(error)
    queue.put(STATUS, Priority.STATUS, server.write("1"))
    await queue.settle()
    queue.put(STATUS, Priority.STATUS, server.write("2"))
    await queue.settle()
    assert server.done == []
    assert queue.waiting() == {"status": 1}

    clock.now += 2.0
    queue.put(STATUS, Priority.STATUS, server.write("3"))
    await queue.settle()
    assert server.done == ["3"]


async def test_a_failed_write_of_a_tick_is_not_repeated_by_itself() -> None:
    clock = Clock()
    queue, server = WriteQueue(clock=clock), Written(Unavailable("503"))
    for _ in range(2):
        with pytest.raises(Unavailable, match="503"):
            await queue.run(SCALE, Priority.SCALE, server.write("5"), 3)
    assert queue.outcomes == {("scale", "failed"): 1}
    clock.now += 2.0

    assert await queue.run(SCALE, Priority.SCALE, server.write("7"), 3) == "7"
    assert server.done == ["7"]


async def test_a_silence_within_the_deadline_costs_no_write() -> None:
    queue, server = WriteQueue(), Written(Throttled("429", 0.2))
    began = asyncio.get_running_loop().time()

    assert await queue.run(SCALE, Priority.SCALE, server.write("5"), 3) == "5"
    assert asyncio.get_running_loop().time() - began >= 0.2
    assert queue.outcomes == {("scale", "throttled"): 1, ("scale", "done"): 1}


async def test_a_silence_beyond_the_deadline_ends_what_belongs_to_the_tick() -> None:
    queue, server = WriteQueue(deadline_seconds=0.2), Written(Throttled("429", 60.0))
    with pytest.raises(Unavailable, match=r"no turn within 0\.2 s"):
        await queue.run(SCALE, Priority.SCALE, server.write("5"), 3)

    assert queue.waiting() == {}
    await queue.close()


async def test_what_hangs_is_given_up_and_put_off() -> None:
    queue, server = WriteQueue(deadline_seconds=0.2), Written()
    server.gate.clear()
    with pytest.raises(Unavailable, match=r"no answer within 0\.2 s"):
        await queue.run(SCALE, Priority.SCALE, server.write("5"), 3)

    assert queue.outcomes == {("scale", "failed"): 1}
    assert queue.waiting() == {}


async def test_what_is_gone_is_written_no_more() -> None:
    queue, server = WriteQueue(), Written(NotFound("404"))
    queue.put(STATUS, Priority.STATUS, server.write("1"))
    await queue.settle()
    queue.put(Key("b", "status"), Priority.STATUS, server.write("b"))
    queue.keep_only({"a"})
    await queue.settle()

    assert server.done == []
    assert queue.outcomes == {("status", "gone"): 1}


async def test_a_defect_in_a_write_ends_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    queue, server = WriteQueue(), Written()
    queue.put(STATUS, Priority.STATUS, broken)
    queue.put(Key("b", "status"), Priority.STATUS, server.write("b"))
    await queue.settle()

    assert server.done == ["b"]
    assert [record.getMessage() for record in caplog.records if record.exc_info] == ["writing a status raised"]
    await queue.close()


async def test_an_urgent_one_goes_before_those_that_wait_for_tokens() -> None:
    queue, server = WriteQueue(Budget(requests_per_second=50.0, burst=20)), Written()
    for i in range(30):
        queue.put(Key(str(i), "status"), Priority.STATUS, server.write("status"))
    await asyncio.sleep(0.02)
    before = len(server.done)
    await queue.run(SCALE, Priority.SCALE, server.write("scale"), 3)

    assert before < 29
    assert server.done.index("scale") <= before + 2
    await queue.settle()
    assert len(server.done) == 31


async def test_closing_gives_up_what_is_under_way() -> None:
    queue, server = WriteQueue(), Written()
    server.gate.clear()
    queue.put(STATUS, Priority.STATUS, server.write("1"))
    await asyncio.sleep(0.05)
    await queue.close()

    assert (server.done, queue.waiting()) == ([], {})


@pytest.mark.parametrize(("error", "is_asked_again"), [(Unavailable("503"), True), (Rejected("403", 403), False)])
async def test_replicas_that_the_server_could_not_take_are_asked_for_again_soon_and_refused_ones_late(
    error: ClusterError, is_asked_again: bool
) -> None:
    clock = Clock()
    queue, server = WriteQueue(clock=clock), Written(*[error] * 9)
    for _ in range(9):
        clock.now += 120.0
        with pytest.raises(type(error)):
            await queue.run(SCALE, Priority.SCALE, server.write("5"), 3)
    clock.now += 10.0

    with nullcontext() if is_asked_again else pytest.raises(type(error)):
        await queue.run(SCALE, Priority.SCALE, server.write("5"), 3)
    assert server.done == (["5"] if is_asked_again else [])


async def test_an_object_that_is_answered_with_429_for_ever_keeps_no_other_from_being_written() -> None:
    class Webhook(Written):
        """Answers 429 for one object."""

        asked = 0

        def refuse(self) -> Callable[[], Awaitable[str]]:
            async def write() -> str:
                self.asked += 1
                raise Throttled("429", 0.01)

            return write

    queue, server = WriteQueue(Budget(requests_per_second=1000.0)), Webhook()
    queue.put(Key("hostile", "scale"), Priority.SCALE, server.refuse())
    await asyncio.sleep(0.05)
    for i in range(20):
        queue.put(Key(str(i), "status"), Priority.STATUS, server.write(str(i)))
    await queue.settle()

    assert len(server.done) == 20
    assert server.asked >= 1
    await queue.close()


async def test_what_is_forgotten_leaves_no_failure_behind() -> None:
    queue, server = WriteQueue(), Written(Unavailable("503"))
    queue.put(STATUS, Priority.STATUS, server.write("1"))
    await queue.settle()
    queue.discard(STATUS)
    queue.put(STATUS, Priority.STATUS, server.write("2"))
    await queue.settle()

    assert server.done == ["2"]
