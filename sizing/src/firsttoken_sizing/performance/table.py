"""The sized table: rate per replica -> latencies and KV use. Built once per change, read at every tick.

A decision needs three look-ups (N-1, N, N+1) and a division; computing the performance model instead would cost
seconds a tick for a thousand resources.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.profile import STATISTICS, Latencies, Latency
from firsttoken_sizing.rounding import ceiling

if TYPE_CHECKING:
    # NB: a step model is made from a request, and a request may carry a table.
    from firsttoken_sizing.performance.work import Work


@dataclass(frozen=True, slots=True)
class Operating(Latencies):
    """Performance of one replica at one rate."""

    requests_per_second: float
    kv_percent: float
    saturated: bool
    """The rate is above all that the table covers: latencies grow without bound, the ones shown are lower bounds."""


@dataclass(frozen=True, slots=True)
class _Lines:
    """The columns of a table side by side, in lists: one look-up is a dozen times faster than numpy's for each."""

    rates: list[float]
    values: list[list[float]]
    """One list a rate: TTFT, ITL, end to end, KV use."""
    slopes: list[list[float]]
    """Slopes from each rate to the next; one less."""

    def place(self, rate: float) -> tuple[int, float]:
        """The row at or below a rate, and how far above that row it is; clamped to the ends."""
        at = min(max(rate, self.rates[0]), self.rates[-1])
        row = bisect_right(self.rates, at) - 1
        return row, at - self.rates[row]


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
    """Capacity of one replica alone, where a router evens out arrivals. What one of `sized_replicas` carries is
    `capacity_requests_per_second`. None: the capacity does not depend on the number."""
    sized_replicas: int = 1
    work: Work | None = None
    """Cost of requests of other lengths; None: only the rate is known to count."""

    def at(self, requests_per_second: float, replicas: int | None = None) -> Operating:
        """Interpolate the table at one replica's rate (clamped to its ends).

        `replicas`: how many share the arrivals, where that is not `sized_replicas`. Fewer even them out less: each is
        read at the rate that uses as much of the capacity of one of `sized_replicas`.
        """
        lines, x = self._lines, self._read_at(requests_per_second, replicas)
        i, step = lines.place(x)
        numbers = lines.values[i]
        if step:
            numbers = [value + slope * step for value, slope in zip(numbers, lines.slopes[i], strict=True)]
        known = [None if math.isnan(number) else number for number in numbers]
        return Operating(
            requests_per_second=float(requests_per_second),
            ttft=Latency(*known[0:5]),
            itl=Latency(*known[5:10]),
            end_to_end=Latency(*known[10:15]),
            kv_percent=numbers[15],
            saturated=x > lines.rates[-1] or x >= self.saturation_requests_per_second,
        )

    def means_at(self, requests_per_second: float, replicas: int | None = None) -> tuple[float | None, float | None]:
        """Mean TTFT and mean ITL (milliseconds) as `at` has them, for who looks many rates up in a row."""
        lines = self._lines
        i, step = lines.place(self._read_at(requests_per_second, replicas))
        values = lines.values[i]
        ttft, itl = values[0], values[len(STATISTICS)]
        if step:
            slopes = lines.slopes[i]
            ttft, itl = ttft + slopes[0] * step, itl + slopes[len(STATISTICS)] * step
        return None if math.isnan(ttft) else ttft, None if math.isnan(itl) else itl

    def _read_at(self, requests_per_second: float, replicas: int | None) -> float:
        """The rate of the table that stands for this one."""
        if replicas is None or self.capacity_requests_per_second <= 0:
            return float(requests_per_second)
        return requests_per_second * (self.capacity_requests_per_second / self.capacity_of_one_among(replicas))

    def replicas_for(self, requests_per_second: float, capacity_factor: float = 1.0) -> int:
        """Fewest replicas that serve this total rate inside the SLA.

        `capacity_factor` is the real capacity as learned of live traffic (1 = as sized). Raises ValueError where no
        number of replicas would do (capacity 0) or the rate is not a finite number >= 0.
        """
        if not (math.isfinite(requests_per_second) and requests_per_second >= 0):
            raise ValueError(f"rate must be finite and >= 0, not {requests_per_second}")
        capacity = self.capacity_requests_per_second * capacity_factor
        if capacity <= 0:
            raise ValueError("no number of replicas meets the SLA: the capacity of one is 0")
        fewest = _whole(requests_per_second / capacity)
        alone = self.capacity_alone_requests_per_second
        if alone is None or not 0 < alone < self.capacity_requests_per_second or self.sized_replicas < 2:
            return fewest

        def enough(replicas: int) -> bool:
            each = self.capacity_of_one_among(replicas) * capacity_factor
            return _whole(requests_per_second / each) <= replicas

        # Up to `sized_replicas` of them carry N x alone + (N - 1) x gain together, a line; the loops only settle what
        # rounding leaves open, and fleets above it.
        gain = (self.capacity_requests_per_second - alone) / (1 - 1 / self.sized_replicas)
        replicas = max(fewest, _whole((requests_per_second / capacity_factor + gain) / (alone + gain)))
        while not enough(replicas):
            replicas += 1
        while replicas > fewest and enough(replicas - 1):
            replicas -= 1
        return replicas

    def capacity_of_one_among(self, replicas: int) -> float:
        """Largest rate of one of so many replicas inside the SLA, requests a second."""
        alone = self.capacity_alone_requests_per_second
        if alone is None or alone <= 0 or self.sized_replicas < 2:
            return self.capacity_requests_per_second
        # N replicas that share arrivals have 1/N of the noise, and what it costs goes with it: for LeastLoaded within
        # 4 % of the model, for RoundRobin below it, which errs on the side of one replica more.
        gained = min(1.0, (1 - 1 / max(1, replicas)) / (1 - 1 / self.sized_replicas))
        return alone + gained * (self.capacity_requests_per_second - alone)

    @cached_property
    def _lines(self) -> _Lines:
        values = np.column_stack((self.ttft, self.itl, self.end_to_end, self.kv_percent))
        slopes = np.diff(values, axis=0) / np.diff(self.rates)[:, np.newaxis]
        return _Lines(self.rates.tolist(), values.tolist(), slopes.tolist())


def _whole(replicas: float) -> int:
    return max(0, ceiling(replicas))
