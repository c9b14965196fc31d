"""Second moments of the load of one replica: means, variances and covariances over time, in closed form.

While the batch limit does not bind, the arrivals A_k in step k-1 (prefilled in step k) obey

    A_k ~ Poisson(lambda * D_(k-1)),   D_k = w0 + sum over all earlier requests of what each adds to step k

A request adds T_pf to its first step and `b1 + k*context` to each later one. That is a Poisson autoregression, the
discrete-time form of a Hawkes process (Hawkes, Biometrika 58, 1971; Ferland, Latour and Oraichi, J. Time Series Anal.
27, 2006): every request stretches steps, and so lets in more requests. Being linear it has exact second moments: with
d(w) the transform of what one request adds and `G = 1 / (1 - lambda * d)` the response to it, the spectrum of the step
length is `a * E|d|^2 * |G|^2`, a arrivals a step; likewise for the batch. From them follow how many run at once, and
how long the decode of a request takes, given how many it found.

Prompts are taken as computed in the step after they arrive: no token budget, no batch limit (`prefill` and `poisson`
know those). For long outputs several steps are one block of the time grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.line import Line, line_of
from firsttoken_sizing.performance.routing import Splitter
from firsttoken_sizing.step.model import StepModel

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

_BLOCKS_A_LIFETIME = 128
_BLOCKS_A_SPREAD_LIFETIME = 256
"""Blocks in a lifetime where lengths differ: the shortest requests still need several."""
_LIFETIMES = 32
"""Length of the time grid in mean lifetimes. The load forgets in about `lifetime / (2 * (1 - rho))`."""
_FEWEST_BLOCKS = 1024
_SMALLEST_MARGIN = 1e-3
_LEAST_DISPERSION = 1e-6
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of one replica at one rate. Seconds; a column has one entry for each number of blocks decoded.

    A request arrives at a random time, has mean prompt and finds a batch of `mean_batch` decoding requests.
    """

    mean_batch: float
    """Mean of the requests that decode, over time."""
    dispersion: float
    """Variance of that number over its mean (1 for a Poisson number)."""
    variance_amplification: float
    """Ratio of that variance to the one that the decode alone would cause, with arrivals independent of the steps."""
    offset: float
    """Distance of the law of the batch from the one of decode alone beyond that: see `population`."""
    load_deviation: float
    """Standard deviation of the decode part of a step over what that of the batch alone explains (>= 1)."""
    base_seconds: float
    """A step without any request, and (below) what each running one adds, on the line that stands for the model."""
    sequence_seconds: float
    steps_a_block: float
    decode_seconds: Floats
    """Mean time of that many blocks of decode steps."""
    decode_variance: Floats
    batch_covariance: Floats
    """Covariance of that time with the batch that the request found."""
    after_co_arrivals: Floats
    """Seconds more for each request beyond the expected ones that is prefilled just before or with this one."""
    after_prefill: Floats
    """Seconds more for each second that the request's own prefill takes longer than the mean."""
    after_context: Floats
    """Seconds more for each second that the request adds to every one of its decode steps beyond the mean."""

    def over(self, steps: Floats, column: Floats) -> Floats:
        """A column at these numbers of decode steps."""
        return np.interp(steps / self.steps_a_block, np.arange(len(column)), column)


def moments(step: StepModel, lengths: Lengths, rate: float, splitter: Splitter) -> Moments:
    """Moments at `rate` requests a second, which must be stable without a batch limit."""
    line = line_of(step, lengths, rate)
    base, per_token = line.base_seconds, line.per_context_token_seconds
    shape = _presence(lengths)
    blocks, q = shape.blocks, shape.steps_a_block

    request = _added(step, lengths, line, shape)
    added = request.prefill + request.decode
    loop = rate * added * shape.lag
    margin = max(_SMALLEST_MARGIN, 1 - float(loop[0].real))
    response = 1 / (1 - loop)
    response[0] = 1 / margin
    block_seconds = q * base / margin
    arrivals = rate * block_seconds
    noise = splitter.noise(np.arange(len(loop)) * 2 * math.pi / blocks, arrivals)
    added_noise = noise.applied(request.square, added, added).real

    def spectra(mean: Complexes, square: Complexes, with_added: Complexes) -> tuple[Floats, Complexes]:
        """Spectra of a sum over requests: its own spectrum, and the one across with the step length."""
        across = noise.applied(with_added, mean, added)
        follow = rate * shape.lag * mean * response
        own = noise.applied(square, mean, mean).real + 2 * (across * np.conj(follow)).real
        return (
            arrivals * (own + np.abs(follow) ** 2 * added_noise),
            arrivals * (across + follow * added_noise) * np.conj(response),
        )

    batch, batch_step = spectra(shape.present, shape.present_square, request.square_with_presence)

    half = blocks // 2
    windows = np.arange(half)
    step_covariance = np.fft.irfft(arrivals * added_noise * np.abs(response) ** 2, blocks)[:half]
    # Var of a sum of n blocks: n*c(0) + 2 * sum of (n-i)*c(i) over 0 < i < n.
    sums, weighted = np.cumsum(step_covariance), np.cumsum(windows * step_covariance)
    variance = np.concatenate(([0.0], 2 * (windows[1:] * sums[:-1] - weighted[:-1]) - windows[1:] * step_covariance[0]))
    # Cov(A_0, D_j) / a: longer steps are met more often, and a request adds itself and those that it lets in.
    met_seconds = np.fft.irfft(noise.counts * added * np.abs(response) ** 2, blocks)[:half]
    mean = windows * block_seconds + _after(met_seconds)
    after_co_arrivals = _after(np.fft.irfft(added * response, blocks)[:half])
    nothing = np.zeros(half)
    after_prefill = after_context = nothing
    if not lengths.is_fixed:
        running = np.concatenate(([0.0], np.ones(half - 1)))
        after_prefill = _after(np.fft.irfft(response, blocks)[:half])
        after_context = q * _after(_convolved(running, response, blocks))
        aging = _after(_convolved(running * (windows - 0.5) * q, response, blocks))
        # The mean above is over all output lengths, also those that end before the window does; this one runs on.
        mean = (
            mean
            + request.slope * after_context
            + q * per_token * aging
            - _after(np.fft.irfft(request.decode * response, blocks)[:half])
        )
    floor = windows * q * base
    stretch = (mean - floor) / np.maximum(windows * block_seconds - floor, _TINY)

    batch_variance = _variance(batch, blocks)
    of_batch = request.slope + per_token * (lengths.running_context_tokens - lengths.input_tokens)
    load_deviation = 1.0
    if not lengths.is_fixed:
        load, _ = spectra(request.decode, request.decode_square, request.square_with_decode)
        explained = (q * of_batch) ** 2 * batch_variance
        load_deviation = math.sqrt(max(1.0, _variance(load, blocks) / max(1e-300, explained)))
    mean_batch = rate * float(np.interp(lengths.mean_decode_steps / q, windows, mean))
    step_mean_batch = arrivals * float(shape.present[0].real)
    # NB: no whole number of requests varies less than one that takes the two values next to its mean.
    part = mean_batch % 1.0
    least = max(_LEAST_DISPERSION, part * (1 - part) / max(_TINY, mean_batch))
    dispersion = max(least, batch_variance / step_mean_batch) if step_mean_batch else 1.0
    # With prefill that only slows all requests down the batch would be negative binomial.
    free = max(_SMALLEST_MARGIN, 1 - rate * request.prefill)
    of_decode = free / margin
    alone_mean = rate * lengths.mean_decode_steps * (base + of_batch) / margin
    return Moments(
        mean_batch=mean_batch,
        dispersion=dispersion,
        variance_amplification=dispersion / of_decode,
        offset=(dispersion - of_decode - (mean_batch - alone_mean)) / dispersion,
        load_deviation=load_deviation,
        base_seconds=base,
        sequence_seconds=of_batch,
        steps_a_block=q,
        decode_seconds=mean,
        decode_variance=np.maximum(0.0, variance) * np.maximum(1.0, stretch),
        batch_covariance=_after(np.fft.irfft(np.conj(batch_step), blocks)[:half]),
        after_co_arrivals=after_co_arrivals,
        after_prefill=after_prefill,
        after_context=after_context,
    )


@dataclass(frozen=True, slots=True)
class _Presence:
    """Presence of a request in the batch: transforms over the blocks since its prefill, means over output lengths."""

    blocks: int
    steps_a_block: float
    lag: Complexes
    """One step later; no delay where a block is longer than a step."""
    present: Complexes
    age: Complexes
    """Output tokens so far while it decodes."""
    present_square: Complexes
    age_square: Complexes
    across: Complexes


@lru_cache(maxsize=64)
def _presence(lengths: Lengths) -> _Presence:
    shares = np.array(lengths.output_spread.shares)
    steps = np.maximum(0.0, np.array(lengths.output_spread.multiples) * lengths.output_tokens - 1)
    mean = lengths.mean_decode_steps
    q = max(1.0, mean / (_BLOCKS_A_LIFETIME if lengths.output_spread.is_fixed else _BLOCKS_A_SPREAD_LIFETIME))
    blocks = 2 ** math.ceil(math.log2(max(_FEWEST_BLOCKS, _LIFETIMES * mean / q)))
    at = np.arange(blocks)
    present = age = np.zeros(blocks // 2 + 1, dtype=np.complex128)
    present_square, age_square, across = present, present, present
    for share, count in zip(shares, steps, strict=True):
        runs = np.clip(count / q - (at - 1), 0.0, 1.0)
        runs[0] = 0.0
        b, c = np.fft.rfft(runs), np.fft.rfft(runs * (at - 0.5) * q)
        present, age = present + share * b, age + share * c
        present_square, age_square = present_square + share * np.abs(b) ** 2, age_square + share * np.abs(c) ** 2
        across = across + share * b * np.conj(c)
    delay = np.exp(-2j * math.pi * np.arange(blocks // 2 + 1) / blocks) if q == 1 else np.ones(blocks // 2 + 1)
    return _Presence(blocks, q, delay.astype(np.complex128), present, age, present_square, age_square, across)


@dataclass(frozen=True, slots=True)
class _Added:
    """Time that a request adds to the steps since its prefill, in seconds: transforms, means over all requests."""

    prefill: float
    """Time added to the first one."""
    slope: float
    """Time added to each later one, without the tokens it has made."""
    decode: Complexes
    """Times added to all later ones."""
    decode_square: Complexes
    square: Complexes
    """Square of prefill and decode together."""
    square_with_decode: Complexes
    """Decode times prefill and decode."""
    square_with_presence: Complexes
    """Presence times prefill and decode."""


def _added(step: StepModel, lengths: Lengths, line: Line, shape: _Presence) -> _Added:
    multiples, shares = np.array(lengths.input_spread.multiples), np.array(lengths.input_spread.shares)
    prefills = step.prefill_seconds(lengths.uncached_input_tokens * multiples, lengths.cached_input_tokens * multiples)
    per_token, q = line.per_context_token_seconds, shape.steps_a_block
    slopes = line.per_sequence_seconds + per_token * lengths.input_tokens * multiples
    slope, prefill = float(shares @ slopes), float(shares @ prefills)
    decode_square = q**2 * (
        float(shares @ slopes**2) * shape.present_square
        + 2 * per_token * slope * shape.across.real
        + per_token**2 * shape.age_square
    )
    decode_prefill = q * (float(shares @ (slopes * prefills)) * shape.present + per_token * prefill * shape.age)
    return _Added(
        prefill=prefill,
        slope=slope,
        decode=q * (slope * shape.present + per_token * shape.age),
        decode_square=decode_square,
        square=float(shares @ prefills**2) + 2 * decode_prefill.real + decode_square,
        square_with_decode=decode_prefill + decode_square,
        square_with_presence=prefill * shape.present + q * (slope * shape.present_square + per_token * shape.across),
    )


def _variance(spectrum: Floats, blocks: int) -> float:
    """The covariance at lag 0: the mean of the spectrum over positive and negative frequencies."""
    return float(2 * spectrum.sum() - spectrum[0] - spectrum[-1]) / blocks


def _after(seconds: Floats) -> Floats:
    """Sums over the blocks 1..n for n = 0, 1, ...: block 0 is the prefill."""
    return np.concatenate(([0.0], np.cumsum(seconds[1:])))


def _convolved(values: Floats, response: Complexes, blocks: int) -> Floats:
    return np.fft.irfft(np.fft.rfft(values, blocks) * response, blocks)[: len(values)]
