"""How long a tick waits for a source of metrics, and when one that does not answer is asked again.

A source that answers is waited for, up to four times as long as it usually takes. For one that did not answer no other
source waits: it is read on the side, ever less often, and counts again from the tick after it answered.

| tick | the source | the tick waits for it | it is asked |
|---|---|---|---|
| 1 | answers in 0.2 s, as always | 0.2 s | yes |
| 2 | hangs | 1 s | yes |
| 3 | hangs | not at all | yes |
| 4 to 9 | hangs | not at all | at 5 and 9 |
| 10 to 17 | answers again | not at all | at 17, and at every eighth tick before, had it hung on |
| 18 | answers in 0.2 s | 0.2 s | yes |
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

LEAST_WAIT_SECONDS = 1.0
"""What answers in milliseconds may once take longer."""
WAIT_FACTOR = 4.0
"""Of the usual time: a server that compacts its blocks takes a few times as long."""
USUAL_SECONDS = 0.5
"""Until it is known; so the first tick waits for two seconds at most."""
USUAL_GAIN = 0.2
"""Weight of the latest answer in what is usual: about the last five count."""
MOST_TICKS_BETWEEN = 8
"""From one question to the next where none is answered: two minutes at the default tick."""

Read = TypeVar("Read")


class SourceReader(Generic[Read]):
    """One source. `read` asks it, ends by itself and never raises; `is_answer` says whether the source was there."""

    def __init__(
        self, read: Callable[[], Awaitable[Read]], is_answer: Callable[[Read], bool], clock: Callable[[], float]
    ) -> None:
        self._read, self._is_answer, self._clock = read, is_answer, clock
        self._task: asyncio.Task[Read] | None = None
        self._asked_seconds = 0.0
        self._usual_seconds = USUAL_SECONDS
        self._unanswered = 0
        self._ticks_to_skip = 0
        self._silent_since_seconds: float | None = None

    @property
    def silent_seconds(self) -> float | None:
        """Since when there was no answer; None: there was one to the last question."""
        since = self._silent_since_seconds
        return None if since is None else self._clock() - since

    def begin(self) -> None:
        """Ask, unless an answer is still owed or the source is left alone for a while."""
        if self._task is not None and self._task.done():
            self._take(self._task)
        if self._task is not None:
            return
        if self._ticks_to_skip:
            self._ticks_to_skip -= 1
            return
        self._asked_seconds = self._clock()
        self._task = asyncio.ensure_future(self._timed())

    async def wait(self) -> None:
        """Wait for the answer as long as an answer may take."""
        if self._task is not None:
            answers = self._silent_since_seconds is None
            seconds = max(LEAST_WAIT_SECONDS, WAIT_FACTOR * self._usual_seconds) if answers else LEAST_WAIT_SECONDS
            await asyncio.wait({self._task}, timeout=seconds)

    def end(self) -> Read | None:
        """What the source said; None: nothing yet."""
        if self._task is not None and self._task.done():
            return self._take(self._task)
        if self._task is not None and self._silent_since_seconds is None:
            self._silent_since_seconds = self._asked_seconds
        return None

    def close(self) -> None:
        """Drop the question that is under way."""
        if self._task is not None:
            self._task.cancel()

    async def _timed(self) -> Read:
        reading = await self._read()
        if self._is_answer(reading):
            self._usual_seconds += USUAL_GAIN * (self._clock() - self._asked_seconds - self._usual_seconds)
        return reading

    def _take(self, task: asyncio.Task[Read]) -> Read:
        self._task, reading = None, task.result()
        if self._is_answer(reading):
            self._unanswered, self._ticks_to_skip, self._silent_since_seconds = 0, 0, None
            return reading
        self._ticks_to_skip = min(2**self._unanswered, MOST_TICKS_BETWEEN) - 1
        self._unanswered += 1
        if self._silent_since_seconds is None:
            self._silent_since_seconds = self._asked_seconds
        return reading


async def read_all(readers: Mapping[str, SourceReader[Read]]) -> dict[str, Read | None]:
    """What each source says at this tick, by name; None: it has not answered."""
    for reader in readers.values():
        reader.begin()
    answering = [reader for reader in readers.values() if reader.silent_seconds is None]
    # Where none answers, none is held up.
    await asyncio.gather(*(reader.wait() for reader in answering or readers.values()))
    return {name: reader.end() for name, reader in readers.items()}
