"""Fit the five numbers of the step model to closed-loop benchmark points.

In a closed loop with c requests outstanding, one round of c requests lasts
`S(c) = c*T_pf + (OSL-1)*(w0 + b1*c + k*c*(ISL + OSL/2))` and completes c of them, so `c / X = S(c)`: linear in the five
numbers. At concurrency 1 nothing waits, so TTFT and ITL give prefill and decode apart. All rows are weighted by the
inverse of what they measure, which makes the residuals relative. See docs/design/sizing.md.

This module does not decide which profiles belong to a configuration (`select.py`) and knows no physics: a coefficient
that the points cannot tell apart from another is left at zero and the answer is only used near the fitted lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.profile import Load, Profile
from firsttoken_sizing.step.model import StepModel

ENGINE_MAX_BATCH = 256
"""Sequences that the engine runs at once where memory allows (default of vLLM and of the NIM engines measured)."""
MIN_CONCURRENCIES = 3
_LARGEST_STEP_TOKENS = 65536
_REWEIGHTINGS = 6
_RESIDUAL_FLOOR = 0.02


@dataclass(frozen=True, slots=True)
class Range:
    """Closed interval of token counts that were measured."""

    low: float
    high: float

    def covers(self, value: float, factor: float = 1.5) -> bool:
        """Whether `value` is inside the interval widened by `factor` on both sides."""
        return self.low / factor <= value <= self.high * factor


@dataclass(frozen=True, slots=True)
class FittedStep:
    """A step model and how far it can be trusted.

    Errors are absolute, in percent of the measured requests a second: `median_error_percent` over the points that were
    fitted, `band_percent` the 90th percentile (of points left out where the fit was cross-validated, else of the fitted
    ones).
    """

    model: StepModel
    input_tokens: Range
    output_tokens: Range
    points: int
    median_error_percent: float
    band_percent: float
    source: str

    def covers(self, input_tokens: float, output_tokens: float) -> bool:
        """Whether the lengths are near ones that were measured; outside, the fit is an extrapolation."""
        return self.input_tokens.covers(input_tokens) and self.output_tokens.covers(output_tokens)


@dataclass(frozen=True, slots=True)
class Sample:
    """One usable closed-loop point with the lengths of its profile. Latencies in milliseconds."""

    input_tokens: float
    output_tokens: float
    concurrency: float
    requests_per_second: float
    ttft_ms: float | None
    itl_ms: float | None

    @property
    def round_seconds(self) -> float:
        """Duration of one round of `concurrency` requests."""
        return self.concurrency / self.requests_per_second

    @property
    def context_tokens(self) -> float:
        """Mean context of a running sequence."""
        return self.input_tokens + self.output_tokens / 2


def usable_samples(profiles: Iterable[Profile]) -> tuple[Sample, ...]:
    """Closed-loop points whose running batch equals their concurrency: no overload window, no queue for KV memory.

    A queue shows as a TTFT longer than all that a step can prefill: 1.5 x the prefill of min(c, largest step) prompts.
    """
    samples: list[Sample] = []
    for profile in profiles:
        if profile.load is not Load.CLOSED_LOOP:
            continue
        alone = [p.ttft.mean for p in profile.points if p.concurrency == 1 and p.ttft.mean is not None]
        largest_step = _LARGEST_STEP_TOKENS / profile.input_tokens
        for point in profile.points:
            if point.concurrency is None or point.requests_per_second <= 0 or point.is_overload:
                continue
            limit = 1.5 * max(1.0, min(point.concurrency, largest_step)) * min(alone) if alone else None
            if limit is not None and point.ttft.mean is not None and point.ttft.mean > limit:
                continue
            samples.append(
                Sample(
                    profile.input_tokens,
                    profile.output_tokens,
                    point.concurrency,
                    point.requests_per_second,
                    point.ttft.mean,
                    point.itl.mean,
                )
            )
    return tuple(samples)


def can_fit(samples: Sequence[Sample]) -> bool:
    """Whether the points tell the coefficients apart: three concurrencies, one of them 1 with its TTFT."""
    return len({s.concurrency for s in samples}) >= MIN_CONCURRENCIES and any(
        s.concurrency == 1 and s.ttft_ms is not None for s in samples
    )


def fit_step(samples: Sequence[Sample], max_batch: int) -> StepModel:
    """Non-negative least squares of relative residuals, reweighted towards the median. Needs `can_fit(samples)`."""
    # NB: imported here because scipy.optimize takes half a second to load, which a sizing from shipped fits saves.
    from scipy.optimize import nnls

    rows, targets = _equations(samples)
    columns = _identifiable(samples)
    scaled = rows[:, columns] / targets[:, None]
    norms = np.linalg.norm(scaled, axis=0)
    weights = np.ones(len(targets))
    solution = np.zeros(len(columns))
    for _ in range(_REWEIGHTINGS):
        solution, _ = nnls(scaled / norms * weights[:, None], weights)
        residuals = np.abs(scaled / norms @ solution - 1)
        weights = 1 / np.sqrt(np.maximum(residuals, _RESIDUAL_FLOOR) / _RESIDUAL_FLOOR)
    coefficients = np.zeros(5)
    coefficients[columns] = solution / norms
    base, per_sequence, per_context_token, per_prefill_token, per_prefill_token_squared = map(float, coefficients)
    return StepModel(base, per_sequence, per_context_token, per_prefill_token, per_prefill_token_squared, max_batch)


def errors_percent(model: StepModel, samples: Sequence[Sample]) -> NDArray[np.float64]:
    """Absolute error of the predicted requests a second at each sample, in percent."""
    errors = []
    for s in samples:
        decode = model.decode_seconds(s.concurrency, s.concurrency * s.context_tokens)
        predicted = s.concurrency * model.prefill_seconds(s.input_tokens) + (s.output_tokens - 1) * decode
        errors.append(100 * abs(s.round_seconds / predicted - 1))
    return np.array(errors)


def _equations(samples: Sequence[Sample]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rows: list[list[float]] = []
    targets: list[float] = []
    for s in samples:
        steps, c, prompt = s.output_tokens - 1, s.concurrency, s.input_tokens
        rows.append([steps, steps * c, steps * c * s.context_tokens, c * prompt, c * prompt**2])
        targets.append(s.round_seconds)
        if c == 1 and s.ttft_ms:
            rows.append([1, 0, 0, prompt, prompt**2])
            targets.append(s.ttft_ms / 1000)
        if c == 1 and s.itl_ms:
            rows.append([1, 1, s.context_tokens, 0, 0])
            targets.append(s.itl_ms / 1000)
    return np.array(rows), np.array(targets)


def _identifiable(samples: Sequence[Sample]) -> list[int]:
    """Columns that the lengths can tell apart; of two that look alike, the one that grows with length is kept.

    With one pair of lengths b1 and k are one number, and so are p1 and p2.
    """
    contexts = {s.context_tokens for s in samples}
    prompts = {s.input_tokens for s in samples}
    return [0, *([1] if len(contexts) > 1 else []), 2, 3, *([4] if len(prompts) > 1 else [])]
