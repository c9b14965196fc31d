"""Number of requests that one replica holds: a distribution with the mean and the variance that the load has.

An engine that only decodes is a processor-sharing queue whose service slows down with the batch, and its number of
requests is a birth-death chain, whatever the lengths: `p(n) / p(n-1) = x(n)`, the rate of arrivals over that of
departures with n (for steps that lengthen linearly a negative binomial law). Prefill makes the arrivals during a step
depend on its length, which widens the law and keeps its shape; a router that evens out arrivals narrows it. Above the
batch limit requests wait, and their number falls off geometrically.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.performance.second_moments import Moments

Floats = NDArray[np.float64]

_SMALLEST_RATIO = 1e-12
_SMALLEST_LOAD = 1e-6
_TAIL = 1e-7
"""Probability of the numbers that are left out."""
_MOST_WAITING = 200_000
"""States of the queue that are kept at most; more are needed only within 0.01 % of the stable rate."""


@dataclass(frozen=True, slots=True)
class Population:
    """Distribution over time: `probability[n]` of n requests that run or wait for a slot."""

    probability: Floats

    @property
    def mean(self) -> float:
        """Mean number of requests."""
        return float(self.probability @ np.arange(len(self.probability)))

    def quantiles(self, shares: Floats) -> Floats:
        """Numbers of requests at the given shares of time (0..1)."""
        cumulative = np.cumsum(self.probability)
        counts: Floats = np.searchsorted(cumulative, shares * cumulative[-1]).astype(np.float64)
        return counts


def population(decode_ratios: Floats, known: Moments, load: float, variability: float) -> Population:
    """The law of a replica whose batch limit is the number of `decode_ratios`, which are x(1), x(2)...

    `known.variance_amplification` and `known.offset` turn it into the law with the mean and the variance of the load:
    for a linear step `1 - (1 - x(n)) / variance_amplification - offset / n` is Panjer's `a + b / n` of exactly those.

    `load`: the rate over the largest stable one. `variability`: half the sum of the squared coefficients of variation
    of arrivals and of work, 1 for a queue with exponential ones. Such a queue falls off by `load` a request, others by
    `load^(1 / variability)` (heavy traffic); the chance to wait at all is nearly the same (as for M/D/c against M/M/c).
    """
    n = np.arange(1, len(decode_ratios) + 1)
    ratios = np.maximum(_SMALLEST_RATIO, 1 - (1 - decode_ratios) / known.variance_amplification - known.offset / n)
    logs = np.concatenate(([0.0], np.cumsum(np.log(ratios))))
    load = min(max(load, _SMALLEST_LOAD), 1 - _SMALLEST_LOAD)
    ratio = min(max(load ** (1 / variability), _SMALLEST_RATIO), 1 - _SMALLEST_LOAD)
    waiting = min(_MOST_WAITING, math.ceil(math.log(_TAIL) / math.log(ratio)))
    # Of the noise of prefill a part is left while requests wait: only as many are prefilled as slots get free.
    first = math.sqrt(max(1.0, known.variance_amplification)) * (1 - ratio) * load / (1 - load)
    logs = np.concatenate((logs, logs[-1] + math.log(first) + math.log(ratio) * np.arange(waiting)))
    weights = np.exp(logs - logs.max())
    return Population(weights / weights.sum())
