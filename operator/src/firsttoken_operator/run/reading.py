"""Wait of a tick for a source of metrics, and the times at which one that hangs is asked again.

A source that answers is waited for. Once another one has answered, that wait has an end: half a second, or four times
what the source usually takes. What is measured by one that is late for the first time is awaited, and not decided until
the next tick; from then on it is missing. Such a source is read on the side, ever less often, and counts again from the
tick after it answered. A source that says at once that it cannot answer holds up no other, and is asked at every tick.

| tick | the source, beside one that answers | the tick waits for it | it is asked | its resources |
|---|---|---|---|---|
| 1 | answers in 0.1 s, as always | 0.1 s | yes | are decided |
| 2 | hangs | 0.5 s | yes | wait for the next tick |
| 3 | hangs | not at all | yes | have no metrics |
| 4 to 9 | hangs | not at all | at 5 and 9 | the same |
| 10 to 17 | answers again | not at all | at 17, and at every eighth tick before, had it hung on | the same |
| 18 | answers in 0.1 s | 0.1 s | yes | are decided |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, auto
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

LEAST_WAIT_SECONDS = 0.5
"""Least wait: an answer of milliseconds may once take longer."""
FIRST_WAIT_SECONDS = 3.0
"""The same of a source that has not answered yet: what it usually takes is not known."""
WAIT_FACTOR = 4.0
"""Multiple of the usual time: a server that compacts its blocks takes a few times as long."""
USUAL_GAIN = 0.2
"""Weight of the latest answer in what is usual: about the last five count."""
MOST_TICKS_BETWEEN = 8
"""Ticks from one question to the next while it hangs: two minutes at the default tick."""

Read = TypeVar("Read")


class NoReading(Enum):
    """Reading of a source that said nothing, or nothing that can be used."""

    AWAITED = auto()
    """It is late for the first time in a row."""
    MISSING = auto()


class SourceReader(Generic[Read]):
    """One source. `read` asks it and ends by itself; `is_answer` says of what came whether the source was there."""

    def __init__(
        self, read: Callable[[], Awaitable[Read]], is_answer: Callable[[Read], bool], clock: Callable[[], float]
    ) -> None:
        self._read, self._is_answer, self._clock = read, is_answer, clock
        self._task: asyncio.Task[Read] | None = None
        self._asked_seconds = 0.0
        self._usual_seconds = 0.0
        self._late_in_a_row = 0
        self._is_late = False
        self._is_awaited = False
        self._ticks_to_skip = 0

    @property
    def wait_seconds(self) -> float:
        """Time that this one may take beyond another source."""
        if not self._usual_seconds:
            return FIRST_WAIT_SECONDS
        return max(LEAST_WAIT_SECONDS, WAIT_FACTOR * self._usual_seconds)

    def begin(self) -> asyncio.Task[Read] | None:
        """Ask, unless an answer is still owed or the source is left alone; what to wait for, None: nothing."""
        if self._task is not None and self._task.done():
            self._take(self._task)
        if self._task is None:
            if self._ticks_to_skip:
                self._ticks_to_skip -= 1
                return None
            self._asked_seconds = self._clock()
            self._task = asyncio.ensure_future(self._timed())
        return None if self._late_in_a_row else self._task

    def end(self) -> Read | NoReading:
        """Take what the source said."""
        was_awaited, self._is_awaited = self._is_awaited, False
        if self._task is not None and self._task.done():
            return self._take(self._task)
        if self._task is not None and not self._is_late:
            self._is_late = True
            self._late_in_a_row += 1
            self._is_awaited = self._late_in_a_row == 1 and not was_awaited
        return NoReading.AWAITED if self._is_awaited else NoReading.MISSING

    def close(self) -> None:
        """Drop the question that is under way."""
        if self._task is not None:
            self._task.cancel()

    async def _timed(self) -> Read:
        reading = await self._read()
        if self._is_answer(reading):
            self._usual_seconds += USUAL_GAIN * (self._clock() - self._asked_seconds - self._usual_seconds)
        return reading

    def _take(self, task: asyncio.Task[Read]) -> Read | NoReading:
        self._task, was_late, self._is_late = None, self._is_late, False
        try:
            reading = task.result()
        except Exception:
            # A fault of ours in reading one source must not keep the others from being decided.
            logger.exception("reading a source of metrics failed")
            return NoReading.MISSING
        if self._is_answer(reading):
            self._late_in_a_row, self._ticks_to_skip = 0, 0
            return reading
        if was_late:
            self._ticks_to_skip = min(2 ** (self._late_in_a_row - 1), MOST_TICKS_BETWEEN) - 1
        return reading


async def read_all(readers: Mapping[str, SourceReader[Read]]) -> dict[str, Read | NoReading]:
    """Read what each source says at this tick, by name."""
    waiting = {task: reader for reader in readers.values() if (task := reader.begin()) is not None}
    if waiting:
        # NB: a source that is alone, or slow together with all others, holds up no other: its own deadline ends it.
        _, late = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if late:
            await asyncio.wait(late, timeout=max(waiting[task].wait_seconds for task in late))
    return {name: reader.end() for name, reader in readers.items()}
