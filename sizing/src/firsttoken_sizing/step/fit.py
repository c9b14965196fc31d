"""Fit the engine constants of one configuration to its closed-loop points, drawn to what is known of the engine.

The unknowns are the logarithms of the ten constants of `Calibration` (so that every cost stays positive) and of the
batch shape at the concurrencies that were measured; each is drawn to its prior, the shape to 1. Residuals are
log(predicted / measured), beyond 3 % they count linearly (Huber). See Fit in docs/design/sizing.md.

No scipy, whose import takes longer than a whole sizing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.step.calibration import TERMS, Calibration
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.prior import StepWork
from firsttoken_sizing.step.samples import Sample

_MOST_ITERATIONS = 40
_LONGEST_MOVE = 0.7
_CONVERGED = 1e-5

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Costs:
    """Parts of each measured time by constant, in seconds, at the constants of the prior.

    `batch` and `other` have a row for each time and a column for each constant: the part of the batch alone (which the
    shape multiplies) and the rest (attention and prompts). `measured` are the times, `concurrency` the running
    sequences of each.
    """

    batch: Floats
    other: Floats
    measured: Floats
    concurrency: Floats


@dataclass(frozen=True, slots=True)
class Fit:
    """Constants of one configuration, the shape of its batch, and how badly both fit together with the prior."""

    constants: Calibration
    batch_shape: tuple[tuple[float, float], ...]
    covariance: Floats
    """Covariance of the logarithms of the ten constants, as far as the points and the prior leave them open."""
    cost: float
    """Cost that was minimized: of two priors the one with the smaller cost explains the points better."""

    def step(self, work: StepWork) -> StepModel:
        """The step model of these constants."""
        return replace(work.step(self.constants), batch_shape=self.batch_shape)


def fit_constants(
    samples: Sequence[Sample],
    work_at: Callable[[float], StepWork],
    prior: Calibration,
    least: Calibration | None = None,
    *,
    spread: float = PARAMETERS.fit.constant_spread,
) -> Fit:
    """Constants and batch shape of the configuration that was measured. Needs one sample or more.

    `work_at` is the work of a step for prompts of so many tokens. A constant that is 0 in the prior stays 0, and none
    falls below `least` (`step.floor`), as none of the prior does.
    """
    costs = costs_of(samples, work_at, prior)
    nodes = np.unique(costs.concurrency)
    hats = np.stack([np.interp(costs.concurrency, nodes, row) for row in np.eye(len(nodes))], axis=1)
    size = len(TERMS)
    spreads = np.concatenate([np.full(size, spread), np.full(len(nodes), PARAMETERS.fit.shape_spread)])
    lowest = np.full(len(spreads), -np.inf)
    if least is not None:
        lowest[:size] = _lowest(prior, least)
    unknown, covariance, cost = _minimize(lambda u: _residuals(costs, hats, u), spreads, lowest)
    constants = np.array(astuple(prior)) * np.exp(unknown[:size])
    shape = tuple(zip(map(float, nodes), map(float, np.exp(unknown[size:])), strict=True))
    return Fit(Calibration(*map(float, constants)), shape, covariance[:size, :size], cost)


def _lowest(prior: Calibration, least: Calibration) -> Floats:
    """Logarithms of the floors over the prior; minus infinity where there is none, or the prior is 0 and stays it."""
    pairs = zip(astuple(prior), astuple(least), strict=True)
    return np.array([np.log(floor / known) if known > 0 and floor > 0 else -np.inf for known, floor in pairs])


def errors_percent(model: StepModel, samples: Sequence[Sample]) -> NDArray[np.float64]:
    """Absolute error of the predicted requests a second at each sample, in percent."""
    errors = []
    for s in samples:
        steps = max(s.output_tokens - 1, 0.0)
        decode = model.decode_seconds(s.concurrency, s.concurrency * s.context_tokens)
        # An answer of one token still costs the fixed part of the step that prefills it.
        decoding = steps * decode if steps else model.batch_seconds(s.concurrency)
        predicted = s.concurrency * model.prefill_seconds(s.input_tokens) + decoding
        errors.append(100 * abs(s.round_seconds / predicted - 1))
    return np.array(errors)


def costs_of(samples: Sequence[Sample], work_at: Callable[[float], StepWork], prior: Calibration) -> Costs:
    """The measured times of the samples (rounds, and TTFT and ITL alone) and what each constant costs in them."""
    parts = []
    for prompt in sorted({s.input_tokens for s in samples}):
        times = _times([s for s in samples if s.input_tokens == prompt])
        work = work_at(prompt)
        batch, other = _parts(work.step(prior), times, prompt)
        # Times are linear in the constants: doubling one adds what it costs.
        doubled = [work.step(replace(prior, **{term: 2 * getattr(prior, term)})) for term in TERMS]
        columns = [(b - batch, o - other) for b, o in (_parts(step, times, prompt) for step in doubled)]
        stacked = (np.stack([c[0] for c in columns], axis=1), np.stack([c[1] for c in columns], axis=1))
        parts.append((*stacked, times["measured"], times["concurrency"]))
    batch, other, measured, concurrency = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Costs(batch, other, measured, concurrency)


Times = dict[str, Floats]
"""Measured times (seconds), by column: so many decode steps of a batch with so much context in all, and so many
prompts; `alone` is 1 where it is the time of one prompt itself (TTFT), and not its share of the throughput."""


def _times(samples: Sequence[Sample]) -> Times:
    rows: list[tuple[float, ...]] = []
    for s in samples:
        c, steps = s.concurrency, max(s.output_tokens - 1, 0.0)
        # As in `errors_percent`.
        rows.append((steps or 1.0, c, c * s.context_tokens if steps else 0.0, c, 0.0, s.round_seconds))
        if c == 1 and (ttft := s.point.ttft.mean):
            rows.append((1.0, 1.0, 0.0, 1.0, 1.0, ttft / 1000))
        if c == 1 and (itl := s.point.itl.mean):
            rows.append((1.0, 1.0, s.context_tokens, 0.0, 0.0, itl / 1000))
    columns = ("steps", "concurrency", "context", "prompts", "alone", "measured")
    return dict(zip(columns, map(np.array, zip(*rows, strict=True)), strict=True))


def _parts(step: StepModel, t: Times, prompt_tokens: float) -> tuple[Floats, Floats]:
    """Predicted seconds: of the batch alone, and of attention and prompts."""
    context = step.context_seconds(t["concurrency"]) * t["context"]
    prompt = np.where(t["alone"], step.prefill_latency_seconds(prompt_tokens), step.prefill_seconds(prompt_tokens))
    return t["steps"] * step.batch_seconds(t["concurrency"]), t["steps"] * context + t["prompts"] * prompt


def _residuals(costs: Costs, hats: Floats, unknown: Floats) -> tuple[Floats, Floats]:
    """log(predicted / measured) of every time, and its derivative by every unknown."""
    size = len(TERMS)
    factors = np.exp(unknown[:size])
    batch = costs.batch * factors * np.exp(hats @ unknown[size:])[:, None]
    parts = batch + costs.other * factors
    predicted = parts.sum(axis=1)
    slopes = np.concatenate([parts, batch.sum(axis=1)[:, None] * hats], axis=1) / predicted[:, None]
    return np.log(predicted / costs.measured), slopes


def _minimize(
    residuals_of: Callable[[Floats], tuple[Floats, Floats]], spreads: Floats, lowest: Floats
) -> tuple[Floats, Floats, float]:
    """The unknowns (drawn to 0 within `spreads`) that explain the residuals best, their covariance and the cost.

    Gauss-Newton on `sum of huber(residual / noise) + sum of (unknown / spread)^2 / 2`; `residuals_of` gives the
    residuals and their derivatives. An unknown stops at `lowest`, and is left out of the moves that would go on.
    """
    precision = np.diag(spreads**-2.0)
    unknown = np.zeros(len(spreads))
    for _ in range(_MOST_ITERATIONS):
        residuals, slopes = residuals_of(unknown)
        weights = 1 / np.maximum(1.0, np.abs(residuals) / PARAMETERS.fit.noise) / PARAMETERS.fit.noise**2
        curvature = (slopes.T * weights) @ slopes + precision
        slope = slopes.T @ (weights * residuals) + precision @ unknown
        free = (unknown > lowest) | (slope < 0)
        move = np.zeros(len(unknown))
        move[free] = np.linalg.solve(curvature[np.ix_(free, free)], -slope[free])
        before, unknown = unknown, np.maximum(unknown + np.clip(move, -_LONGEST_MOVE, _LONGEST_MOVE), lowest)
        move = unknown - before
        if np.abs(move).max() < _CONVERGED:
            break
    residuals, _ = residuals_of(unknown)
    sizes = np.abs(residuals) / PARAMETERS.fit.noise
    losses = np.where(sizes <= 1, sizes**2 / 2, sizes - 0.5)
    covariance = np.linalg.inv(curvature).astype(np.float64)
    return unknown, covariance, float(losses.sum() + unknown @ precision @ unknown / 2)
