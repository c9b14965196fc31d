"""The requests that an emulated fleet is offered: when each arrives and how long it is.

A schedule is made up front from a seed (or read from a trace), so a run can be repeated and its true rate is known
exactly. Times are seconds since the traffic began. What happens to a request afterwards is not known here.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from firsttoken_sizing.simulation.requests import read_trace


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request: when it arrives (seconds since the traffic began) and its lengths."""

    seconds: float
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Lengths:
    """Token counts of generated requests: the means, and a coefficient of variation (0: all alike, else log-normal)."""

    input_tokens: float
    output_tokens: float
    variation: float = 0.0

    def draw(self, rng: np.random.Generator, count: int) -> list[tuple[int, int]]:
        """`count` pairs (input, output), each at least 1 token."""
        columns = []
        for mean in (self.input_tokens, self.output_tokens):
            if self.variation == 0:
                values = np.full(count, mean)
            else:
                sigma = math.sqrt(math.log1p(self.variation**2))
                values = rng.lognormal(math.log(mean) - sigma**2 / 2, sigma, count)
            columns.append(np.maximum(1, np.rint(values)).astype(int).tolist())
        return list(zip(*columns, strict=True))


@dataclass(frozen=True, slots=True)
class Phase:
    """Rate of `requests_per_second` from `start_seconds` on."""

    start_seconds: float
    requests_per_second: float

    def __post_init__(self) -> None:
        if not (self.start_seconds >= 0 and self.requests_per_second >= 0):
            raise ValueError(f"a phase has a start and a rate >= 0, not {self}")


class ArrivalSchedule:
    """A schedule of arrivals that is consumed in order of time."""

    def __init__(self, arrivals: Iterable[Arrival], end_seconds: float) -> None:
        """Take `arrivals` sorted by time; nothing arrives after `end_seconds`."""
        self.end_seconds = end_seconds
        self._arrivals = [arrival for arrival in arrivals if arrival.seconds <= end_seconds]
        self._times = [arrival.seconds for arrival in self._arrivals]
        self._next = 0

    def take(self, until_seconds: float) -> list[Arrival]:
        """The arrivals up to and including `until_seconds` that were not taken yet."""
        stop = bisect_right(self._times, until_seconds, lo=self._next)
        taken = self._arrivals[self._next : stop]
        self._next = stop
        return taken

    def rate(self, seconds: float) -> float:
        """Offered requests a second around `seconds`: of the five seconds that end there."""
        window = min(seconds, 5.0)
        if window <= 0:
            return 0.0
        return (bisect_right(self._times, seconds) - bisect_right(self._times, seconds - window)) / window


class PoissonTraffic(ArrivalSchedule):
    """Poisson arrivals with a rate that changes in steps."""

    def __init__(self, phases: Iterable[Phase], end_seconds: float, lengths: Lengths, seed: int) -> None:
        """Generate the whole schedule. Before the first phase nothing arrives."""
        self.lengths = lengths
        self.phases = sorted(phases, key=lambda phase: phase.start_seconds)
        self._rng = np.random.default_rng(seed)
        super().__init__(self._generate(self.phases, end_seconds), end_seconds)

    def _generate(self, phases: list[Phase], end_seconds: float) -> list[Arrival]:
        times: list[float] = []
        for index, phase in enumerate(phases):
            stop = phases[index + 1].start_seconds if index + 1 < len(phases) else end_seconds
            stop = min(stop, end_seconds)
            if stop <= phase.start_seconds:
                continue
            count = self._rng.poisson(phase.requests_per_second * (stop - phase.start_seconds))
            times += np.sort(self._rng.uniform(phase.start_seconds, stop, count)).tolist()
        lengths = self.lengths.draw(self._rng, len(times))
        return [Arrival(time, *pair) for time, pair in zip(times, lengths, strict=True)]

    def rate(self, seconds: float) -> float:
        """The rate of the phase that is on (not its noise)."""
        if seconds >= self.end_seconds:
            return 0.0
        past = [phase.requests_per_second for phase in self.phases if phase.start_seconds <= seconds]
        return past[-1] if past else 0.0

    def change_rate(self, now_seconds: float, requests_per_second: float) -> None:
        """Set the rate to `requests_per_second` from now to the end; later phases are dropped."""
        phase = Phase(max(now_seconds, 0.0), requests_per_second)
        self.phases = [earlier for earlier in self.phases if earlier.start_seconds < phase.start_seconds] + [phase]
        keep = max(bisect_right(self._times, phase.start_seconds), self._next)
        self._arrivals = self._arrivals[:keep] + self._generate([phase], self.end_seconds)
        self._times = [arrival.seconds for arrival in self._arrivals]


def trace_traffic(file: Path, end_seconds: float | None = None) -> ArrivalSchedule:
    """The requests of a trace (see `simulation.requests`), up to `end_seconds` (None: to its last one).

    Raises `InvalidInput` for a file that is no trace.
    """
    requests = read_trace(file, field="--trace")
    columns = (requests.arrival_s, requests.input_tokens, requests.output_tokens)
    arrivals = [Arrival(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    return ArrivalSchedule(arrivals, arrivals[-1].seconds if end_seconds is None else end_seconds)
