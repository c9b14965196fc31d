"""Lengths of requests, as the performance models read them: tokens in the KV cache, tokens to compute, tokens made.

The means, and how lengths are spread around them. A spread is a few strata, each with its share of the requests and its
mean length, so that sums over requests need no draws and answers do not depend on chance. Input and output lengths are
taken as independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.rounding import NOISE
from firsttoken_sizing.workload import Workload

_STANDARD_NORMAL = NormalDist()
_STRATA_EDGES = np.concatenate(([0.0], [_STANDARD_NORMAL.cdf(z) for z in np.linspace(-2.75, 3.5, 26)], [1.0]))
"""Evenly in standard deviations: the tail, where head-of-line blocking comes from, gets strata of its own."""
_POINTS_A_STRATUM = 8
_CLOSEST_SCORES = 1e-9


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of lengths: `shares` of the requests (sum 1) have `multiples` of the mean length (their mean is 1)."""

    shares: tuple[float, ...] = (1.0,)
    multiples: tuple[float, ...] = (1.0,)

    @property
    def is_fixed(self) -> bool:
        """True where every request has the mean length."""
        return len(self.shares) == 1

    @property
    def log_deviation(self) -> float:
        """Standard deviation of the natural logarithm of lengths."""
        logs, shares = np.log(self.multiples), np.array(self.shares)
        return float(math.sqrt(shares @ (logs - shares @ logs) ** 2))

    def strata_at(self, shares: NDArray[np.float64]) -> NDArray[np.int64]:
        """Index of the stratum at each of these shares (0..1) of all requests, by rising share."""
        edges = np.cumsum(self.shares)
        # A share on an edge, such as the median of an odd number of requests, is of the stratum below it.
        strata: NDArray[np.int64] = np.searchsorted(edges[:-1] / edges[-1] + NOISE, shares)
        return strata


FIXED = Spread()


@dataclass(frozen=True, slots=True)
class Lengths:
    """One request: prompt tokens in the KV cache, prompt tokens to compute (without cached ones), output tokens.

    Means. The same share of every prompt is cached.
    """

    input_tokens: float
    uncached_input_tokens: float
    output_tokens: float
    input_spread: Spread = FIXED
    output_spread: Spread = FIXED

    @property
    def cached_input_tokens(self) -> float:
        """Prompt tokens whose keys and values are there already."""
        return self.input_tokens - self.uncached_input_tokens

    @property
    def cached_input_percent(self) -> float:
        """Share of a prompt whose keys and values are there already."""
        return 100 * self.cached_input_tokens / self.input_tokens

    @property
    def decode_steps(self) -> float:
        """Steps after the one that prefills (and makes the first token)."""
        return max(0.0, self.output_tokens - 1)

    @property
    def mean_decode_steps(self) -> float:
        """Mean of `decode_steps` over all requests: more than that of the mean where some make a single token."""
        steps = np.maximum(0.0, np.array(self.output_spread.multiples) * self.output_tokens - 1)
        return float(np.array(self.output_spread.shares) @ steps)

    @property
    def context_tokens(self) -> float:
        """Mean context while decoding, of a request of mean lengths."""
        return self.input_tokens + self.output_tokens / 2

    @property
    def running_context_tokens(self) -> float:
        """Mean context of those that decode at one moment: `E[l] + E[o^2] / (2 E[o])`, as long answers run longer."""
        shares, multiples = np.array(self.output_spread.shares), np.array(self.output_spread.multiples)
        return self.input_tokens + self.output_tokens * float(shares @ multiples**2) / 2

    @property
    def is_fixed(self) -> bool:
        """True where every request has the mean lengths."""
        return self.input_spread.is_fixed and self.output_spread.is_fixed


def lengths_of(workload: Workload) -> Lengths:
    """The lengths that a workload declares: fixed, unless it declares quantiles or a P99.

    Raises `InvalidInput` where a P99 (or a single quantile) and the mean belong to no log-normal distribution.
    """
    return Lengths(
        input_tokens=workload.input_tokens,
        uncached_input_tokens=workload.input_tokens * (1 - workload.cached_input_percent / 100),
        output_tokens=workload.output_tokens,
        input_spread=_spread("input", workload.input_tokens, workload.input_tokens_p99, workload.input_token_quantiles),
        output_spread=_spread(
            "output", workload.output_tokens, workload.output_tokens_p99, workload.output_token_quantiles
        ),
    )


def _spread(side: str, mean: float, p99: float | None, quantiles: Sequence[tuple[float, float]]) -> Spread:
    if quantiles:
        field = f"traffic.{side}TokenQuantiles"
        pairs = quantiles
    elif p99 is not None:
        field = f"traffic.{side}TokensP99"
        pairs = ((0.99, p99),)
    else:
        return FIXED
    if len(pairs) > 1:
        return _between_quantiles(pairs)
    share, tokens = pairs[0]
    return FIXED if tokens == mean else _log_normal(_deviation(side, field, mean, share, tokens))


def _deviation(side: str, field: str, mean: float, share: float, tokens: float) -> float:
    """Standard deviation of the logarithm of the log-normal distribution with this mean and quantile.

    `tokens = exp(m + z*s)` and `mean = exp(m + s^2 / 2)` give `s^2 / 2 - z*s + ln(tokens / mean) = 0`.
    """
    z = _STANDARD_NORMAL.inv_cdf(share)
    squared = z * z - 2 * math.log(tokens / mean)
    if squared < 0 or z - math.sqrt(max(0.0, squared)) < 0:
        most = math.exp(z * z / 2) if z > 0 else 1.0
        raise InvalidInput(
            field,
            f"{tokens:g} is {tokens / mean:.3g} times the mean, and a log-normal distribution has at most {most:.3g}",
            f"correct it or the mean, or declare several traffic.{side}TokenQuantiles",
        )
    return z - math.sqrt(squared)


def _log_normal(deviation: float) -> Spread:
    return _strata(np.exp(deviation * _scores()))


def _between_quantiles(pairs: Sequence[tuple[float, float]]) -> Spread:
    """The logarithm of the length is linear in the normal score between quantiles (exact for a log-normal one)."""
    z = np.array([_STANDARD_NORMAL.inv_cdf(share) for share, _ in pairs])
    logs = np.log([tokens for _, tokens in pairs])
    slopes = np.minimum(np.diff(logs) / np.maximum(np.diff(z), _CLOSEST_SCORES), PARAMETERS.lengths.steepest_tail)
    scores = _scores()
    inside = np.interp(scores, z, logs)
    below = np.minimum(0.0, scores - z[0]) * slopes[0]
    above = np.maximum(0.0, scores - z[-1]) * slopes[-1]
    return _strata(np.exp(inside + below + above))


def _scores() -> NDArray[np.float64]:
    """Normal scores at evenly spaced shares inside every stratum: (strata, points)."""
    inner = (np.arange(_POINTS_A_STRATUM) + 0.5) / _POINTS_A_STRATUM
    shares = _STRATA_EDGES[:-1, None] + np.diff(_STRATA_EDGES)[:, None] * inner
    return np.array([[_STANDARD_NORMAL.inv_cdf(share) for share in row] for row in shares])


def _strata(tokens: NDArray[np.float64]) -> Spread:
    """Strata of the mean tokens of their points, scaled so that the mean over all is 1."""
    shares, means = np.diff(_STRATA_EDGES), tokens.mean(axis=1)
    return Spread(tuple(map(float, shares)), tuple(map(float, means / (shares @ means))))
