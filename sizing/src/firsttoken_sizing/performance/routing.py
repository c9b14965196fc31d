"""Routing in front of N replicas, and how much less random it makes the arrivals at one of them.

`Random` splits Poisson arrivals into N independent Poisson streams: every replica is alone, and its queue needs the
whole allowance. `RoundRobin` sends every N-th request to a replica, so that its arrivals are Erlang-N, evener than
Poisson ones. `LeastLoaded` (fewest requests in the replica) keeps the replicas equally full: what fluctuates is the
total, of which each has its N-th part. It evens out how many requests a replica has, less so when their prompts come.

`PrefixAware` sends requests to the cache that has their beginning (`prefix_cache`), and is taken as `Random` otherwise:
what it evens out is not known.

NB: requests of exactly equal lengths start and end in one step; their replica then has the fewest and gets the next
ones all at once. Behind `LeastLoaded` the simulation then shows a TTFT several times as long as behind `Random`, from 4
replicas on; with output lengths whose P99 is 10 % above the mean that is gone. The model is of the latter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.workload import Routing

_GOLDEN = (math.sqrt(5) - 1) / 2
_EVEN_BELOW = 40.0
_MOST_COUNTED = 120
_SAME_DECIMALS = 6
"""Decimals of a mean that count when samples are sorted by it. Many have the same mean but for rounding: they stay in
their order, whatever their last bits say and however the processor at hand sorts."""

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]


@dataclass(frozen=True, slots=True)
class Noise:
    """Share of the Poisson noise that is left at every frequency: of the count of requests, and of their lengths."""

    counts: Floats
    lengths: float

    def applied(self, second: Complexes, first_mean: Complexes, other_mean: Complexes) -> Complexes:
        """`E[x conj(y)]` over requests, with the part that the mean lengths explain and the rest scaled apart."""
        explained = first_mean * np.conj(other_mean)
        return self.counts * explained + self.lengths * (second - explained)


@dataclass(frozen=True, slots=True)
class Splitter:
    """N replicas behind one rule."""

    replicas: int = 1
    routing: Routing = Routing.RANDOM

    @property
    def pooled(self) -> int:
        """Replicas that share their arrivals; 1 where each is alone."""
        return max(1, self.replicas) if self.routing.evens_out else 1

    @property
    def turn(self) -> int:
        """Every how many-th request of a Poisson stream comes here."""
        return self.pooled if self.in_turn else 1

    @property
    def in_turn(self) -> bool:
        """True where a replica's own arrivals are spaced by those of the others."""
        return self.pooled > 1 and self.routing is Routing.ROUND_ROBIN

    def sought(self, duration: Floats, mean_duration: Floats) -> Floats:
        """The time in which on average as many requests come as during a step of this duration here.

        A router that knows the load avoids a replica in a long step, which completes nothing meanwhile. With very many
        replicas about half of what is above the mean step counts; that half was chosen against the simulation (lengths
        with P99 of 1.5, 3 and 4 times the mean, 2, 4 and 16 replicas, two made-up step models at 50 and 80 % load).
        """
        if self.routing is not Routing.LEAST_LOADED:
            return duration
        return mean_duration + (duration - mean_duration) * (1 + 1 / self.pooled) / 2

    def queue_variability(self, work_variation: float) -> float:
        """Half the sum of the squared coefficients of variation of arrivals and of work.

        The length of a queue in heavy traffic scales with it (Kingman, 1961): 1/2 for equal requests that arrive at
        random, 1 for exponential work.
        """
        if self.routing is Routing.LEAST_LOADED:
            return (1 + work_variation) / 2 / self.pooled
        return (1 / self.pooled + work_variation) / 2

    def noise(self, frequencies: Floats, arrivals: float) -> Noise:
        """Noise at these frequencies (radians a block), `arrivals` requests a block at one replica."""
        n = self.pooled
        if n == 1:
            return Noise(np.ones_like(frequencies), 1.0)
        # Spectrum of a renewal process over its rate, (1 - |x|^2) / |1 - x|^2, x the transform of an Erlang-N time.
        x = (1 + 1j * np.maximum(frequencies, 1e-12) / (n * arrivals)) ** -n
        counts = (1 - np.abs(x) ** 2) / np.maximum(np.abs(1 - x) ** 2, 1e-300)
        counts[0] = 1 / n
        return Noise(counts, 1 / n if self.routing is Routing.LEAST_LOADED else 1.0)

    def arrivals(self, rng: np.random.Generator, expected: Floats, phase: Floats) -> tuple[Floats, Floats]:
        """Requests that reach one replica while `expected` are due, and the phase of the turn (from 0) after it."""
        n = self.turn
        total = phase + poisson_counts(rng, n * expected)
        count = np.floor(total / n)
        return count, total - n * count


def poisson_counts(rng: np.random.Generator, expected: Floats) -> Floats:
    """A Poisson number for each mean, spread evenly over its distribution among those with about the same mean.

    Far less noise in what follows than independent draws: "array-RQMC" (L'Ecuyer, Lecot and Tuffin, Operations Research
    56, 2008). Means above `_EVEN_BELOW` average out by themselves.
    """
    if expected.max(initial=0.0) > _EVEN_BELOW:
        return rng.poisson(expected).astype(np.float64)
    even = np.empty(len(expected))
    by_mean = np.argsort(expected.round(_SAME_DECIMALS), kind="stable")
    even[by_mean] = (np.arange(len(expected)) * _GOLDEN + rng.random()) % 1.0
    # Inversion: p(k) = p(k-1) * mean / k.
    probability = np.exp(-expected)
    below, counts = probability.copy(), np.zeros(len(expected))
    k = 0
    while k < _MOST_COUNTED:
        more = even > below
        if not more.any():
            break
        k += 1
        counts += more
        probability *= expected / k
        below += probability
    return counts
