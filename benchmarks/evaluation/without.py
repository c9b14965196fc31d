"""Knowledge from which something was left out: what `size` is asked with when its answers are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from evaluation import silicon
from evaluation.curves import MeasuredCurve
from evaluation.data import NIM, read_profiles
from evaluation.measured import Measured, calibrations, configurations
from evaluation.nim_fit import calibrated, observations
from firsttoken_sizing.catalog import resolve_model
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.tensorrt_llm import RELEASE_2024
from firsttoken_sizing.profile import ConfigurationKey, Profile
from firsttoken_sizing.step import FittedStep, Knowledge, Origin, Range, shipped
from firsttoken_sizing.step.knowledge import FitKey, fit_configuration
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.samples import Sample

SameFit = Callable[[FitKey], bool]
"""Tell whether a fit is of what is left out."""


def pinned_fit(curve: MeasuredCurve) -> FitKey:
    """The fit that an answer about this curve would stand on."""
    return fit_configuration(resolve_model(curve.key.model), curve.key), curve.engine, curve.release


def without_workload(data: Path, curve: MeasuredCurve) -> Knowledge | None:
    """All but the points at these lengths of this configuration; None where it has no others."""
    measured = _measured(data).get(pinned_fit(curve))
    if measured is None:
        return None
    rest = tuple(s for s in measured.samples if (s.input_tokens, s.output_tokens) != curve.pair)
    if not rest or len(rest) == len(measured.samples):
        return None
    return _with_fit(pinned_fit(curve), _fitted(measured, rest, curve.input_tokens))


def without_configuration(data: Path, curve: MeasuredCurve) -> Knowledge:
    """All but the configuration; of collected points the (model, GPU, TP) of every precision."""
    ours, engine, release = pinned_fit(curve)

    def same(of: FitKey) -> bool:
        other = of[0]
        alike = (other.model, other.gpu, other.tensor_parallel) == (ours.model, ours.gpu, ours.tensor_parallel)
        return of[1:] == (engine, release) and alike and (curve.collected or other.precision == ours.precision)

    return _without(data, curve, same)


def without_model(data: Path, curve: MeasuredCurve) -> Knowledge:
    """All but the architecture."""
    return _without(data, curve, lambda of: of[0].model == pinned_fit(curve)[0].model)


def without_gpu(data: Path, curve: MeasuredCurve) -> Knowledge:
    """All but the GPU."""
    return _without(data, curve, lambda of: of[0].gpu == curve.key.gpu)


def without_both(data: Path, curve: MeasuredCurve) -> Knowledge:
    """All but what has the architecture or the GPU."""
    ours = pinned_fit(curve)[0]
    return _without(data, curve, lambda of: of[0].model == ours.model or of[0].gpu == ours.gpu)


def without_release(curve: MeasuredCurve) -> Knowledge:
    """All but this release of the engine, which is neither calibrated then nor has a fit."""
    everything, ours = shipped(), (curve.engine.value, curve.release)
    calibrations = {name: entry for name, entry in everything.calibrations.items() if name != ours}
    return Knowledge(calibrations, {key: fit for key, fit in everything.fits.items() if key[1:] != ours})


def profiles_of(data: Path, curve: MeasuredCurve) -> Iterator[Profile]:
    """The other workloads of a configuration of nim_dli.csv."""
    for profile in _nim(data)[curve.key]:
        if (profile.input_tokens, profile.output_tokens) != curve.pair:
            yield replace(profile, engine=curve.engine.value)


def _without(data: Path, curve: MeasuredCurve, same: SameFit) -> Knowledge:
    everything = shipped()
    fits = {key: fit for key, fit in everything.fits.items() if not same(key)}
    left_out = frozenset(key for key in everything.fits if same(key))
    known = dict(everything.calibrations)
    entry = _entry(data, curve.engine, curve.release, left_out)
    name = curve.engine.value, curve.release
    if entry is None:
        known.pop(name)
    else:
        known[name] = entry
    return Knowledge(known, fits)


@cache
def _entry(data: Path, engine: Engine, release: str, left_out: frozenset[FitKey]) -> dict[str, object] | None:
    """The constants of an engine by the points of configurations that are not left out."""
    if release == RELEASE_2024:
        rows = [
            o
            for key, profiles in _nim(data).items()
            if (fit_configuration(resolve_model(key.model), key), engine, release) not in left_out
            for o in observations(key, profiles)
        ]
        return dict(calibrated(rows)) if rows else None
    name = next(name for name, known in silicon.ENGINES.items() if known is engine)
    groups = {(key.model, key.gpu, key.tensor_parallel) for key, *of in left_out if of == [engine, release]}
    out = tuple(case.left_out_with in groups for case in silicon.sound_cases(data, name))
    entry = silicon.entry_without(data, name, out)
    return None if entry is None else dict(entry)


@cache
def _measured(data: Path) -> dict[FitKey, Measured]:
    found = configurations(data, calibrations(data))
    return {(fit_configuration(resolve_model(m.key.model), m.key), m.engine, m.release): m for m in found}


@cache
def _nim(data: Path) -> dict[ConfigurationKey, list[Profile]]:
    return read_profiles(data / NIM)


def _fitted(measured: Measured, samples: tuple[Sample, ...], prompt_tokens: float) -> FittedStep:
    """The fit that would be shipped of these points, drawn to constants that have not seen the configuration."""
    inputs, outputs = [s.input_tokens for s in samples], [s.output_tokens for s in samples]
    fit = measured.fit(samples, measured.constants_of_others)
    return FittedStep(
        model=measured.step(fit),
        input_tokens=Range(min(inputs), max(inputs)),
        output_tokens=Range(min(outputs), max(outputs)),
        points=len(samples),
        median_error_percent=float(np.median(measured.errors_percent(fit, samples))),
        source="fit without the workload",
        origin=Origin.SHIPPED,
        release=measured.release,
        is_collected=measured.source == "silicon",
        without_one=partial(_without_one, measured, samples),
    )


def _without_one(measured: Measured, samples: tuple[Sample, ...]) -> tuple[StepModel, ...]:
    pairs = sorted({(s.input_tokens, s.output_tokens) for s in samples})
    if len(pairs) == 1:
        return (measured.step(measured.constants_of_others),)
    rests = (tuple(s for s in samples if (s.input_tokens, s.output_tokens) != pair) for pair in pairs)
    return tuple(_step(measured, rest) for rest in rests)


def _step(measured: Measured, samples: tuple[Sample, ...]) -> StepModel:
    return measured.step(measured.fit(samples, measured.constants_of_others))


def _with_fit(key: FitKey, fit: FittedStep) -> Knowledge:
    everything = shipped()
    return Knowledge(everything.calibrations, {**everything.fits, key: fit})
