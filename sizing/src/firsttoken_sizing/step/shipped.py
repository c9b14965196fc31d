"""The coefficients that firsttoken ships: fitted by `benchmarks/fit_catalog.py`, in `data/shipped.json`.

Fitted numbers with their provenance only; the measured points behind them stay where they came from. The same fits
without one workload each, from which error bands follow, are in `data/jackknife.json`, which few questions need.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from typing import Any

from firsttoken_sizing.engines import DEFAULT, Engine
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.step.fitted import FittedStep, Origin, Range
from firsttoken_sizing.step.model import StepModel

FILE, WITHOUT_ONE_FILE = "shipped.json", "jackknife.json"
_SAME_SPEED = {"BF16": "FP16"}
"""Precisions whose steps take equally long: both have 16 bits and the same tensor-core rate."""


@dataclass(frozen=True, slots=True)
class _Shipped:
    fits: Mapping[tuple[ConfigurationKey, Engine], FittedStep]
    releases: Mapping[tuple[str, Engine], str]
    """Release of the engine that a model was measured with."""


def speed_key(key: ConfigurationKey) -> ConfigurationKey:
    """The configuration whose step times are those of `key`."""
    return replace(key, precision=_SAME_SPEED.get(key.precision, key.precision))


def shipped_step(key: ConfigurationKey, engine: Engine = DEFAULT) -> FittedStep | None:
    """The shipped fit of a configuration (canonical names), or None."""
    return _shipped().fits.get((speed_key(key), engine))


def shipped_keys(engine: Engine = DEFAULT) -> tuple[ConfigurationKey, ...]:
    """Every configuration that has a shipped fit for this engine."""
    return tuple(key for key, of_engine in _shipped().fits if of_engine is engine)


def name_of(key: ConfigurationKey, engine: Engine) -> str:
    """Name of a configuration in the jackknife file."""
    return f"{engine.value} {key.model} {key.gpu} {key.precision} TP{key.tensor_parallel}"


def shipped_release(model: str, engine: Engine) -> str:
    """Release of the engine that the shipped fits of a model are about; empty: the current one, or there are none."""
    return _shipped().releases.get((model, engine), "")


@cache
def _shipped() -> _Shipped:
    text = files("firsttoken_sizing.step").joinpath("data", FILE).read_text(encoding="utf-8")
    document = json.loads(text)
    fits, releases = {}, {}
    for entry in document["configurations"]:
        key = ConfigurationKey(entry["model"], entry["gpu"], entry["precision"], entry["tensorParallel"])
        engine = Engine(entry["engine"])
        releases[key.model, engine] = entry["release"]
        fits[speed_key(key), engine] = FittedStep(
            model=_step(entry["step"]),
            input_tokens=Range(*entry["inputTokens"]),
            output_tokens=Range(*entry["outputTokens"]),
            points=entry["points"],
            median_error_percent=entry["medianErrorPercent"],
            source=f"shipped fit ({document['sources'][entry['source']]})",
            origin=Origin.SHIPPED,
            release=entry["release"],
            is_collected=entry["source"] in document["collected"],
            without_one=partial(_without_one, key, engine),
        )
    return _Shipped(fits, releases)


def _without_one(key: ConfigurationKey, engine: Engine) -> tuple[StepModel, ...]:
    return tuple(_step(fields) for fields in _jackknife()[name_of(key, engine)])


@cache
def _jackknife() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    text = files("firsttoken_sizing.step").joinpath("data", WITHOUT_ONE_FILE).read_text(encoding="utf-8")
    configurations: Mapping[str, Sequence[Mapping[str, Any]]] = json.loads(text)["configurations"]
    return configurations


def _step(fields: Mapping[str, Any]) -> StepModel:
    shape = tuple((float(sequences), float(factor)) for sequences, factor in fields["batch_shape"])
    # JSON has no infinity: null stands for never.
    grouped = fields.get("grouped_attention_sequences", 0.0)
    values = {**fields, "batch_shape": shape, "grouped_attention_sequences": math.inf if grouped is None else grouped}
    return StepModel(**values)
