"""The sized table: rate per replica -> latencies and KV use. Built once per change, read at every tick.

A decision needs three look-ups (N-1, N, N+1) and a division; computing the performance model instead would cost
seconds a tick for a thousand resources.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.profile import Latency

STATISTICS = ("mean", "p50", "p90", "p95", "p99")


@dataclass(frozen=True, slots=True)
class Operating:
    """What one replica does at one rate. Latencies in milliseconds; a statistic that is not known is None."""

    requests_per_second: float
    ttft: Latency
    itl: Latency
    end_to_end: Latency
    kv_percent: float
    saturated: bool
    """The rate is above all that the table covers: latencies grow without bound, the ones shown are lower bounds."""


@dataclass(frozen=True, eq=False)
class CapacityTable:
    """Monotone table of one configuration under one workload.

    `rates`: (n,) requests a second of one replica, strictly increasing, first is > 0. `ttft`, `itl`, `end_to_end`:
    (n, 5) milliseconds in the order of `STATISTICS`, NaN where unknown, non-decreasing down every column. `kv_percent`:
    (n,). `capacity_requests_per_second` is the largest rate inside the SLA (0 where even one request breaks it);
    `saturation_requests_per_second` the largest one that is stable.
    """

    rates: NDArray[np.float64]
    ttft: NDArray[np.float64]
    itl: NDArray[np.float64]
    end_to_end: NDArray[np.float64]
    kv_percent: NDArray[np.float64]
    capacity_requests_per_second: float
    saturation_requests_per_second: float
    capacity_alone_requests_per_second: float | None = None
    """Where a router evens out arrivals: what one replica carries alone. What one of `sized_replicas` carries is
    `capacity_requests_per_second`. None: the capacity does not depend on the number."""
    sized_replicas: int = 1

    def at(self, requests_per_second: float, replicas: int | None = None) -> Operating:
        """Interpolate the table at one replica's rate (clamped to its ends).

        `replicas`: how many share the arrivals, where that is not `sized_replicas`. Fewer even them out less: each is
        read at the rate that uses as much of the capacity of one of `sized_replicas`.
        """
        x = float(requests_per_second)
        if replicas is not None and self.capacity_requests_per_second > 0:
            x *= self.capacity_requests_per_second / self.capacity_of_one_among(replicas)
        return Operating(
            requests_per_second=float(requests_per_second),
            ttft=self._row(self.ttft, x),
            itl=self._row(self.itl, x),
            end_to_end=self._row(self.end_to_end, x),
            kv_percent=float(np.interp(x, self.rates, self.kv_percent)),
            saturated=x > float(self.rates[-1]) or x >= self.saturation_requests_per_second,
        )

    def replicas_for(self, requests_per_second: float, capacity_factor: float = 1.0) -> int:
        """Fewest replicas that serve this total rate inside the SLA.

        `capacity_factor` is what live traffic taught about the real capacity (1 = as sized). Raises ValueError where
        no number of replicas would do (capacity 0) or the rate is not a finite number >= 0.
        """
        if not (math.isfinite(requests_per_second) and requests_per_second >= 0):
            raise ValueError(f"rate must be finite and >= 0, not {requests_per_second}")
        capacity = self.capacity_requests_per_second * capacity_factor
        if capacity <= 0:
            raise ValueError("no number of replicas meets the SLA: the capacity of one is 0")
        fewest = _whole(requests_per_second / capacity)
        alone = self.capacity_alone_requests_per_second
        if alone is None or not 0 < alone < self.capacity_requests_per_second:
            return fewest
        low, high = fewest, _whole(requests_per_second / (alone * capacity_factor))
        while low < high:
            middle = (low + high) // 2
            enough = _whole(requests_per_second / (self.capacity_of_one_among(middle) * capacity_factor)) <= middle
            low, high = (low, middle) if enough else (middle + 1, high)
        return low

    def capacity_of_one_among(self, replicas: int) -> float:
        """Largest rate of one of so many replicas inside the SLA, requests a second."""
        alone = self.capacity_alone_requests_per_second
        if alone is None or alone <= 0 or self.sized_replicas < 2:
            return self.capacity_requests_per_second
        # N replicas that share arrivals have 1/N of the noise, and what it costs goes with it: for LeastLoaded within
        # 4 % of the model, for RoundRobin below it, which errs on the side of one replica more.
        gained = min(1.0, (1 - 1 / max(1, replicas)) / (1 - 1 / self.sized_replicas))
        return alone + gained * (self.capacity_requests_per_second - alone)

    def _row(self, columns: NDArray[np.float64], x: float) -> Latency:
        values = [float(np.interp(x, self.rates, columns[:, i])) for i in range(len(STATISTICS))]
        return Latency(**{s: None if math.isnan(v) else v for s, v in zip(STATISTICS, values, strict=True)})


def _whole(replicas: float) -> int:
    # NB: 38.9999999/1 must not become one more replica by floating-point noise, so allow one part in 10^9.
    return max(0, math.ceil(replicas - 1e-9))
