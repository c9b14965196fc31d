"""Fits of a configuration of nim_dli.csv without certain points, which the rows are judged by.

Two layers, each without what was left out. The constants of the engine come from the other configurations only (never
from the one asked about, whatever is left out of it); the fit of a configuration is drawn to them and sees its other
workloads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, astuple
from functools import cache
from pathlib import Path

import numpy as np

from evaluation.data import NIM, read_profiles
from evaluation.engine_fit import START, Entry, Observation, fit
from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.profile import ConfigurationKey, Profile
from firsttoken_sizing.step.calibration import Calibration, groups_of
from firsttoken_sizing.step.fit import costs_of, fit_constants
from firsttoken_sizing.step.floor import at_least, least_constants
from firsttoken_sizing.step.knowledge import calibrated as calibrated_constants
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.prior import StepWork, work_of
from firsttoken_sizing.step.samples import Sample, usable_samples

WAVES = Calibration(**START, attention_wave=0.5)
"""Start of the fit of the engines of 2024: those constants of any engine, and attention in waves."""

LeftOut = Callable[[ConfigurationKey], bool]


def observations(key: ConfigurationKey, profiles: Iterable[Profile]) -> list[Observation]:
    """The measured times of one configuration as the fit of an engine reads them."""
    costs = costs_of(usable_samples(profiles), lambda prompt: work(key, prompt), WAVES)
    rows = (costs.batch + costs.other) / astuple(WAVES)
    groups = groups_of(resolve_gpu(key.gpu), key.precision, resolve_model(key.model))
    floors = np.array(astuple(least(key)))
    return [Observation(row, groups, float(seconds), floors) for row, seconds in zip(rows, costs.measured, strict=True)]


def least(key: ConfigurationKey) -> Calibration:
    """The floors of the constants of a configuration of NIM."""
    return least_constants(Engine.TENSORRT_LLM, resolve_gpu(key.gpu), key.precision, resolve_model(key.model))


def calibrated(observed: Iterable[Observation]) -> Entry:
    """Base and factors of the engines of 2024."""
    return fit(list(observed), asdict(WAVES))


def engine_without(data: Path, left_out: LeftOut, key: ConfigurationKey) -> Calibration:
    """The constants that configurations which are not left out give for `key`."""
    entry = calibrated(o for other, rows in _observed(data).items() if not left_out(other) for o in rows)
    gpu, model = resolve_gpu(key.gpu), resolve_model(key.model)
    return calibrated_constants(entry, Engine.TENSORRT_LLM, gpu, key.precision, model)


def step_without(data: Path, key: ConfigurationKey, left_out: LeftOut) -> StepModel:
    """The step model of a configuration without measurements, by the constants of those that are not left out."""
    return at_least(work(key).step(engine_without(data, left_out, key)), work(key), least(key))


def step_of_known(data: Path, key: ConfigurationKey, known: Iterable[Profile]) -> StepModel:
    """The step model that the known workloads of a configuration give, drawn to the other configurations."""
    return step_of_samples(data, key, usable_samples(known))


def step_of_samples(data: Path, key: ConfigurationKey, samples: Sequence[Sample]) -> StepModel:
    """The same from known points."""
    fitted = fit_constants(samples, lambda prompt: work(key, prompt), _of_the_others(data, key), least(key))
    return at_least(fitted.step(work(key)), work(key), least(key))


@cache
def work(key: ConfigurationKey, prompt_tokens: float = 2048.0) -> StepWork:
    """The work of a step of this configuration."""
    return work_of(resolve_model(key.model), resolve_gpu(key.gpu), key, prompt_tokens=prompt_tokens)


@cache
def _of_the_others(data: Path, key: ConfigurationKey) -> Calibration:
    return engine_without(data, lambda other: other == key, key)


@cache
def _observed(data: Path) -> dict[ConfigurationKey, list[Observation]]:
    return {key: observations(key, profiles) for key, profiles in read_profiles(data / NIM).items()}
