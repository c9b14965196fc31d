"""Time of the decode of a request, given the batch that it found and the prompts that came with it.

The mean and the variance are those of `second_moments`. The part of them that the batch found explains is taken from
it, so that TTFT and decode belong together in E2E; the rest is gamma distributed, as the load of a self-exciting
process near saturation is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.line import is_straight
from firsttoken_sizing.performance.prefill import FirstToken, prompts
from firsttoken_sizing.performance.second_moments import Moments
from firsttoken_sizing.step.model import StepModel

Floats = NDArray[np.float64]

_TINY = 1e-12
_LEAST_LEFT = 1e-3
"""Share of variance, and of time above an empty engine's, that is kept where nearly all is explained."""


def decode_times(
    step: StepModel,
    lengths: Lengths,
    rate: float,
    known: Moments,
    running: Floats,
    mean_running: float,
    limit: int,
    first: FirstToken,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Decode steps of every sampled request, and the seconds they take given the batch that it found.

    `mean_running`: of the requests that decode, over time.
    """
    steps = _output_steps(lengths, len(first.chain), rng)
    found = running[first.chain]
    queue = prompts(step, lengths)
    stall = 1 / (1 - rate * queue.mean_seconds)
    expected = known.over(steps, known.decode_seconds)
    if not lengths.input_spread.is_fixed:
        extra_context = step.context_seconds(known.mean_batch) * (first.input_tokens - lengths.input_tokens)
        expected = expected + known.over(steps, known.after_context) * extra_context
        expected = expected + known.over(steps, known.after_prefill) * (first.prefill_seconds - queue.mean_seconds)
    variance = known.over(steps, known.decode_variance)
    covariance = known.over(steps, known.batch_covariance)
    batch_variance = max(_TINY, known.mean_batch * known.dispersion)
    floor = steps * known.base_seconds
    mean = expected + _found(step, lengths, known, steps, found, covariance / batch_variance, stall)
    if not is_straight(step):
        # Little's law: as many decode on average as arrive while one does.
        mean *= mean_running / rate / max(_TINY, float(np.average(mean, weights=first.weights)))
    # Those that were prefilled with it decode beside it, and what they let in follows.
    surprise = first.co_arrivals - float(np.average(first.co_arrivals, weights=first.weights))
    per_co_arrival = known.over(steps, known.after_co_arrivals)
    mean = mean + per_co_arrival * surprise
    of_co_arrivals = per_co_arrival**2 * float(np.average(surprise**2, weights=first.weights))
    explained = covariance**2 / batch_variance + of_co_arrivals
    above = np.maximum(mean - floor, _LEAST_LEFT * floor + _TINY)
    left = np.maximum(_LEAST_LEFT * variance, variance - explained)
    # Like the load itself the rest is nearly gamma distributed, with a variance in proportion to the mean.
    scale = np.maximum(_TINY, left / np.maximum(expected - floor, _TINY))
    total = floor + scale * rng.standard_gamma(above / scale)
    # With every slot taken the others are prefilled as slots get free: each at most once while this request runs.
    full = steps * step.decode_seconds(float(limit), limit * lengths.running_context_tokens)
    admitted = limit - found + limit * steps / max(1.0, lengths.mean_decode_steps)
    return steps, np.minimum(total, full + queue.mean_seconds * admitted)


def _found(
    step: StepModel, lengths: Lengths, known: Moments, steps: Floats, found: Floats, effect: Floats, stall: float
) -> Floats:
    """Decode seconds more than the mean for the batch that a request found, `effect` for each one where it is linear.

    The batch falls back towards its mean meanwhile. Where the step model bends, that part of it which is left counts as
    the model says.
    """
    more = found - known.mean_batch
    if is_straight(step):
        return effect * more
    linear = steps * known.sequence_seconds * stall
    left = np.clip(effect / np.maximum(linear, _TINY), 0.0, 1.0)
    context = lengths.running_context_tokens
    meant = np.clip(known.mean_batch + left * more, 0.0, step.max_batch)
    at_mean = step.decode_seconds(known.mean_batch, known.mean_batch * context)
    return steps * stall * (step.decode_seconds(meant, meant * context) - at_mean)


def _output_steps(lengths: Lengths, count: int, rng: np.random.Generator) -> Floats:
    spread = lengths.output_spread
    if spread.is_fixed:
        return np.full(count, lengths.decode_steps)
    strata = spread.strata_at(rng.permutation((np.arange(count) + 0.5) / count))
    return np.maximum(0.0, np.array(spread.multiples)[strata] * lengths.output_tokens - 1)
