"""Traffic of all workloads as counters that grow: pure, every call is told the time.

The load of a workload is a multiple of what it began with, and changes at an instant of its own, which need not be the
instant at which anything is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


class Traffic:
    """Requests that each pod has served. `rates` are requests a second of each workload at factor 1."""

    def __init__(self, rates: Sequence[float], now: float, seed: int = 7) -> None:
        self._rates = np.array(rates, dtype=float)
        self._random = np.random.default_rng(seed)
        self._factor = np.ones(len(rates))
        self._next = np.ones(len(rates))
        self._changes_at = np.full(len(rates), np.inf)
        self._now = now
        self._workload = np.zeros(0, dtype=int)
        self.served: Numbers = np.zeros(0)
        """Requests that each pod has served, in the order in which pods were added."""
        self.is_noisy = False
        """Requests come independently of each other; else evenly."""

    def add_pods(self, workloads: Sequence[int], now: float) -> None:
        """Let pods of these workloads serve from now on."""
        self.advance(now)
        self._workload = np.concatenate([self._workload, np.array(workloads, dtype=int)])
        self.served = np.concatenate([self.served, np.zeros(len(workloads))])

    def change(self, factor: float, now: float, spread_seconds: float = 0.0) -> list[float]:
        """Let every load become this multiple, each at an instant of its own within the spread; those instants."""
        self.advance(now)
        order = self._random.permutation(len(self._rates))
        self._next = np.full(len(self._rates), factor)
        self._changes_at = now + (order + 0.5) / max(1, len(self._rates)) * spread_seconds
        instants: list[float] = self._changes_at.tolist()
        return instants

    def advance(self, now: float) -> None:
        """Serve what came since the last time."""
        before = np.clip(self._changes_at - self._now, 0.0, now - self._now)
        came = self._rates * (self._factor * before + self._next * (now - self._now - before))
        over = self._changes_at <= now
        self._factor = np.where(over, self._next, self._factor)
        self._changes_at = np.where(over, np.inf, self._changes_at)
        self._now = now
        share = came[self._workload] / self._pods()[self._workload]
        self.served = self.served + (self._random.poisson(share) if self.is_noisy else share)

    def loads(self) -> Numbers:
        """Present load of each workload, as a multiple."""
        return self._factor

    def pod_rates(self) -> Numbers:
        """Present requests a second of each pod."""
        rates: Numbers = (self._rates * self._factor / self._pods())[self._workload]
        return rates

    def _pods(self) -> Numbers:
        return np.maximum(1, np.bincount(self._workload, minlength=len(self._rates))).astype(float)
