"""Scrapes of a simulated fleet: what its pods expose, counters that begin with a pod, and gauges.

Pods answer from the moment that they are ready until they are gone, draining ones too. All are scraped at one moment.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firsttoken_lab.replay import exposition
from firsttoken_lab.replay.replicas import Pods
from firsttoken_operator.families import VLLM, Metric
from firsttoken_sizing.simulation.fleet import Fleet

BOUNDS = (*VLLM.series(Metric.TTFT).bounds, math.inf)
MILLISECONDS = 3
"""Decimals of the times that Prometheus keeps."""


@dataclass(frozen=True, slots=True, eq=False)
class Scrape:
    """One round of scrapes. Columns are the fleet's slots; those in which no pod was scraped mean nothing."""

    at_seconds: float
    since: Mapping[int, float]
    """Time of the first scrape of each of the pods that were scraped, by number."""
    counters: NDArray[np.float64]
    gauges: NDArray[np.float64]
    waiting_requests: float
    """Requests that wait in the pods that are ready."""
    running_requests: float


@cache
def _compiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compile what counts and what shows, once for all plays of a process."""
    # NB: imported here, because compiling needs numba and that takes longer to import than all the rest.
    from firsttoken_sizing.simulation.compiled import compiled

    return compiled(exposition.count), compiled(exposition.show)


class Scraper:
    """Scrapes a fleet and keeps what a rate window needs: the scrapes inside it and the last one before."""

    def __init__(self, fleet: Fleet, kv_cache_tokens: int | None, window_seconds: float) -> None:
        """`kv_cache_tokens`: of one replica, None where nothing limits it."""
        self._count, self._show = _compiled()
        self._fleet, self._window_seconds = fleet, window_seconds
        self._kv_cache_tokens = kv_cache_tokens or math.inf
        self._replicas, self._requests = (records.view(np.ndarray) for records in (fleet.replicas, fleet.requests))
        self._bounds = np.array(BOUNDS)
        self._pending = np.empty(0, np.int64)
        self._running = np.empty(0, np.int64)
        self._sent = 0
        self._since: dict[int, float] = {}
        self._counters = np.zeros((exposition.BUCKETS + len(BOUNDS), len(fleet.replicas)))
        self._scrapes: deque[Scrape] = deque()

    @property
    def scrapes(self) -> tuple[Scrape, ...]:
        """Newest last."""
        return tuple(self._scrapes)

    def scrape(self, now_seconds: float, living: Pods) -> None:
        """Sample the pods that answer; the fleet stands at `now_seconds`."""
        at_seconds = round(now_seconds, MILLISECONDS)
        for pod in living.answering:
            if pod.number not in self._since:
                self._counters[:, pod.slot] = 0
        self._since = {pod.number: self._since.get(pod.number, at_seconds) for pod in living.answering}
        sent, self._sent = self._sent, self._fleet.sent
        pending = np.concatenate((self._pending, np.arange(sent, self._sent)))
        opens = self._replicas["opens"]
        self._pending, self._running = self._count(
            self._requests, opens, self._bounds, pending, self._running, self._counters, now_seconds
        )
        gauges = self._show(self._replicas, self._kv_cache_tokens)
        waiting, running, _ = gauges.take([pod.slot for pod in living.serving], axis=1).sum(axis=1).tolist()
        self._scrapes.append(Scrape(at_seconds, self._since, self._counters.copy(), gauges, waiting, running))
        while len(self._scrapes) > 1 and self._scrapes[1].at_seconds <= at_seconds - self._window_seconds:
            self._scrapes.popleft()
