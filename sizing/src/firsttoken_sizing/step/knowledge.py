"""Knowledge of measurements: the constants of every engine, and the fits of configurations that were measured.

Both are keyed by what the weights are (`Model.architecture`) and by engine and release, never by the name of a model:
every name of an architecture has the same answer. What ships is read by `shipped`; a judge asks the same questions of
knowledge from which something was left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from firsttoken_sizing.catalog import Gpu, Model
from firsttoken_sizing.engines import DEFAULT, Engine
from firsttoken_sizing.engines.spec import CURRENT
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.step.calibration import Calibration, constants, groups_of
from firsttoken_sizing.step.fitted import FittedStep
from firsttoken_sizing.step.floor import least_constants, raised

_SAME_SPEED = {"BF16": "FP16"}
"""Precisions whose steps take equally long: both have 16 bits and the same tensor-core rate."""

FitKey = tuple[ConfigurationKey, Engine, str]
"""The configuration (`fit_configuration`), the engine, and its release."""


def speed_key(key: ConfigurationKey) -> ConfigurationKey:
    """The configuration whose step times are those of `key`."""
    return replace(key, precision=_SAME_SPEED.get(key.precision, key.precision))


def fit_configuration(model: Model, key: ConfigurationKey) -> ConfigurationKey:
    """The configuration as measurements are kept: its model is named by the architecture."""
    return replace(speed_key(key), model=model.architecture)


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """All that sizing knows beforehand of step times."""

    calibrations: Mapping[tuple[str, str], Mapping[str, Any]]
    """Entries of `calibrations.json` by engine and release."""
    fits: Mapping[FitKey, FittedStep]

    def fit(self, model: Model, key: ConfigurationKey, engine: Engine, release: str | None = None) -> FittedStep | None:
        """The fit of a configuration with this release of the engine, else with the newest; None: not measured."""
        configuration = fit_configuration(model, key)
        found = (self.fits.get((configuration, engine, name)) for name in _releases(engine, release))
        return next((fit for fit in found if fit is not None), None)

    def release(self, model: Model, key: ConfigurationKey, engine: Engine) -> str:
        """The release of the engine that a configuration without a fit is derived with: that of its nearest relative.

        Of the same architecture: on the same GPU first, then of the same precision, then with about as many GPUs, then
        the newest; the newest of all where no relative was measured. So a sibling does not look better than the
        measured ones for its age alone.
        """
        asked = fit_configuration(model, key)

        def distance(other: FitKey) -> tuple[bool, bool, float, int]:
            configuration, _, release = other
            ways = abs(math.log(configuration.gpus_per_replica / asked.gpus_per_replica))
            names = [known.name for known in engine.spec.releases]
            differs = configuration.gpu != asked.gpu, configuration.precision != asked.precision
            return *differs, ways, names.index(release)

        relatives = [known for known in self.fits if known[1] is engine and known[0].model == asked.model]
        return min(relatives, key=distance)[2] if relatives else CURRENT

    def constants(
        self, engine: Engine, gpu: Gpu, precision: str, *, model: Model, release: str = CURRENT
    ) -> Calibration:
        """The constants of an engine (of `release`, where it was calibrated) for a configuration. Always answers."""
        names = ((engine.value, release), (engine.value, CURRENT), (DEFAULT.value, CURRENT), *self.calibrations)
        entry = next(self.calibrations[name] for name in names if name in self.calibrations)
        return calibrated(entry, engine, gpu, precision, model)

    def is_calibrated(self, engine: Engine, release: str) -> bool:
        """Tell whether the constants of this release are its own."""
        return (engine.value, release) in self.calibrations

    def configurations(self, engine: Engine) -> Iterator[ConfigurationKey]:
        """Every configuration of this engine that has a fit, with the architecture as its model."""
        return (configuration for configuration, of_engine, _ in self.fits if of_engine is engine)

    def precisions(self, model: Model, engine: Engine) -> tuple[str, ...]:
        """Every precision that a model of this architecture was measured in with this engine."""
        measured = (c.precision for c in self.configurations(engine) if c.model == model.architecture)
        return tuple(dict.fromkeys(measured))


def calibrated(entry: Mapping[str, Any], engine: Engine, gpu: Gpu, precision: str, model: Model) -> Calibration:
    """The constants of one entry of `calibrations.json` for a configuration, none below the floor of physics."""
    return raised(constants(entry, groups_of(gpu, precision, model)), least_constants(engine, gpu, precision, model))


def _releases(engine: Engine, release: str | None) -> tuple[str, ...]:
    return (release,) if release is not None else tuple(known.name for known in engine.spec.releases)
