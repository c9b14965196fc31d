"""The knowledge that firsttoken ships: fitted by `benchmarks/fit_catalog.py`, in `data`.

Fitted numbers with their provenance only; the measured points behind them stay where they came from. The same fits
without one workload each, from which error bands follow, are in `data/jackknife.json`, which few questions need.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any

from firsttoken_sizing.catalog import resolve_model
from firsttoken_sizing.engines import DEFAULT, Engine
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.step.calibration import FILE as CALIBRATIONS_FILE
from firsttoken_sizing.step.fitted import FittedStep, Origin, Range
from firsttoken_sizing.step.knowledge import Knowledge, speed_key
from firsttoken_sizing.step.model import StepModel

FILE, WITHOUT_ONE_FILE = "shipped.json", "jackknife.json"


@cache
def shipped() -> Knowledge:
    """All that is shipped."""
    document = _read(FILE)
    fits = {}
    for entry in document["configurations"]:
        architecture = entry["architecture"]
        key = ConfigurationKey(architecture, entry["gpu"], entry["precision"], entry["tensorParallel"])
        engine = Engine(entry["engine"])
        fits[speed_key(key), engine, entry["release"]] = FittedStep(
            model=_step(entry["step"]),
            input_tokens=Range(*entry["inputTokens"]),
            output_tokens=Range(*entry["outputTokens"]),
            points=entry["points"],
            median_error_percent=entry["medianErrorPercent"],
            source=f"shipped fit ({document['sources'][entry['source']]})",
            origin=Origin.SHIPPED,
            release=entry["release"],
            is_collected=entry["source"] in document["collected"],
            without_one=partial(_without_one, name_of(key, engine, entry["release"])),
        )
    calibrations = {(entry["engine"], entry["release"]): entry for entry in _read(CALIBRATIONS_FILE)["calibrations"]}
    return Knowledge(calibrations, fits)


def shipped_step(key: ConfigurationKey, engine: Engine = DEFAULT, release: str | None = None) -> FittedStep | None:
    """The shipped fit of a configuration of the catalog, of the newest release that it was measured with, or None."""
    return shipped().fit(resolve_model(key.model), key, engine, release)


def shipped_keys(engine: Engine = DEFAULT) -> tuple[ConfigurationKey, ...]:
    """Every configuration that has a shipped fit for this engine, under the name that it was measured by."""
    entries = _read(FILE)["configurations"]
    return tuple(
        ConfigurationKey(entry["model"], entry["gpu"], entry["precision"], entry["tensorParallel"])
        for entry in entries
        if entry["engine"] == engine.value
    )


def name_of(key: ConfigurationKey, engine: Engine, release: str) -> str:
    """Name of a configuration (with the architecture as its model) in the jackknife file."""
    return f"{engine.value} {release} {key.model} {key.gpu} {key.precision} TP{key.tensor_parallel}"


def _without_one(name: str) -> tuple[StepModel, ...]:
    return tuple(_step(fields) for fields in _jackknife()[name])


@cache
def _jackknife() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    configurations: Mapping[str, Sequence[Mapping[str, Any]]] = _read(WITHOUT_ONE_FILE)["configurations"]
    return configurations


def _read(file: str) -> dict[str, Any]:
    text = files("firsttoken_sizing.step").joinpath("data", file).read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def _step(fields: Mapping[str, Any]) -> StepModel:
    shape = tuple((float(sequences), float(factor)) for sequences, factor in fields["batch_shape"])
    # JSON has no infinity: null stands for never.
    grouped = fields.get("grouped_attention_sequences", 0.0)
    values = {**fields, "batch_shape": shape, "grouped_attention_sequences": math.inf if grouped is None else grouped}
    return StepModel(**values)
