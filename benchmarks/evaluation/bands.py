"""Error bands: do they hold nine of ten points that were held out, and how wide are they?

For every regime of `step.bands` the points that are held out of the answers themselves:

* Measured: the loads of nim_dli.csv that were measured twice, one against the other;
* Interpolated: every inner point of a measured curve of nim_dli.csv, from its two neighbors;
* Fitted, Extrapolated: nim_dli.csv, and every configuration of the silicon sample, with one workload left out, near
  the others' lengths or not;
* OneWorkload: both, with every workload from each other one alone;
* Sibling: nim_dli.csv with a configuration left out, and the silicon sample with a (model, GPU, TP);
* Related: the silicon sample with every configuration of the model left out, and with every one of the GPU;
* Prior: the silicon sample with every configuration left out that has the model or the GPU.

Related and Prior are not judged by nim_dli.csv, whose two GPUs and two models are too alike (its errors, smaller by
far, are in `nim.py`): an answer about a new GPU is one about a new engine.

Points of nim_dli.csv (one benchmark) and of the silicon sample (collected from many runs) are judged apart, and of the
latter mixtures of experts, but where something near was measured. Cross-conformal: the factor that a point is judged by
comes from the points of all other configurations, while the factors that are shipped use all points. Chosen on these
points, so not held out: the quantiles (`LEVEL`), and that 1.25 % is added to every difficulty.

Tried for a difficulty without measurements of the configuration, and no narrower at the same coverage: how far the
constants of the other engines lie from those of the one asked about, and how far its own without the factors do;
factors for each engine. For Measured: how well Little's law closes at the point (half as wide, of 0.2 %).
"""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import combinations
from pathlib import Path

import numpy as np

from evaluation import silicon
from evaluation.data import NIM, read_profiles
from evaluation.folds import Fold, folds
from evaluation.measured import COLLECTED, Measured, calibrations, configurations
from evaluation.nim_fit import step_of_known, step_without
from evaluation.row import Figure, Row
from firsttoken_sizing.catalog import resolve_model
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.closed_loop import throughput
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import ConfigurationKey, Point
from firsttoken_sizing.step.bands import Regime, bend_percent, spread_percent
from firsttoken_sizing.step.fitted import Range
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.samples import Sample

PROMISED = 0.90
LEVEL, LEVEL_OF_FEW_MEASUREMENTS = 0.905, 0.915
"""Quantiles of the factors: a little above what is promised, because the groups are few and not all alike."""
WIDTH_GOAL = 2.5
_MEASURED_TWICE = 2

Class = tuple[Regime, bool, bool]
"""Points that share a factor: the regime, whether they were collected, whether of a mixture of experts."""
Pair = tuple[float, float]
"""Input and output tokens of a workload."""
SameCase = Callable[[silicon.Case, silicon.Case], bool]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A point that an answer has not seen. `group` is what its factor must not have seen either."""

    group: str
    error_percent: float
    difficulty_percent: float = 0.0
    is_collected: bool = False
    mixture_of_experts: bool = False

    @property
    def score(self) -> float:
        """Error over difficulty: what the factor of a regime is a quantile of."""
        return self.error_percent / (self.difficulty_percent + PARAMETERS.bands.easiest_percent)


def rows(data: Path) -> list[Row]:
    """A row for each class: coverage and half-width."""
    return [_row(of, points) for of, points in _classes(data).items()]


def shipped(data: Path) -> list[dict[str, object]]:
    """The entries of `bands.json`: factors from all points, and what was reached on groups left out of them."""
    entries: list[dict[str, object]] = []
    for (regime, collected, mixture), points in _classes(data).items():
        coverage, half_width = _judged(points, _level(regime))
        entries.append(
            {
                "regime": regime.value,
                "collected": collected,
                "mixtureOfExperts": mixture,
                "factor": float(f"{conformal_quantile((p.score for p in points), _level(regime)):.4g}"),
                "points": len(points),
                "groups": len({p.group for p in points}),
                "medianErrorPercent": float(f"{_median_error(points):.3g}"),
                "coveragePercent": round(100 * coverage, 1),
                "medianHalfWidthPercent": float(f"{half_width:.3g}"),
            }
        )
    return entries


def _classes(data: Path) -> dict[Class, list[HeldOut]]:
    """The held-out points that share a factor."""
    classes: dict[Class, list[HeldOut]] = defaultdict(list)
    for regime, points in held_out(data).items():
        for point in points:
            # Near lengths that were measured, a mixture of experts is no harder to tell.
            mixture = point.mixture_of_experts and regime is not Regime.FITTED
            classes[regime, point.is_collected, mixture].append(point)
    return classes


def _name_of(of: Class) -> str:
    regime, collected, mixture = of
    return regime.value + (", collected" if collected else "") + (", mixtures of experts" if mixture else "")


@cache
def held_out(data: Path) -> dict[Regime, tuple[HeldOut, ...]]:
    """Every held-out point by regime."""
    found: dict[Regime, list[HeldOut]] = {regime: [] for regime in Regime}
    found[Regime.MEASURED] += _repeats(data)
    for fold in folds(data):
        found[Regime.INTERPOLATED] += _between(fold)
        found[_regime_of(fold)] += _without_workload(data, fold)
    found[Regime.ONE_WORKLOAD] += _from_one_workload(data)
    found[Regime.SIBLING] += _nim_siblings(data)
    for regime, points in (*_collected_workloads(data), *_silicon_priors(data)):
        found[regime] += points
    return {regime: tuple(points) for regime, points in found.items()}


def conformal_quantile(scores: Iterable[float], level: float) -> float:
    """The `ceil((n + 1) * level)`-th smallest of n scores (the largest where there are too few)."""
    ordered = sorted(scores)
    return ordered[min(len(ordered), math.ceil((len(ordered) + 1) * level)) - 1]


def _level(regime: Regime) -> float:
    guessed = regime in (Regime.ONE_WORKLOAD, Regime.SIBLING, Regime.RELATED, Regime.PRIOR)
    return LEVEL_OF_FEW_MEASUREMENTS if guessed else LEVEL


def _row(of: Class, points: Sequence[HeldOut]) -> Row:
    coverage, half_width = _judged(points, _level(of[0]))
    return Row(
        what=f"error band, {_name_of(of)}",
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
        width = factors[point.group] * (point.difficulty_percent + PARAMETERS.bands.easiest_percent)
        widths.append(width)
        inside.append(point.error_percent <= width)
    return float(np.mean(inside)), float(np.median(widths))


def _median_error(points: Sequence[HeldOut]) -> float:
    return float(np.median([p.error_percent for p in points]))


def _error(measured: float, predicted: float) -> float:
    """Error in percent of the answer, as its band is."""
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
    known = [(p.input_tokens, p.output_tokens) for p in fold.known]
    return _regime_beside(known, (fold.tested.input_tokens, fold.tested.output_tokens))


def _regime_beside(known: Iterable[Pair], tested: Pair) -> Regime:
    """Basis of an answer for these lengths from a fit to the known ones."""
    known = tuple(known)
    if len(known) == 1:
        return Regime.ONE_WORKLOAD
    near = all(
        Range(min(lengths), max(lengths)).covers(asked)
        for lengths, asked in zip(zip(*known, strict=True), tested, strict=True)
    )
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


def _from_one_workload(data: Path) -> Iterator[HeldOut]:
    """Every workload of nim_dli.csv from each other one alone, without which the constants of the engine are left."""
    steps = {key: step_without(data, key, partial(operator.eq, key)) for key in {fold.key for fold in folds(data)}}
    for fold in folds(data):
        limit = fold.step.max_batch
        prior = replace(steps[fold.key], max_batch=limit)
        for known in fold.known:
            step = replace(step_of_known(data, fold.key, [known]), max_batch=limit)
            for point in fold.points:
                rate = _rate(step, fold.lengths, point)
                spread = spread_percent(rate, [_rate(prior, fold.lengths, point)])
                yield HeldOut(_name(fold.key), _error(point.requests_per_second, rate), spread)


def _collected_workloads(data: Path) -> Iterator[tuple[Regime, list[HeldOut]]]:
    """The same as `_without_workload` and `_from_one_workload` for the silicon sample."""
    for measured in configurations(data, calibrations(data)):
        by_pair: dict[Pair, list[Sample]] = defaultdict(list)
        for sample in measured.samples:
            by_pair[sample.input_tokens, sample.output_tokens].append(sample)
        if measured.source not in COLLECTED or len(by_pair) == 1:
            continue
        fitted = {rest: _collected_fit(measured, by_pair, rest) for rest in _rests(by_pair)}
        group, mixture = (
            f"{measured.engine.value} {_name(measured.key)}",
            bool(resolve_model(measured.key.model).experts),
        )
        for tested, samples in by_pair.items():
            rest = tuple(pair for pair in by_pair if pair != tested)
            for known in dict.fromkeys((rest, *((pair,) for pair in rest))):
                step = fitted[known]
                others = [fitted[tuple(p for p in known if p != left_out)] for left_out in known]
                points = []
                for s in samples:
                    rate = _sample_rate(step, s)
                    spread = spread_percent(rate, [_sample_rate(other, s) for other in others])
                    error = _error(s.point.requests_per_second, rate)
                    points.append(HeldOut(group, error, spread, is_collected=True, mixture_of_experts=mixture))
                yield _regime_beside(known, tested), points


def _rests(pairs: Iterable[Pair]) -> Iterator[tuple[Pair, ...]]:
    """Every selection of all pairs but one, of all but two, of one and of none."""
    everything = tuple(pairs)
    sizes = {len(everything) - 1, len(everything) - 2, 1, 0}
    return (selection for size in sizes for selection in combinations(everything, size))


def _collected_fit(measured: Measured, by_pair: Mapping[Pair, Sequence[Sample]], known: Iterable[Pair]) -> StepModel:
    samples = [sample for pair in known for sample in by_pair[pair]]
    if not samples:
        return measured.step(measured.constants_of_others)
    return measured.step(measured.fit(samples, measured.constants_of_others))


def _sample_rate(step: StepModel, sample: Sample) -> float:
    """Samples of the silicon sample are only those that memory does not limit."""
    lengths = Lengths(sample.input_tokens, sample.input_tokens, sample.output_tokens)
    return throughput(replace(step, max_batch=math.ceil(sample.concurrency)), lengths, sample.concurrency)


def _rate(step: StepModel, lengths: Lengths, point: Point) -> float:
    return throughput(step, lengths, point.concurrency or 1.0)


def _nim_siblings(data: Path) -> Iterator[HeldOut]:
    steps = {key: step_without(data, key, partial(operator.eq, key)) for key in {fold.key for fold in folds(data)}}
    for fold in folds(data):
        step = replace(steps[fold.key], max_batch=fold.step.max_batch)
        errors = (_error(p.requests_per_second, _rate(step, fold.lengths, p)) for p in fold.points)
        yield from (HeldOut(_name(fold.key), error) for error in errors)


def _silicon_priors(data: Path) -> Iterator[tuple[Regime, list[HeldOut]]]:
    for engine in silicon.ENGINES:
        for regime, same in _SILICON:
            yield regime, list(_silicon_left_out(data, engine, same))


def _silicon_left_out(data: Path, engine: str, same: SameCase) -> Iterator[HeldOut]:
    cases = silicon.sound_cases(data, engine)
    groups: dict[str, list[silicon.Case]] = defaultdict(list)
    for case in cases:
        groups[" ".join(map(str, (case.engine, *case.left_out_with)))].append(case)
    for group, members in groups.items():
        left_out = tuple(same(case, members[0]) for case in cases)
        entry = silicon.entry_without(data, engine, left_out)
        if entry is None:
            continue
        for case in members:
            # By Little's law requests a second are off by as much as the end-to-end time.
            error = _error(silicon.predict(case, entry), case.end_to_end_seconds)
            yield HeldOut(group, error, is_collected=True, mixture_of_experts=bool(case.model.experts))


_SILICON: tuple[tuple[Regime, SameCase], ...] = (
    (Regime.SIBLING, lambda a, b: a.left_out_with == b.left_out_with),
    (Regime.RELATED, lambda a, b: a.model.architecture == b.model.architecture),
    (Regime.RELATED, lambda a, b: a.key.gpu == b.key.gpu),
    (Regime.PRIOR, lambda a, b: a.model.architecture == b.model.architecture or a.key.gpu == b.key.gpu),
)
"""Cases that are left out with the configuration asked about: those that are the same in this respect."""
