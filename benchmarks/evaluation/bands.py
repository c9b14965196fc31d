"""Error bands: do they hold nine of ten points that were held out, and how wide are they?

For every regime of `step.bands` the points that are held out of the answers themselves:

* Measured: the loads of nim_dli.csv that were measured twice, one against the other;
* Interpolated: every inner point of a measured curve of nim_dli.csv, from its two neighbors;
* Fitted, Extrapolated: nim_dli.csv with one workload left out, near the others' lengths or not;
* Sibling: nim_dli.csv with a configuration left out, and the silicon sample with a (model, GPU, TP);
* Related: both with every configuration of the model left out, and with every one of the GPU;
* Prior: both with every configuration left out that has the model or the GPU.

The last three are judged apart for mixtures of experts. Cross-conformal: the factor that a point is judged by comes
from the points of all other configurations, while the factors that are shipped use all points. Chosen on these points,
so not held out: the quantiles (`LEVEL`), and that 1.25 % is added to every difficulty.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import combinations
from pathlib import Path

import numpy as np

from evaluation import silicon
from evaluation.data import NIM, read_profiles
from evaluation.engine_fit import Entry, Observation, fit
from evaluation.folds import Fold, folds
from evaluation.nim_fit import step_of_known, step_without
from evaluation.row import Figure, Row
from firsttoken_sizing.performance.closed_loop import throughput
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import ConfigurationKey, Point
from firsttoken_sizing.step.bands import EASIEST_PERCENT, Regime, bend_percent, spread_percent
from firsttoken_sizing.step.fitted import Range
from firsttoken_sizing.step.model import StepModel

PROMISED = 0.90
LEVEL, LEVEL_WITHOUT_MEASUREMENTS = 0.905, 0.915
"""Quantiles of the factors: a little above what is promised, because the groups are few and not all alike."""
WIDTH_GOAL = 2.5
_MEASURED_TWICE = 2

SameKey = Callable[[ConfigurationKey, ConfigurationKey], bool]
SameCase = Callable[[silicon.Case, silicon.Case], bool]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A point that an answer has not seen. `group` is what its factor must not have seen either."""

    group: str
    error_percent: float
    difficulty_percent: float = 0.0
    mixture_of_experts: bool = False

    @property
    def score(self) -> float:
        """Error over difficulty: what the factor of a regime is a quantile of."""
        return self.error_percent / (self.difficulty_percent + EASIEST_PERCENT)


def rows(data: Path) -> list[Row]:
    """A row for each regime: coverage and half-width."""
    return [_row(regime, mixture, points) for (regime, mixture), points in _classes(data).items()]


def shipped(data: Path) -> list[dict[str, object]]:
    """The entries of `bands.json`: factors from all points, and what was reached on groups left out of them."""
    entries: list[dict[str, object]] = []
    for (regime, mixture), points in _classes(data).items():
        coverage, half_width = _judged(points, _level(regime))
        entries.append(
            {
                "regime": regime.value,
                "mixtureOfExperts": mixture,
                "factor": float(f"{conformal_quantile((p.score for p in points), _level(regime)):.4g}"),
                "flatPercent": float(f"{conformal_quantile((p.error_percent for p in points), _level(regime)):.4g}"),
                "points": len(points),
                "groups": len({p.group for p in points}),
                "medianErrorPercent": float(f"{_median_error(points):.3g}"),
                "coveragePercent": round(100 * coverage, 1),
                "medianHalfWidthPercent": float(f"{half_width:.3g}"),
            }
        )
    return entries


def _classes(data: Path) -> dict[tuple[Regime, bool], list[HeldOut]]:
    """The held-out points that share a factor: a regime, and whether the model is a mixture of experts."""
    classes: dict[tuple[Regime, bool], list[HeldOut]] = defaultdict(list)
    for regime, points in held_out(data).items():
        for point in points:
            classes[regime, point.mixture_of_experts].append(point)
    return classes


@cache
def held_out(data: Path) -> dict[Regime, tuple[HeldOut, ...]]:
    """Every held-out point by regime."""
    found: dict[Regime, list[HeldOut]] = {regime: [] for regime in Regime}
    found[Regime.MEASURED] += _repeats(data)
    for fold in folds(data):
        found[Regime.INTERPOLATED] += _between(fold)
        found[_regime_of(fold)] += _without_workload(data, fold)
    for regime, points in (*_nim_priors(data), *_silicon_priors(data)):
        found[regime] += points
    return {regime: tuple(points) for regime, points in found.items()}


def conformal_quantile(scores: Iterable[float], level: float) -> float:
    """The `ceil((n + 1) * level)`-th smallest of n scores (the largest where there are too few)."""
    ordered = sorted(scores)
    return ordered[min(len(ordered), math.ceil((len(ordered) + 1) * level)) - 1]


def _level(regime: Regime) -> float:
    guessed = regime in (Regime.SIBLING, Regime.RELATED, Regime.PRIOR)
    return LEVEL_WITHOUT_MEASUREMENTS if guessed else LEVEL


def _row(regime: Regime, mixture: bool, points: Sequence[HeldOut]) -> Row:
    coverage, half_width = _judged(points, _level(regime))
    return Row(
        what=f"error band, {regime.value}" + (", mixtures of experts" if mixture else ""),
        left_out="the point from its answer, its configuration from the factor",
        points=len(points),
        figures=(
            Figure("coverage", 100 * coverage, 100 * PROMISED, at_least=True),
            Figure("half-width / median error", half_width / _median_error(points), WIDTH_GOAL, unit=""),
            Figure("median half-width", half_width),
        ),
    )


def _judged(points: Sequence[HeldOut], level: float) -> tuple[float, float]:
    """Share of points inside their band, and the median half-width in percent, with factors of other groups."""
    inside, widths = [], []
    factors = {
        group: conformal_quantile((p.score for p in points if p.group != group), level)
        for group in {p.group for p in points}
    }
    for point in points:
        width = factors[point.group] * (point.difficulty_percent + EASIEST_PERCENT)
        widths.append(width)
        inside.append(point.error_percent <= width)
    return float(np.mean(inside)), float(np.median(widths))


def _median_error(points: Sequence[HeldOut]) -> float:
    return float(np.median([p.error_percent for p in points]))


def _error(measured: float, predicted: float) -> float:
    """In percent of the answer, as its band is."""
    return 100 * abs(measured / predicted - 1)


def _name(key: ConfigurationKey) -> str:
    return f"{key.model} {key.gpu} {key.precision} TP{key.tensor_parallel}"


def _repeats(data: Path) -> Iterator[HeldOut]:
    for key, profiles in read_profiles(data / NIM).items():
        for profile in profiles:
            by_load: dict[float | None, list[float]] = defaultdict(list)
            for point in profile.points:
                by_load[point.concurrency].append(point.requests_per_second)
            for rates in by_load.values():
                if len(rates) == _MEASURED_TWICE:
                    yield HeldOut(_name(key), _error(*rates))


def _between(fold: Fold) -> Iterator[HeldOut]:
    for below, point, above in zip(fold.points, fold.points[1:], fold.points[2:], strict=False):
        share = _log_share(below, point, above)
        rate = below.requests_per_second ** (1 - share) * above.requests_per_second**share
        yield HeldOut(_name(fold.key), _error(point.requests_per_second, rate), bend_percent(below, above))


def _log_share(below: Point, point: Point, above: Point) -> float:
    low, here, high = (math.log(p.concurrency or 1.0) for p in (below, point, above))
    return (here - low) / (high - low)


def _regime_of(fold: Fold) -> Regime:
    inputs = [p.input_tokens for p in fold.known]
    outputs = [p.output_tokens for p in fold.known]
    near = Range(min(inputs), max(inputs)).covers(fold.tested.input_tokens) and Range(
        min(outputs), max(outputs)
    ).covers(fold.tested.output_tokens)
    return Regime.FITTED if near else Regime.EXTRAPOLATED


def _without_workload(data: Path, fold: Fold) -> Iterator[HeldOut]:
    limit = fold.step.max_batch
    without_one = [
        replace(step_of_known(data, fold.key, rest), max_batch=limit)
        for rest in combinations(fold.known, len(fold.known) - 1)
    ]
    for point in fold.points:
        rate = _rate(fold.step, fold.lengths, point)
        spread = spread_percent(rate, [_rate(step, fold.lengths, point) for step in without_one])
        yield HeldOut(_name(fold.key), _error(point.requests_per_second, rate), spread)


def _rate(step: StepModel, lengths: Lengths, point: Point) -> float:
    return throughput(step, lengths, point.concurrency or 1.0)


def _nim_priors(data: Path) -> Iterator[tuple[Regime, list[HeldOut]]]:
    for regime, same in _NIM:
        steps = {key: step_without(data, key, partial(same, key)) for key in {fold.key for fold in folds(data)}}
        for fold in folds(data):
            step = replace(steps[fold.key], max_batch=fold.step.max_batch)
            errors = (_error(p.requests_per_second, _rate(step, fold.lengths, p)) for p in fold.points)
            yield regime, [HeldOut(_name(fold.key), error) for error in errors]


def _silicon_priors(data: Path) -> Iterator[tuple[Regime, list[HeldOut]]]:
    everything = silicon.read(data)
    for engine in silicon.ENGINES:
        cases = silicon.sound([case for case in everything if case.engine == engine])
        observations = [silicon.observation(case) for case in cases]
        for regime, left_out_with in _SILICON:
            yield regime, list(_silicon_left_out(cases, observations, left_out_with))


def _silicon_left_out(
    cases: Sequence[silicon.Case], observations: Sequence[Observation], same: SameCase
) -> Iterator[HeldOut]:
    groups: dict[str, list[silicon.Case]] = defaultdict(list)
    for case in cases:
        groups[" ".join(map(str, (case.engine, *case.left_out_with)))].append(case)
    # Many groups leave the same points out, and fits are what takes the time.
    fits: dict[tuple[bool, ...], Entry] = {}
    for group, members in groups.items():
        left_out = tuple(same(case, members[0]) for case in cases)
        known = [o for o, out in zip(observations, left_out, strict=True) if not out]
        if not known:
            continue
        if left_out not in fits:
            fits[left_out] = fit(known)
        for case in members:
            # By Little's law requests a second are off by as much as the end-to-end time.
            error = _error(silicon.predict(case, fits[left_out]), case.end_to_end_seconds)
            yield HeldOut(group, error, mixture_of_experts=bool(case.model.experts))


_NIM: tuple[tuple[Regime, SameKey], ...] = (
    (Regime.SIBLING, lambda a, b: a == b),
    (Regime.RELATED, lambda a, b: a.model == b.model),
    (Regime.RELATED, lambda a, b: a.gpu == b.gpu),
    (Regime.PRIOR, lambda a, b: a.model == b.model or a.gpu == b.gpu),
)
_SILICON: tuple[tuple[Regime, SameCase], ...] = (
    (Regime.SIBLING, lambda a, b: a.left_out_with == b.left_out_with),
    (Regime.RELATED, lambda a, b: a.key.model == b.key.model),
    (Regime.RELATED, lambda a, b: a.key.gpu == b.key.gpu),
    (Regime.PRIOR, lambda a, b: a.key.model == b.key.model or a.key.gpu == b.key.gpu),
)
"""What is left out with the configuration asked about: those that are the same in this respect."""
