"""The coefficients that firsttoken ships: fitted by `benchmarks/fit_catalog.py`, read from `shipped.json` when asked.

Fitted numbers with their provenance only; the measured points behind them stay where they came from.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from importlib.resources import files

from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.step.fit import ENGINE_MAX_BATCH, FittedStep, Range
from firsttoken_sizing.step.model import StepModel

_SAME_SPEED = {"BF16": "FP16"}
"""Precisions whose steps take equally long: both have 16 bits and the same tensor-core rate."""


def speed_key(key: ConfigurationKey) -> ConfigurationKey:
    """The configuration whose step times are those of `key`."""
    return replace(key, precision=_SAME_SPEED.get(key.precision, key.precision))


def shipped_step(key: ConfigurationKey) -> FittedStep | None:
    """The shipped fit of a configuration (canonical names), or None."""
    return _shipped()[0].get(speed_key(key))


def shipped_keys() -> tuple[ConfigurationKey, ...]:
    """Every configuration that has a shipped fit."""
    return tuple(_shipped()[0])


def repeat_error_percent() -> float:
    """How far two measurements of one point lie apart (90th percentile): the error band of a measured answer."""
    return _shipped()[1]


@cache
def _shipped() -> tuple[dict[ConfigurationKey, FittedStep], float]:
    text = files("firsttoken_sizing.step").joinpath("shipped.json").read_text(encoding="utf-8")
    document = json.loads(text)
    fits = {}
    for entry in document["configurations"]:
        key = ConfigurationKey(entry["model"], entry["gpu"], entry["precision"], entry["tensorParallel"])
        fits[key] = FittedStep(
            model=StepModel(**entry["seconds"], max_batch=ENGINE_MAX_BATCH),
            input_tokens=Range(*entry["inputTokens"]),
            output_tokens=Range(*entry["outputTokens"]),
            points=entry["points"],
            median_error_percent=entry["medianErrorPercent"],
            band_percent=entry["heldOutErrorPercentP90"],
            source=f"shipped fit ({document['source']})",
        )
    return fits, float(document["repeatErrorPercentP90"])
