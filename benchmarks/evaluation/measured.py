"""Every configuration of the data folder that step times can be fitted to, with what is known of it without itself."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from evaluation import open_loop, silicon
from evaluation.data import NIM, read_profiles
from evaluation.engine_fit import Entry
from evaluation.nim_fit import calibrated, engine_without, observations, work
from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.tensorrt_llm import RELEASE_2024
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.profile import ConfigurationKey, Point
from firsttoken_sizing.step.calibration import Calibration
from firsttoken_sizing.step.fit import Fit, errors_percent, fit_constants
from firsttoken_sizing.step.floor import at_least, least_constants
from firsttoken_sizing.step.knowledge import calibrated as calibrated_constants
from firsttoken_sizing.step.knowledge import speed_key
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.samples import Sample, usable_samples

SOURCES = {
    "nim": "NVIDIA DLI S-FX-18, dataset/nim.csv: NIM with TensorRT-LLM, mid-2024",
    "silicon": "NVIDIA aiconfigurator, silicon_sample.csv (with rows of InferenceX): engines of 2025 and 2026",
    "open loop": "inference-sim/sim-to-real-accuracy-validation: vLLM 0.15.1 on H100, drawn to the silicon sample",
}
COLLECTED = ["silicon"]
"""Sources whose points come from many runs, with several versions and settings of the engine."""
_FEWEST_POINTS = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """The sound points of one configuration, and the constants of its engine with and without them."""

    key: ConfigurationKey
    engine: Engine
    release: str
    source: str
    """Key of `SOURCES`."""
    samples: tuple[Sample, ...]
    constants: Calibration
    constants_of_others: Calibration

    @property
    def least(self) -> Calibration:
        """The floors of the constants."""
        key = self.key
        return least_constants(self.engine, resolve_gpu(key.gpu), key.precision, resolve_model(key.model))

    def fit(self, samples: Sequence[Sample], prior: Calibration) -> Fit:
        """The fit of some of its points, drawn to these constants."""
        return fit_constants(samples, lambda prompt: work(self.key, prompt), prior, self.least)

    def step(
        self, known: Fit | Calibration, prompt_tokens: float = PARAMETERS.lengths.window_prompt_tokens
    ) -> StepModel:
        """The step model of a fit or of constants, for prompts of this length, nowhere faster than physics."""
        physics = work(self.key, prompt_tokens)
        step = known.step(physics) if isinstance(known, Fit) else physics.step(known)
        return at_least(step, physics, self.least)

    def errors_percent(self, known: Fit | Calibration, samples: Sequence[Sample]) -> list[float]:
        """Absolute errors of the requests a second of samples, by a fit or by constants."""
        return [float(errors_percent(self.step(known, s.input_tokens), [s])[0]) for s in samples]


def calibrations(data: Path) -> list[dict[str, Any]]:
    """The entries of `calibrations.json`, unrounded."""
    nim = read_profiles(data / NIM)
    rows = [o for key, profiles in nim.items() for o in observations(key, profiles)]
    found = [_calibration(Engine.TENSORRT_LLM, RELEASE_2024, "nim", calibrated(rows), len(rows), len(nim))]
    for engine, cases in _silicon(data):
        entry = silicon.entry_of(cases)
        configurations = len({case.key for case in cases})
        found.append(_calibration(engine, "", "silicon", entry, len(cases), configurations))
    found.append(_calibration(Engine.VLLM, open_loop.RELEASE, "open loop", *open_loop.entry_of(data)))
    return found


def configurations(data: Path, entries: Sequence[Mapping[str, Any]]) -> Iterator[Measured]:
    """Every configuration with enough points; `entries` are the calibrations that are shipped."""
    by_engine = {(entry["engine"], entry["release"]): entry for entry in entries}
    for key, profiles in read_profiles(data / NIM).items():
        yield Measured(
            key,
            Engine.TENSORRT_LLM,
            RELEASE_2024,
            "nim",
            usable_samples(profiles),
            _constants(by_engine[Engine.TENSORRT_LLM.value, RELEASE_2024], Engine.TENSORRT_LLM, key),
            engine_without(data, partial(operator.eq, key), key),
        )
    for engine, cases in _silicon(data):
        yield from _silicon_configurations(data, engine, cases, by_engine[engine.value, ""])


def _silicon_configurations(
    data: Path, engine: Engine, cases: Sequence[silicon.Case], entry: Mapping[str, Any]
) -> Iterator[Measured]:
    by_group: dict[tuple[str, str, int], list[silicon.Case]] = defaultdict(list)
    for case in cases:
        by_group[case.left_out_with].append(case)
    for group, mine in sorted(by_group.items()):
        left_out = tuple(case.left_out_with == group for case in cases)
        without = silicon.entry_without(data, cases[0].engine, left_out)
        assert without is not None  # every engine has more than one
        by_key: dict[ConfigurationKey, list[Sample]] = defaultdict(list)
        for case in mine:
            if case.concurrency <= silicon.batch_limit(case):
                # Under the first name of an architecture that was measured with several.
                by_key[replace(_shipped_key(case.key), model=mine[0].key.model)].append(_sample(case))
        for key, samples in by_key.items():
            if len(samples) >= _FEWEST_POINTS:
                of_all, of_others = (_constants(known, engine, key) for known in (entry, without))
                yield Measured(key, engine, "", "silicon", tuple(samples), of_all, of_others)


def _silicon(data: Path) -> Iterator[tuple[Engine, tuple[silicon.Case, ...]]]:
    for name, engine in silicon.ENGINES.items():
        yield engine, silicon.sound_cases(data, name)


def _shipped_key(key: ConfigurationKey) -> ConfigurationKey:
    """The key that is asked for: a row says only that weights have 4 bits, in which of two formats the model says."""
    published = resolve_model(key.model).published_precisions
    if key.precision == "NVFP4" and "NVFP4" not in published and "MXFP4" in published:
        return replace(key, precision="MXFP4")
    return speed_key(key)


def _sample(case: silicon.Case) -> Sample:
    lengths = case.lengths
    point = Point(case.requests_per_second, concurrency=case.concurrency)
    return Sample(lengths.input_tokens, lengths.output_tokens, case.concurrency, point)


def _calibration(
    engine: Engine, release: str, source: str, entry: Entry, points: int, configurations: int
) -> dict[str, Any]:
    return {
        "engine": engine.value,
        "release": release,
        **entry,
        "source": SOURCES[source],
        "points": points,
        "configurations": configurations,
    }


def _constants(entry: Mapping[str, Any], engine: Engine, key: ConfigurationKey) -> Calibration:
    return calibrated_constants(entry, engine, resolve_gpu(key.gpu), key.precision, resolve_model(key.model))
