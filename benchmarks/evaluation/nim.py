"""Requests a second of NIM on A100 and H100 (nim_dli.csv), with a workload, a configuration or more left out.

Overload windows are judged apart: their rate is reliable, their latencies (`ttft.py` judges those of the others) are
not. Seen in these very points, so not held out: that attention ran in waves then, and the rule of where waves end
(`step/waves.py`). How long a wave takes is left out with the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from evaluation.data import NIM, read_profiles
from evaluation.folds import batch_limit, lengths_of
from evaluation.nim_fit import step_of_known, step_of_samples, step_without
from evaluation.row import Row, absolute_errors
from firsttoken_sizing.performance.closed_loop import throughput
from firsttoken_sizing.profile import ConfigurationKey, Profile
from firsttoken_sizing.step.fit import errors_percent
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.samples import usable_samples

PEER = "AIConfigurator 0.12: 32/36 %"
Same = Callable[[ConfigurationKey, ConfigurationKey], bool]
_LEFT_OUT: tuple[tuple[str, tuple[float, float] | tuple[None, None], Same], ...] = (
    ("a configuration", (6.0, 8.0), lambda a, b: a == b),
    ("a model", (None, None), lambda a, b: a.model == b.model),
    ("a GPU", (None, None), lambda a, b: a.gpu == b.gpu),
)
"""Left out with the configuration asked about: those that are the same in this respect."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One measured point: how far the predicted rate is off, and whether it was an overload window."""

    error_percent: float
    is_overload: bool


def rows(data: Path) -> list[Row]:
    """A row for everything that is left out."""
    workload = list(without_workload(data))
    found = [
        _row("requests/s", "a workload (pair of lengths)", [j for j in workload if not j.is_overload], (4.0, 6.0)),
        _row("requests/s, overload windows", "a workload (pair of lengths)", [j for j in workload if j.is_overload]),
    ]
    found.append(_row("requests/s", "a concurrency", list(without_concurrency(data))))
    for name, goals, same in _LEFT_OUT:
        judged = [j for j in without(data, same) if not j.is_overload]
        found.append(_row("requests/s", name, judged, goals))
    return found


def without_workload(data: Path) -> Iterator[Judged]:
    """Every point, predicted from the other workloads of its configuration."""
    for key, profiles in read_profiles(data / NIM).items():
        for tested in profiles:
            step = step_of_known(data, key, [p for p in profiles if p is not tested])
            yield from _judge(step, tested)


def without_concurrency(data: Path) -> Iterator[Judged]:
    """Every sound point, predicted from the other concurrencies of its configuration: does the batch bend as fitted?"""
    for key, profiles in read_profiles(data / NIM).items():
        samples = usable_samples(profiles)
        for concurrency in sorted({s.concurrency for s in samples}):
            step = step_of_samples(data, key, [s for s in samples if s.concurrency != concurrency])
            tested = [s for s in samples if s.concurrency == concurrency]
            yield from (Judged(float(error), False) for error in errors_percent(step, tested))


def without(data: Path, same: Same) -> Iterator[Judged]:
    """Every point, predicted from the engine constants of the configurations that are not the same."""
    for key, profiles in read_profiles(data / NIM).items():
        step = step_without(data, key, partial(same, key))
        for tested in profiles:
            yield from _judge(step, tested)


def _judge(step: StepModel, tested: Profile) -> Iterator[Judged]:
    lengths = lengths_of(tested)
    limited = replace(step, max_batch=batch_limit(tested.key, lengths))
    for point in tested.points:
        predicted = throughput(limited, lengths, point.concurrency or 1.0)
        yield Judged(100 * (predicted / point.requests_per_second - 1), point.is_overload)


def _row(
    what: str, left_out: str, judged: list[Judged], goals: tuple[float, float] | tuple[None, None] = (None, None)
) -> Row:
    figures = absolute_errors((j.error_percent for j in judged), median=goals[0], mean=goals[1])
    return Row(f"nim_dli.csv, {what}", left_out, len(judged), figures, PEER, peer_metric="requests/s")
