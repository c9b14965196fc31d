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

    def at(self, requests_per_second: float) -> Operating:
        """Interpolate the table at one replica's rate (clamped to its ends)."""
        x = float(requests_per_second)
        return Operating(
            requests_per_second=x,
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
        # NB: 38.9999999/1 must not become one more replica by floating-point noise, so allow one part in 10^9.
        return max(0, math.ceil(requests_per_second / capacity - 1e-9))

    def _row(self, columns: NDArray[np.float64], x: float) -> Latency:
        values = [float(np.interp(x, self.rates, columns[:, i])) for i in range(len(STATISTICS))]
        return Latency(**{s: None if math.isnan(v) else v for s, v in zip(STATISTICS, values, strict=True)})
