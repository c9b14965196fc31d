"""Leave one workload out: for every pair of lengths of nim_dli.csv the step model that the other pairs give.

The rows about latencies, about sizing questions and about error bands all ask the same thing: what does firsttoken say
about lengths that it has not seen, of a configuration that it has? They share the fits that answer it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from evaluation.data import NIM, read_profiles
from evaluation.nim_fit import step_of_known
from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.engines.memory import replica_memory
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.measured import matching_points
from firsttoken_sizing.profile import ConfigurationKey, Load, Point, Profile
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.samples import usable_samples


@dataclass(frozen=True, slots=True)
class Fold:
    """One workload of one configuration, and what is known without it."""

    key: ConfigurationKey
    tested: Profile
    known: tuple[Profile, ...]
    """The other workloads of this configuration."""
    step: StepModel
    """Fitted to those, with the batch limit that memory gives at the tested lengths."""

    @property
    def lengths(self) -> Lengths:
        """The lengths that were left out."""
        return lengths_of(self.tested)

    @property
    def points(self) -> tuple[Point, ...]:
        """Points measured there: repeated points averaged, overload windows left out."""
        return sound_points(self.tested)


def lengths_of(profile: Profile) -> Lengths:
    """The lengths of a profile; no benchmark here has cached prefixes."""
    return Lengths(profile.input_tokens, profile.input_tokens, profile.output_tokens)


def sound_points(profile: Profile) -> tuple[Point, ...]:
    """The points of a profile by rising concurrency: repeated ones averaged, overload windows left out."""
    lengths = profile.input_tokens, profile.output_tokens
    return matching_points([profile], profile.key, Load.CLOSED_LOOP, *lengths)


def batch_limit(key: ConfigurationKey, lengths: Lengths) -> int:
    """Requests that run at once: the KV memory of the catalog, and the engine's limit."""
    memory = replica_memory(
        resolve_model(key.model),
        resolve_gpu(key.gpu),
        precision=key.precision,
        tensor_parallel=key.tensor_parallel,
        pipeline_parallel=key.pipeline_parallel,
        input_tokens=lengths.input_tokens,
        output_tokens=lengths.output_tokens,
    )
    return max(1, min(PARAMETERS.fit.max_batch, memory.max_concurrency))


@cache
def folds(data: Path) -> tuple[Fold, ...]:
    """Every workload of nim_dli.csv whose configuration has others to fit."""
    return tuple(_folds(data))


def _folds(data: Path) -> Iterator[Fold]:
    for key, profiles in read_profiles(data / NIM).items():
        for tested in profiles:
            known = tuple(p for p in profiles if p is not tested)
            if usable_samples(known) and sound_points(tested):
                step = step_of_known(data, key, known)
                yield Fold(key, tested, known, replace(step, max_batch=batch_limit(key, lengths_of(tested))))
