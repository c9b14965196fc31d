"""The one way to the API server for everything that is written: the backlog on an event loop.

Two kinds of writes. What is **put** is state, such as a status: it is repeated, ever later, until the server takes it,
and a newer write of the same key takes its place. What is **run** belongs to one tick, such as a scale write: it ends
by the deadline, and the next tick decides anew.

No write takes longer than the deadline, which is below what liveness allows a tick. A request for silence (`Throttled`)
stops everything until then. Every failure is counted and logged, and the next attempt of its key comes later.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from firsttoken_operator.act.backlog import (
    MOST_BACK_OFF_SECONDS,
    URGENT_BACK_OFF_SECONDS,
    Backlog,
    Budget,
    Key,
    Priority,
)
from firsttoken_operator.act.errors import (
    ClusterError,
    Conflict,
    NotFound,
    NoTurn,
    Rejected,
    Throttled,
    Unavailable,
    Withheld,
)

T = TypeVar("T")

logger = logging.getLogger(__name__)

DEADLINE_SECONDS = 15.0
_LEAST_WAIT_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class _Job:
    write: Callable[[], Awaitable[Any]]
    priority: Priority
    requests: int
    outcome: asyncio.Future[Any] | None = None
    """Future on which the caller of `run` waits."""
    until_seconds: float | None = None
    """Time at which that caller gives up, on the event loop's clock."""

    def fail(self, error: ClusterError) -> None:
        """Let the caller know."""
        if self.outcome is not None and not self.outcome.done():
            self.outcome.set_exception(error)


class WriteQueue:
    """Writes of all objects. `clock` is monotonic seconds."""

    def __init__(
        self,
        budget: Budget | None = None,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backlog = Backlog(budget or Budget(), random.random)
        self._deadline_seconds = deadline_seconds
        self._clock = clock
        self._jobs: dict[Key, _Job] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._errors: dict[Key, ClusterError] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._idle, self._started = asyncio.Event(), asyncio.Event()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """Number of writes by kind and outcome."""

    def put(self, key: Key, priority: Priority, write: Callable[[], Awaitable[object]], requests: int = 1) -> None:
        """Write this when its turn comes, in so many requests, and again until it is taken."""
        self._add(key, _Job(write, priority, requests))

    async def run(self, key: Key, priority: Priority, write: Callable[[], Awaitable[T]], requests: int) -> T:
        """Run `write` when its turn has come, and return what it returns.

        Raises the `ClusterError` that it raises, or that the last one of this key raised where that was so recently
        that it is put off, `NoTurn` where the deadline passes before it was sent, `Unavailable` where it does later.
        """
        if self._backlog.is_put_off(key, self._clock()):
            raise self._errors[key].with_traceback(None)
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        self._add(key, _Job(write, priority, requests, outcome, loop.time() + self._deadline_seconds))
        try:
            async with asyncio.timeout(self._deadline_seconds):
                return await asyncio.shield(outcome)
        except TimeoutError:
            if outcome.done() or key in self._tasks:
                return await outcome  # It is given up in this moment too.
            self.discard(key)
            self.outcomes[key.kind, "no turn"] += 1
            text = "the API server throttles, or apiServer.requestsPerSecond is too low"
            raise NoTurn(f"{key.kind}: no turn within {self._deadline_seconds:g} s; {text}") from None

    def discard(self, key: Key) -> None:
        """Write it no more, unless it is under way."""
        self._backlog.discard(key)
        self._jobs.pop(key, None)
        self._errors.pop(key, None)
        self._started.set()

    def charge(self, requests: int) -> None:
        """Count requests that a write made beyond those it waited for."""
        self._backlog.charge(requests)

    def keep_only(self, uids: set[str]) -> None:
        """Forget what is about other objects."""
        self._backlog.keep_only(uids)
        for known in (self._errors, self._jobs):
            for key in [key for key in known if key.uid not in uids]:
                known.pop(key)
        self._started.set()

    def waiting(self) -> Counter[str]:
        """Count the writes that wait or are under way, by kind."""
        return Counter(key.kind for key in {*self._backlog.waiting(), *self._tasks})

    async def until_sent(self, priority: Priority) -> None:
        """Return when no write of this priority, or before it, waits for its turn; some may be under way."""
        while self._backlog.has_waiting(priority):
            self._started.clear()
            await self._started.wait()

    async def settle(self) -> None:
        """Return when everything is written that is not put off."""
        while not self._backlog.is_idle(self._clock()):
            self._idle.clear()
            await self._idle.wait()

    async def close(self) -> None:
        """Give up what is under way and what waits."""
        self.keep_only(set())
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()

    def _add(self, key: Key, job: _Job) -> None:
        self._jobs[key] = job
        self._backlog.add(key, job.priority, job.requests, self._clock())
        # NB: not at once: what comes in the same breath is put in order first.
        self._start_in(0.0)

    def _start_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + max(seconds, _LEAST_WAIT_SECONDS)
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._start)

    def _start(self) -> None:
        """Start every write that may start, and come back when the next one may."""
        self._timer, now = None, self._clock()
        while (key := self._backlog.next(now)) is not None:
            self._tasks[key] = asyncio.create_task(self._write(key, self._jobs.pop(key)))
        wait = self._backlog.wait_seconds(now)
        if wait is not None:
            self._start_in(wait)
        self._started.set()
        if self._backlog.is_idle(now):
            self._idle.set()

    async def _write(self, key: Key, job: _Job) -> None:
        """Carry out one write and take note of what became of it."""
        until = job.until_seconds or asyncio.get_running_loop().time() + self._deadline_seconds
        try:
            async with asyncio.timeout_at(until):
                result = await job.write()
        except TimeoutError:
            self._failed(key, job, Unavailable(f"{key.kind}: no answer within {self._deadline_seconds:g} s"))
        except NotFound as error:
            self._ended(key, "gone")
            job.fail(error)
        except Withheld as error:
            # NB: not repeated: what is still to be written then is put again by the tick that may write.
            job.fail(error)
        except Throttled as error:
            self._throttled(key, job, error)
        except ClusterError as error:
            self._failed(key, job, error)
        except Exception as error:
            logger.exception("writing a %s raised", key.kind)
            self._failed(key, job, Unavailable(f"{key.kind}: {error!r}"))
        else:
            self._ended(key, "done")
            if job.outcome is not None and not job.outcome.done():
                job.outcome.set_result(result)
        finally:
            del self._tasks[key]
            self._backlog.ended(key, self._clock())
            self._start_in(0.0)

    def _ended(self, key: Key, outcome: str) -> None:
        self.outcomes[key.kind, outcome] += 1
        self._errors.pop(key, None)
        self._backlog.succeeded(key)

    def _failed(self, key: Key, job: _Job, error: ClusterError) -> None:
        self.outcomes[key.kind, _outcome(error)] += 1
        if job.priority is Priority.EVENT and isinstance(error, Rejected):
            logger.warning("%s not written: %s", key.kind, error)
            return  # It is never worth another write.
        times, seconds = self._put_off(key, job, error)
        logger.warning("%s not written, %d in a row, not again for %.0f s: %s", key.kind, times, seconds, error)
        if job.outcome is None:
            self._repeat(key, job)
        else:
            job.fail(error)

    def _throttled(self, key: Key, job: _Job, error: Throttled) -> None:
        self.outcomes[key.kind, "throttled"] += 1
        self._backlog.pause(self._clock(), error.retry_after_seconds)
        # NB: a webhook may say so of one object for ever: after the silence the others go first.
        self._put_off(key, job, error)
        if job.until_seconds is None or job.until_seconds > asyncio.get_running_loop().time():
            self._repeat(key, job)
        else:
            job.fail(error)

    def _put_off(self, key: Key, job: _Job, error: ClusterError) -> tuple[int, float]:
        """Let the next attempt wait; how many have failed in a row, and for how many seconds."""
        self._errors[key] = error
        # NB: what a server could not take is asked for again soon where replicas wait for it, what it refused is not.
        is_urgent = job.priority is Priority.SCALE and not isinstance(error, Rejected)
        return self._backlog.failed(key, self._clock(), URGENT_BACK_OFF_SECONDS if is_urgent else MOST_BACK_OFF_SECONDS)

    def _repeat(self, key: Key, job: _Job) -> None:
        if key not in self._jobs:
            self._add(key, job)


def _outcome(error: ClusterError) -> str:
    if isinstance(error, Rejected):
        return "denied"
    return "conflict" if isinstance(error, Conflict) else "failed"
