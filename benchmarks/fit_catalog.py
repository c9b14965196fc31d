"""Fit what firsttoken ships of step times, and write it to sizing/src/firsttoken_sizing/step/data.

    python benchmarks/fit_catalog.py [--data ../shared/data] [--check]

Reads nim_dli.csv and aic_silicon_agg.csv (data folder, not part of the project). `calibrations.json` gets the constants
of each engine, `shipped.json` the step model of every configuration that was measured, with how far it is from points
that were left out, `jackknife.json` what it is without one of the workloads each. Fitted numbers only, never a measured
point. `--check` writes nothing and exits 1 where the committed files differ from what the data give.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.data import NIM, SILICON
from evaluation.measured import COLLECTED, SOURCES, Measured, calibrations, configurations
from evaluation.nim_fit import work
from firsttoken_sizing.catalog import resolve_model
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.step.calibration import TERMS
from firsttoken_sizing.step.fit import Fit
from firsttoken_sizing.step.knowledge import fit_configuration
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.shipped import name_of

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "sizing/src/firsttoken_sizing/step/data"
FIVE = (
    "base_seconds",
    "per_sequence_seconds",
    "per_context_token_seconds",
    "per_prefill_token_seconds",
    "per_prefill_token_squared_seconds",
)
COEFFICIENTS = (*FIVE, "expert_seconds", "attention_wave_seconds")


def describe(measured: Measured) -> dict[str, Any]:
    """The step model of one configuration, and its errors: fitted, and with each pair of lengths left out."""
    key, samples = measured.key, measured.samples
    fit = measured.fit(samples, measured.constants)
    fitted = float(np.median(measured.errors_percent(fit, samples)))
    held_out = np.array(list(held_out_errors(measured)))
    return {
        "model": key.model,
        "architecture": resolve_model(key.model).architecture,
        "gpu": key.gpu,
        "precision": key.precision,
        "tensorParallel": key.tensor_parallel,
        "engine": measured.engine.value,
        "release": measured.release,
        "source": measured.source,
        "inputTokens": [min(s.input_tokens for s in samples), max(s.input_tokens for s in samples)],
        "outputTokens": [min(s.output_tokens for s in samples), max(s.output_tokens for s in samples)],
        "points": len(samples),
        "step": step_document(measured.step(fit)),
        "fromPoints": shares_from_points(fit, measured),
        "medianErrorPercent": round(fitted, 2),
        "heldOutErrorPercentMedian": round(float(np.median(held_out)), 2),
        "heldOutErrorPercentP90": round(float(np.quantile(held_out, 0.9)), 2),
    }


def held_out_errors(measured: Measured) -> Iterator[float]:
    """Errors of every pair of lengths predicted from the others and from the engine's other configurations.

    With one pair of lengths only the latter are left.
    """
    pairs = sorted({(s.input_tokens, s.output_tokens) for s in measured.samples})
    for pair in pairs:
        tested = [s for s in measured.samples if (s.input_tokens, s.output_tokens) == pair]
        rest = [s for s in measured.samples if (s.input_tokens, s.output_tokens) != pair]
        constants = measured.fit(rest, measured.constants_of_others) if rest else measured.constants_of_others
        yield from measured.errors_percent(constants, tested)


def without_one(measured: Measured) -> list[StepModel]:
    """The step models without one pair of lengths each; without the only one the engine's constants are left."""
    samples = measured.samples
    pairs = sorted({(s.input_tokens, s.output_tokens) for s in samples})
    if len(pairs) == 1:
        return [measured.step(measured.constants_of_others)]
    rests = ([s for s in samples if (s.input_tokens, s.output_tokens) != pair] for pair in pairs)
    return [measured.step(measured.fit(rest, measured.constants_of_others)) for rest in rests]


def step_document(step: StepModel, digits: int = 5) -> dict[str, Any]:
    """Differences from the defaults of a step model, with so many significant digits; null is infinity."""
    document: dict[str, Any] = {}
    for field in fields(step):
        value = getattr(step, field.name)
        if field.name == "batch_shape":
            document[field.name] = [[short(sequences), short(factor, 4)] for sequences, factor in value]
        elif field.name in FIVE or (field.name != "max_batch" and value != field.default):
            document[field.name] = None if math.isinf(value) else short(value, digits)
    return document


def shares_from_points(fit: Fit, measured: Measured) -> dict[str, float]:
    """Share, for each coefficient, of what was open (a standard deviation of its logarithm) that the points settled.

    1: the points alone say it; 0: the prior does. Below 0.5 a coefficient is dominated by the prior.
    """
    physics = work(measured.key)
    step = physics.step(fit.constants)
    doubled = [physics.step(replace(fit.constants, **{term: 2 * getattr(fit.constants, term)})) for term in TERMS]
    shares = {}
    for name in COEFFICIENTS:
        if value := getattr(step, name):
            slope = np.array([getattr(other, name) / value - 1 for other in doubled])
            before = PARAMETERS.fit.constant_spread**2 * float(slope @ slope)
            shares[name] = round(1 - math.sqrt(float(slope @ fit.covariance @ slope) / before), 2)
    return shares


def short_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A calibration with four significant digits; factors of 1.00 are left out."""
    factors = {
        group: kept
        for group, by_term in entry["factors"].items()
        if (kept := {term: short(value, 4) for term, value in by_term.items() if abs(value - 1) >= 0.005})
    }
    return {**entry, "base": {term: short(value, 4) for term, value in entry["base"].items()}, "factors": factors}


def short(value: float, digits: int = 5) -> float:
    """The value with so many significant digits."""
    return float(f"{value:.{digits}g}")


def documents(data: Path) -> dict[str, str]:
    """The text that each file is to have."""
    entries = [short_entry(entry) for entry in calibrations(data)]
    found, jackknife = [], {}
    for measured in configurations(data, entries):
        found.append(described := describe(measured))
        of_one = [step_document(step, digits=4) for step in without_one(measured)]
        of_weights = fit_configuration(resolve_model(measured.key.model), measured.key)
        jackknife[name_of(of_weights, measured.engine, measured.release)] = of_one
        print(
            "{engine} {release} {model} {gpu} {precision} TP{tensorParallel}: {points} points, rps error % fitted"
            " {medianErrorPercent}, held out {heldOutErrorPercentMedian} (p90 {heldOutErrorPercentP90})".format(
                **described
            )
        )
    shipped = {
        "script": "benchmarks/fit_catalog.py",
        "sources": SOURCES,
        "errors": "absolute, in percent of requests a second; held out: one pair of lengths left out of the fit",
        "fromPoints": "share of a coefficient's spread that its points settled; below 0.5 the prior dominates",
        "collected": COLLECTED,
        "configurations": found,
    }
    return {
        "calibrations.json": text_of({"script": "benchmarks/fit_catalog.py", "calibrations": entries}),
        "shipped.json": text_of(shipped),
        "jackknife.json": text_of_jackknife(jackknife),
    }


def text_of(document: Mapping[str, Any]) -> str:
    """JSON with pairs of numbers on one line."""
    text = json.dumps(document, indent=1)
    return re.sub(r"\[\s+([-+0-9.e]+),\s+([-+0-9.e]+)\s+\]", r"[\1, \2]", text) + "\n"


def text_of_jackknife(fits: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """JSON with one step model on each line."""
    described = (
        f"  {json.dumps(name)}: [\n" + ",\n".join(f"   {json.dumps(step)}" for step in steps) + "\n  ]"
        for name, steps in fits.items()
    )
    head = ' "script": "benchmarks/fit_catalog.py",\n "configurations": {\n'
    return "{\n" + head + ",\n".join(described) + "\n }\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="fit the shipped engine constants and step coefficients")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data", help="folder with nim_dli.csv")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on a difference")
    arguments = parser.parse_args()
    absent = next((name for name in (NIM, SILICON) if not (arguments.data / name).is_file()), None)
    if absent:
        print(f"--data: {arguments.data / absent} does not exist; name the folder that holds it", file=sys.stderr)
        return 2
    same = True
    for name, text in documents(arguments.data).items():
        if arguments.check:
            same = same and (TARGET / name).read_text(encoding="utf-8") == text
        else:
            (TARGET / name).write_text(text, encoding="utf-8")
            print(f"wrote {(TARGET / name).relative_to(ROOT)}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
