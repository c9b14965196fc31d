"""Selection of the step model of a configuration: fitted from the profiles at hand, else shipped, else physics alone.

There is always one, and it says where it comes from: an answer without measurements behind it must not look like one
with (`Basis.EXTRAPOLATED`). How wide its error band is follows from that in `bands`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from firsttoken_sizing.catalog import Gpu, Model, resolve_gpu, resolve_model
from firsttoken_sizing.engines import DEFAULT, Engine, is_called
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.profile import ConfigurationKey, Profile
from firsttoken_sizing.request import Basis
from firsttoken_sizing.step.calibration import Calibration
from firsttoken_sizing.step.fit import Fit, errors_percent, fit_constants
from firsttoken_sizing.step.fitted import FittedStep, Origin, Range
from firsttoken_sizing.step.floor import at_least, least_constants
from firsttoken_sizing.step.knowledge import Knowledge, speed_key
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.modifiers import transferred
from firsttoken_sizing.step.prior import StepWork, work_of
from firsttoken_sizing.step.samples import Sample, usable_samples
from firsttoken_sizing.step.shipped import shipped


@dataclass(frozen=True, slots=True)
class _Asked:
    """A configuration of which the step model is asked for, at these lengths, and what was measured."""

    model: Model
    gpu: Gpu
    key: ConfigurationKey
    engine: Engine
    profiles: tuple[Profile, ...]
    lengths: tuple[float, float]
    release: str | None
    """Release of the engine that is asked for; None: the newest."""
    knowledge: Knowledge

    def constants(self, release: str) -> Calibration:
        return self.knowledge.constants(self.engine, self.gpu, self.key.precision, model=self.model, release=release)

    @property
    def least(self) -> Calibration:
        return least_constants(self.engine, self.gpu, self.key.precision, self.model)

    def step(self, fit: Fit, prompt_tokens: float) -> StepModel:
        """The step model of a fit for such prompts, nowhere faster than physics."""
        work = self.work(prompt_tokens)
        return at_least(fit.step(work), work, self.least)

    def work(self, prompt_tokens: float) -> StepWork:
        return work_of(self.model, self.gpu, self.key, prompt_tokens=prompt_tokens)


def step_for(
    *,
    model: Model,
    gpu: Gpu,
    key: ConfigurationKey,
    engine: Engine,
    profiles: Iterable[Profile],
    lengths: tuple[float, float],
    release: str | None = None,
    knowledge: Knowledge | None = None,
) -> FittedStep:
    """The step model of a configuration for requests of `lengths` (input, output tokens). Always answers.

    `release`: that of the engine, by default the newest that says something; `knowledge`: by default what is shipped.

    Profiles of this configuration and engine at hand win, however few their points: what they do not say is taken from
    the engine's constants. The shipped fit is taken where there are none, or where only it was measured near these
    lengths; physics alone where there is neither. `max_batch` is for the caller to set.
    """
    asked = _Asked(model, gpu, key, engine, tuple(profiles), lengths, release, knowledge or shipped())
    own = _fit_profiles(asked)
    known = asked.knowledge.fit(model, key, engine, release)
    if own is not None and (known is None or own.covers(*lengths) or not known.covers(*lengths)):
        return own
    return known or _prior(asked)


def step_model(
    key: ConfigurationKey,
    profiles: Iterable[Profile],
    max_batch: int,
    *,
    engine: Engine = DEFAULT,
    lengths: tuple[float, float] | None = None,
) -> tuple[StepModel, Basis]:
    """`step_for` a configuration of the catalog with at most `max_batch` running requests, and its basis.

    Without `lengths` those of the measured points count. Raises `UnknownModel` or `UnknownGPU`.
    """
    model, gpu, profiles = resolve_model(key.model), resolve_gpu(key.gpu), tuple(profiles)
    typical = (PARAMETERS.lengths.input_tokens, PARAMETERS.lengths.output_tokens)
    matching = _matching(_Asked(model, gpu, key, engine, profiles, typical, None, shipped()))
    near = next(((p.input_tokens, p.output_tokens) for p in matching), typical)
    asked = lengths or near
    fitted = step_for(model=model, gpu=gpu, key=key, engine=engine, profiles=profiles, lengths=asked)
    return replace(fitted.model, max_batch=max_batch), basis_of(fitted, *asked)


def is_of_engine(profile: Profile, engine: Engine) -> bool:
    """Tell whether a profile was measured with this engine; one without a name counts for every engine."""
    return is_called(engine, profile.engine)


def basis_of(fitted: FittedStep, input_tokens: float, output_tokens: float) -> Basis:
    """On what an answer from this fit stands at these lengths."""
    measured = fitted.origin is not Origin.PRIOR and fitted.covers(input_tokens, output_tokens)
    return Basis.FITTED if measured else Basis.EXTRAPOLATED


def _prior(asked: _Asked) -> FittedStep:
    """Physics, in the measure in which a sibling that was measured differs from it.

    Of nim_dli.csv with all of a model left out of the constants, one measured sibling brings the median error of
    requests a second from 6.5 to 3.9 %.
    """
    engine, prompt_tokens = asked.engine, asked.lengths[0]

    def physics(of: _Asked, release: str) -> StepModel:
        work = of.work(prompt_tokens)
        return at_least(work.step(of.constants(release)), work, of.least)

    of_model = asked.release
    if of_model is None:
        of_model = asked.knowledge.release(asked.model, asked.key, engine)
    step = physics(asked, of_model)
    source = f"physics and the constants of {engine.value}, nothing measured"
    for sibling in _siblings(asked):
        samples = usable_samples(_matching(sibling))
        if samples:
            fit, release, _ = _fit(sibling, samples)
            carried = transferred(sibling.step(fit, prompt_tokens), physics(sibling, release), physics(asked, release))
            step = at_least(carried, asked.work(prompt_tokens), asked.least)
            where = f"{sibling.key.precision} with tensorParallel {sibling.key.tensor_parallel}"
            source = f"physics and the constants of {engine.value}, scaled by what {where} was measured to take"
            break
    return FittedStep(
        model=step,
        input_tokens=Range(0.0, 0.0),
        output_tokens=Range(0.0, 0.0),
        points=0,
        median_error_percent=math.nan,
        source=source,
        origin=Origin.PRIOR,
        release=of_model,
        is_collected=engine.spec.release(of_model).is_collected,
    )


def _fit_profiles(asked: _Asked) -> FittedStep | None:
    matching = _matching(asked)
    samples = usable_samples(matching)
    if not samples:
        return None
    fit, release, prior = _fit(asked, samples)
    errors = [errors_percent(asked.step(fit, s.input_tokens), [s])[0] for s in samples]
    return FittedStep(
        model=asked.step(fit, asked.lengths[0]),
        input_tokens=_range(samples, "input_tokens"),
        output_tokens=_range(samples, "output_tokens"),
        points=len(samples),
        # NB: not np.median, which loads the whole of numpy.ma.
        median_error_percent=float(np.quantile(errors, 0.5)),
        source="fitted from " + ", ".join(sorted({p.name for p in matching})),
        origin=Origin.PROFILES,
        release=release,
        without_one=partial(_without_one, asked, samples, prior),
    )


def _without_one(asked: _Asked, samples: Sequence[Sample], prior: Calibration) -> tuple[StepModel, ...]:
    """Fits without one of the measured pairs of lengths each; without the only one the prior is left."""
    pairs = {(s.input_tokens, s.output_tokens) for s in samples}
    prompt_tokens, works = asked.lengths[0], _works(asked, samples)
    if len(pairs) == 1:
        return (asked.work(prompt_tokens).step(prior),)
    rest = (tuple(s for s in samples if (s.input_tokens, s.output_tokens) != pair) for pair in sorted(pairs))
    return tuple(asked.step(_fit_once(known, works, prior, asked.least), prompt_tokens) for known in rest)


def _fit(asked: _Asked, samples: Sequence[Sample]) -> tuple[Fit, str, Calibration]:
    """The fit of these points, the release of the engine that they are drawn to and its constants.

    Which release of the engine was measured is not written down; that asked for is taken, else the one whose constants
    fit best.
    """
    works, fits = _works(asked, samples), []
    releases = (r.name for r in asked.engine.spec.releases) if asked.release is None else (asked.release,)
    for release in releases:
        prior = asked.constants(release)
        fits.append((_fit_once(tuple(samples), works, prior, asked.least), release, prior))
    return min(fits, key=lambda found: found[0].cost)


def _works(asked: _Asked, samples: Sequence[Sample]) -> tuple[tuple[float, StepWork], ...]:
    """The work of a step for each prompt length of the samples."""
    return tuple((tokens, asked.work(tokens)) for tokens in sorted({s.input_tokens for s in samples}))


@lru_cache(maxsize=256)
def _fit_once(
    samples: tuple[Sample, ...], works: tuple[tuple[float, StepWork], ...], prior: Calibration, least: Calibration
) -> Fit:
    """The fit, kept: every configuration of a sizing that was not measured asks for that of the same sibling."""
    return fit_constants(samples, dict(works).__getitem__, prior, least)


def _siblings(asked: _Asked) -> list[_Asked]:
    """The same of other configurations of this model on this GPU that profiles are about, the most alike first."""
    key = asked.key
    of_engine = (p.key for p in asked.profiles if is_of_engine(p, asked.engine))

    def distance(other: ConfigurationKey) -> tuple[bool, float, str, int]:
        ratio = other.gpus_per_replica / key.gpus_per_replica
        return other.precision != key.precision, abs(math.log(ratio)), other.precision, other.tensor_parallel

    keys = {other for other in of_engine if (other.model, other.gpu) == (key.model, key.gpu)}
    return [replace(asked, key=other) for other in sorted(keys, key=distance)]


def _matching(asked: _Asked) -> list[Profile]:
    key, engine = speed_key(asked.key), asked.engine
    return [p for p in asked.profiles if speed_key(p.key) == key and is_of_engine(p, engine)]


def _range(samples: Sequence[Sample], field: str) -> Range:
    values = [getattr(s, field) for s in samples]
    return Range(min(values), max(values))
