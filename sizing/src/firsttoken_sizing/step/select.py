"""Which step model speaks for a configuration: fitted from the profiles at hand, else shipped, else none.

There is no guess for a configuration without points: an answer without measurements behind it would look like one with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from firsttoken_sizing.errors import NoBenchmark
from firsttoken_sizing.profile import ConfigurationKey, Profile
from firsttoken_sizing.request import Basis
from firsttoken_sizing.step.fit import (
    ENGINE_MAX_BATCH,
    FittedStep,
    Range,
    Sample,
    can_fit,
    errors_percent,
    fit_step,
    usable_samples,
)
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.shipped import repeat_error_percent, shipped_step, speed_key

EXTRAPOLATED_BAND_PERCENT = 30.0
"""Least error band of an answer for lengths that nobody measured: without points of the target, cross-validation on
nim_dli.csv gives 18 to 29 % (docs/design/sizing.md)."""


def step_model(key: ConfigurationKey, profiles: Iterable[Profile], max_batch: int) -> tuple[StepModel, Basis]:
    """The step model of a configuration (canonical names) with at most `max_batch` running requests, and its basis.

    Raises `NoBenchmark` where neither a matching profile can be fitted nor a shipped fit exists.
    """
    fitted = fitted_step(key, profiles)
    if fitted is None:
        raise no_benchmark(key)
    return replace(fitted.model, max_batch=max_batch), Basis.FITTED


def fitted_step(
    key: ConfigurationKey, profiles: Iterable[Profile], lengths: tuple[float, float] | None = None
) -> FittedStep | None:
    """The fit that speaks for a configuration, or None; for `lengths` (input, output tokens) the one that covers them.

    Profiles win over the shipped fit unless only the latter was measured near these lengths.
    """
    own = _fit_profiles(key, profiles)
    shipped = shipped_step(key)
    if own is None or shipped is None or lengths is None:
        return own or shipped
    return shipped if shipped.covers(*lengths) and not own.covers(*lengths) else own


def basis_of(fitted: FittedStep, input_tokens: float, output_tokens: float) -> tuple[Basis, float]:
    """Basis and error band (percent of requests a second) of a closed-loop answer from this fit at these lengths."""
    if fitted.covers(input_tokens, output_tokens):
        return Basis.FITTED, fitted.band_percent
    return Basis.EXTRAPOLATED, max(2 * fitted.band_percent, EXTRAPOLATED_BAND_PERCENT)


def no_benchmark(key: ConfigurationKey) -> NoBenchmark:
    """The error for a configuration that nothing is known about."""
    return NoBenchmark(
        "spec.model/spec.hardware",
        f"no measured points and no shipped fit for {key.model} {key.precision} on {key.gpu} with"
        f" tensorParallel {key.tensor_parallel} and pipelineParallel {key.pipeline_parallel}",
        "measure it (concurrency 1 and two more) and add the result with `firsttoken import`",
    )


def _fit_profiles(key: ConfigurationKey, profiles: Iterable[Profile]) -> FittedStep | None:
    matching = [p for p in profiles if speed_key(p.key) == speed_key(key)]
    samples = usable_samples(matching)
    if not can_fit(samples):
        return None
    model = fit_step(samples, ENGINE_MAX_BATCH)
    # NB: not np.median, which loads the whole of numpy.ma.
    median, ninetieth = map(float, np.quantile(errors_percent(model, samples), (0.5, 0.9)))
    return FittedStep(
        model=model,
        input_tokens=_range(samples, "input_tokens"),
        output_tokens=_range(samples, "output_tokens"),
        points=len(samples),
        median_error_percent=median,
        band_percent=max(ninetieth, repeat_error_percent()),
        source="fitted from " + ", ".join(sorted({p.name for p in matching})),
    )


def _range(samples: tuple[Sample, ...], field: str) -> Range:
    values = [getattr(s, field) for s in samples]
    return Range(min(values), max(values))
