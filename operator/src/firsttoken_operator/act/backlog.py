"""Order of the writes: by priority, within a budget, ever later after failures. Pure: every call is told the time.

Scaling comes before rendering, before statuses, before Events. A scale write waits for a place in flight, and for the
budget only where the server asked for silence: what it takes then is missing for all others until the average is kept.
What is not scaling leaves half of the burst and a quarter of the places in flight alone.

A library's token bucket (aiolimiter) knows neither priorities nor a clock that is given, and would be one line of this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple

LEAST_BACK_OFF_SECONDS = 1.0
MOST_BACK_OFF_SECONDS = 120.0
URGENT_BACK_OFF_SECONDS = 10.0
"""Longest back-off of writing replicas: a server that answers again should have them at the next tick."""


class Priority(IntEnum):
    """Order of the writes, the first of these first."""

    SCALE = 0
    RENDER = 1
    STATUS = 2
    FIGURES = 3
    """Status that tells no more than figures: where many are new, all have been told what was decided before that."""
    EVENT = 4


class Key(NamedTuple):
    """Subject of a write: there is one write at a time for each, and the newest counts."""

    uid: str
    """The object that it is about."""
    kind: str
    """Kind in one word, for logs and metrics."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """Budget of the API server's load: at most so many requests a second and at once."""

    requests_per_second: float = 50.0
    burst: int = 100
    in_flight: int = 32


@dataclass(order=True, frozen=True, slots=True)
class _Entry:
    priority: Priority
    number: int
    key: Key = field(compare=False)
    requests: int = field(compare=False)


class Backlog:
    """Everything that waits to be written. `random` gives numbers from 0 to 1."""

    def __init__(self, budget: Budget, random: Callable[[], float]) -> None:
        self._budget, self._random = budget, random
        self._waiting: dict[Key, _Entry] = {}
        self._ready: list[_Entry] = []
        self._later: list[tuple[float, _Entry]] = []
        self._running: set[Key] = set()
        self._failures: dict[Key, tuple[int, float]] = {}
        self._number = 0
        self._tokens, self._counted_seconds = float(budget.burst), 0.0
        self._is_strained = False
        """True from a request for silence until the budget has recovered: nothing goes beyond it then."""

    def add(self, key: Key, priority: Priority, requests: int, now: float) -> None:
        """Let a write of so many requests wait for its turn.

        One that waits already keeps its place, unless it has become more urgent.
        """
        if key in self._waiting and self._waiting[key].priority <= priority:
            return
        self._number += 1
        self._waiting[key] = _Entry(priority, self._number, key, requests)
        if key not in self._running:
            self._push(key, now)

    def discard(self, key: Key) -> None:
        """Let it wait no longer, and forget how often it failed."""
        self._waiting.pop(key, None)
        self._failures.pop(key, None)

    def next(self, now: float) -> Key | None:
        """The write whose turn it is, which runs from now on; None: none may run yet."""
        self._refill(now)
        while self._later and self._later[0][0] <= now:
            heappush(self._ready, heappop(self._later)[1])
        entry = self._first()
        if entry is None or self._missing_tokens(entry) > 0 or not self._has_place(entry):
            return None
        heappop(self._ready)
        self._tokens -= entry.requests
        del self._waiting[entry.key]
        self._running.add(entry.key)
        return entry.key

    def wait_seconds(self, now: float) -> float | None:
        """Time until the next one may be asked for, unless a write is added or ends before; None: only then."""
        waits = [self._later[0][0] - now] if self._later else []
        entry = self._first()
        if entry is not None and self._has_place(entry):
            missing = self._missing_tokens(entry) / self._budget.requests_per_second
            waits.append(max(0.0, self._counted_seconds - now) + missing)
        return max(0.0, min(waits)) if waits else None

    def succeeded(self, key: Key) -> None:
        """The write that runs has done its work: the next one need not wait."""
        self._failures.pop(key, None)

    def failed(self, key: Key, now: float, most_seconds: float = MOST_BACK_OFF_SECONDS) -> tuple[int, float]:
        """The write that runs has failed: how many have in a row, and for how many seconds the next one is put off."""
        times, _ = self._failures.get(key, (0, 0.0))
        longest = min(most_seconds, LEAST_BACK_OFF_SECONDS * 2.0 ** min(times, 30))
        seconds = longest * (1 - self._random() / 2)
        self._failures[key] = times + 1, now + seconds
        return times + 1, seconds

    def ended(self, key: Key, now: float) -> None:
        """The write runs no longer: what waits for it may."""
        self._running.discard(key)
        if key in self._waiting:
            self._push(key, now)

    def is_put_off(self, key: Key, now: float) -> bool:
        """Tell whether it failed so recently that it is not tried."""
        return self._failures.get(key, (0, now))[1] > now

    def pause(self, now: float, seconds: float) -> None:
        """Start nothing for so long, and have no burst afterwards."""
        self._tokens, self._counted_seconds = 0.0, max(self._counted_seconds, now + seconds)
        self._is_strained = True

    def charge(self, requests: int) -> None:
        """Count requests that a write made beyond those it waited for."""
        self._tokens -= requests

    def keep_only(self, uids: set[str]) -> None:
        """Forget what is about other objects."""
        self._waiting = {key: entry for key, entry in self._waiting.items() if key.uid in uids}
        self._failures = {key: failure for key, failure in self._failures.items() if key.uid in uids}

    def has_waiting(self, priority: Priority) -> bool:
        """Tell whether a write of this priority waits for its turn, and for nothing else."""
        entry = self._first()
        return entry is not None and entry.priority <= priority

    def is_idle(self, now: float) -> bool:
        """Tell whether nothing runs and nothing waits but what is put off."""
        return not self._running and self._first() is None and not (self._later and self._later[0][0] <= now)

    def waiting(self) -> list[Key]:
        """List what is still to be written."""
        return [*self._waiting]

    def _push(self, key: Key, now: float) -> None:
        _, until = self._failures.get(key, (0, now))
        if until > now:
            heappush(self._later, (until, self._waiting[key]))
        else:
            heappush(self._ready, self._waiting[key])

    def _first(self) -> _Entry | None:
        while self._ready and self._waiting.get(self._ready[0].key) is not self._ready[0]:
            heappop(self._ready)
        return self._ready[0] if self._ready else None

    def _refill(self, now: float) -> None:
        if now > self._counted_seconds:
            gained = (now - self._counted_seconds) * self._budget.requests_per_second
            self._tokens = min(float(self._budget.burst), self._tokens + gained)
            self._is_strained = self._is_strained and self._tokens < self._budget.burst / 2
            self._counted_seconds = now

    def _missing_tokens(self, entry: _Entry) -> float:
        if entry.priority is not Priority.SCALE:
            return max(0.0, self._budget.burst / 2 + entry.requests - self._tokens)
        return max(0.0, entry.requests - self._tokens) if self._is_strained else 0.0

    def _has_place(self, entry: _Entry) -> bool:
        places = self._budget.in_flight
        return len(self._running) < (places if entry.priority is Priority.SCALE else places * 3 // 4)
