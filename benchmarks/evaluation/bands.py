"""Error bands: do they hold nine of ten measurements that were left out, and how wide are they?

The residual of a capacity is that of `size` itself: asked for what a replica carries inside an SLA, tight or loose, on
the mean or a percentile of each latency (`evaluation.capacity`), with the workload, the configuration, the model, the
GPU, both, or the release of the engine left out of all that it knows. It is told as a time: by which factor all steps
would have to take longer than the model says for `size` to answer with what was measured. That of a latency is measured
over predicted at the concurrency of each measured point.

An answer belongs to the class that the product takes it for (`error_band.kind_of`), and its residual is divided by the
difficulty that the product knows. Both sides of a band are quantiles of their own. Points of nim_dli.csv (one
benchmark) and of the silicon sample (collected from many runs) are apart, and mixtures of experts, for whatever was not
measured itself. Measured: the loads of nim_dli.csv that were measured twice, one against the other.

Cross-conformal: the quantiles that an answer is judged by come from all other configurations, while those that are
shipped use all of them. A refusal has no band; its share is in `evaluation.capacity`. Distances are logarithms of
ratios, so that half and double are equally far. Chosen on these points, so not held out: the level of a class, which is
the first of `LEVELS` that holds `AIM` on configurations left out (few configurations are not all alike), and the
weights in the difficulty.

Tried and no better: a constant width for fits (4.3 times the median error for recent engines); the spread alone; three
classes of fits, near, away from and with one of the measured workloads; ITL and E2E apart.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evaluation import capacity
from evaluation.capacity import SizedAnswer
from evaluation.data import NIM, read_profiles
from evaluation.row import Figure, Row
from firsttoken_sizing.optimize.error_band import (
    capacity_if,
    difficulty_of,
    judged_sla,
    kind_of,
    quantity_of,
)
from firsttoken_sizing.optimize.evaluation import Evaluation
from firsttoken_sizing.optimize.load_model import InFlightRequests, LoadModel, load_model_of
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.profile import ConfigurationKey, Point
from firsttoken_sizing.step.bands import AnswerKind, Banded, Regime, times_of

LEVELS = tuple(0.94 + 0.0025 * i for i in range(20))
"""Quantiles of each side, of which a class takes the first that holds `AIM`."""
AIM = 0.885
EVEN = frozenset({Regime.MEASURED, Regime.MODEL_KNOWN, Regime.PRIOR, Regime.OTHER_RELEASE})
"""Regimes whose bands are even: that the few GPUs and releases of the sample were faster than what the others say of
them says nothing of the next one."""
PROMISED = (88.0, 93.0)
"""Coverage in percent, at least and at most."""
WIDTH_GOAL = 2.5
_LONGEST = 12.0
"""Largest factor of times that is looked at."""
_HALVINGS = 15
_MEASURED_TWICE = 2
_FEWEST_GROUPS = 5
"""Configurations that a class needs; a smaller one has the band of answers that are harder to tell."""
_LATENCIES = {
    Banded.TTFT: ("ttft", "mean"),
    Banded.ITL: ("itl", "mean"),
    Banded.END_TO_END: ("end_to_end", "mean"),
    Banded.TTFT_TAIL: ("ttft", "p95"),
    Banded.ITL_TAIL: ("itl", "p95"),
    Banded.END_TO_END_TAIL: ("end_to_end", "p95"),
}

Class = tuple[AnswerKind, Banded]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A measurement that an answer has not seen. `group` is what its quantiles must not have seen either."""

    group: str
    times: float
    """Logarithm of the factor on the times that would have given what was measured."""
    difficulty: float
    error: float
    """Distance of the answer itself, as a logarithm."""
    evaluation: Evaluation | None = None
    """Evaluation of a capacity; None for a time, which is as far off as its factor."""
    question: Question | None = None

    @property
    def score(self) -> float:
        """Residual over difficulty: what the sides of a band are quantiles of."""
        return self.times / self.difficulty

    def half_width(self, low: float, high: float) -> float:
        """Half of the distance between the ends of a band with these quantiles."""
        shortest, longest = low * self.difficulty, high * self.difficulty
        if self.evaluation is None or self.question is None:
            return (longest - shortest) / 2
        load_model, sla = _load_model(self.question, self.evaluation), judged_sla(self.question)
        least, most = (capacity_if(load_model, sla, math.exp(f)) for f in (longest, shortest))
        return math.log(most / least) / 2


def rows(data: Path) -> list[Row]:
    """A row for each class: coverage and half-width."""
    return [_row(of, points) for of, points in _classes(data).items()]


def shipped(data: Path) -> list[dict[str, object]]:
    """The entries of `bands.json`: quantiles from all points, and what was reached on configurations left out."""
    entries: list[dict[str, object]] = []
    for (kind, quantity), points in _classes(data).items():
        level, coverage, half_width = judged(points, even=kind.regime in EVEN)
        even = kind.regime in EVEN
        low, high = sides(_ordered(np.array([p.score for p in points]), even), level, even=even)
        entries.append(
            {
                "regime": kind.regime.value,
                "quantity": quantity.value,
                "collected": kind.is_collected,
                "mixtureOfExperts": kind.mixture_of_experts,
                "low": float(f"{low:.4g}"),
                "high": float(f"{high:.4g}"),
                "level": round(level, 4),
                "points": len(points),
                "groups": len({p.group for p in points}),
                "medianErrorPercent": _percent(_median_error(points)),
                "coveragePercent": round(100 * coverage, 1),
                "medianHalfWidthPercent": _percent(half_width),
            }
        )
    return entries


def inside(answers: Iterable[SizedAnswer]) -> dict[Regime, list[bool]]:
    """Every capacity and latency of these answers by what was known: tells whether the band that is shipped holds it.

    The part of the check that takes seconds; `fit_bands.py --check` is the whole.
    """
    found: dict[Regime, list[bool]] = defaultdict(list)
    for known_alike in _by_knowledge(answers):
        for (kind, quantity), point in (*_capacities(known_alike), *_latencies(known_alike)):
            band = times_of(kind, quantity, point.difficulty)
            found[kind.regime].append(band.low <= math.exp(point.times) <= band.high)
    return found


def sides(ordered: NDArray[np.float64], level: float, *, even: bool = False) -> tuple[float, float]:
    """Signed conformal quantiles of ordered scores at `level` on each side, with 0 between them; `even`: one for both.

    What is ordered of an even band are distances.
    """
    if even:
        farthest = conformal_quantile(ordered, 2 * level - 1)
        return -farthest, farthest
    return min(0.0, -conformal_quantile(-ordered[::-1], level)), max(0.0, conformal_quantile(ordered, level))


def conformal_quantile(ordered: NDArray[np.float64], level: float) -> float:
    """The `ceil((n + 1) * level)`-th smallest of n scores (the largest where there are too few)."""
    return float(ordered[min(len(ordered), math.ceil((len(ordered) + 1) * level)) - 1])


def judged(points: Sequence[HeldOut], *, even: bool = False) -> tuple[float, float, float]:
    """Level of a class, and with it share inside and median half-width by quantiles of other configurations."""
    scores, names = np.array([p.score for p in points]), np.array([p.group for p in points])
    without = {name: _ordered(scores[names != name] if (names != name).any() else scores, even) for name in set(names)}

    def ends(level: float) -> list[tuple[float, float]]:
        of_group = {name: sides(others, level, even=even) for name, others in without.items()}
        return [of_group[name] for name in names]

    def coverage(level: float) -> float:
        low, high = np.array(ends(level)).T
        return float(np.mean((low <= scores) & (scores <= high)))

    level = next((level for level in LEVELS if coverage(level) >= AIM), LEVELS[-1])
    widths = [p.half_width(*of) for p, of in zip(points, ends(level), strict=True)]
    return level, coverage(level), float(np.median(widths))


def _ordered(scores: NDArray[np.float64], even: bool) -> NDArray[np.float64]:
    return np.sort(np.abs(scores) if even else scores)


def _row(of: Class, points: Sequence[HeldOut]) -> Row:
    kind, quantity = of
    _, coverage, half_width = judged(points, even=kind.regime in EVEN)
    names = [kind.regime.value, *(["collected"] if kind.is_collected else [])]
    names += ["mixtures of experts"] if kind.mixture_of_experts else []
    low, high = PROMISED
    # NB: two runs of one benchmark are nearer to each other than anything that is acted on.
    width = None if kind.regime is Regime.MEASURED else WIDTH_GOAL
    return Row(
        what=f"error band, {', '.join(names)}: {quantity.value}",
        left_out="what its class names, and its configuration from the quantiles",
        points=len(points),
        figures=(
            Figure("coverage", 100 * coverage, low, at_least=True),
            Figure("coverage, at most", 100 * coverage, high),
            Figure("half-width / median error", half_width / _median_error(points), width, unit=""),
            Figure("median error", _percent(_median_error(points))),
            Figure("median half-width", _percent(half_width)),
        ),
    )


def _median_error(points: Sequence[HeldOut]) -> float:
    return float(np.median([p.error for p in points]))


def _percent(log: float) -> float:
    return float(f"{100 * math.expm1(log):.3g}")


@cache
def _classes(data: Path) -> dict[Class, list[HeldOut]]:
    """The held-out points that share a band, by class."""
    found: dict[Class, list[HeldOut]] = defaultdict(list)
    for quantity, point in _repeats(data):
        found[AnswerKind(Regime.MEASURED), quantity].append(point)
    for answers in _by_knowledge((*capacity.nim_answers(data), *capacity.silicon_answers(data))):
        for of, point in (*_capacities(answers), *_latencies(answers)):
            found[of].append(point)
    enough = {of: points for of, points in found.items() if len({p.group for p in points}) >= _FEWEST_GROUPS}
    return dict(sorted(enough.items(), key=lambda item: _order(item[0])))


def _order(of: Class) -> tuple[int, bool, bool, int]:
    kind, quantity = of
    return list(Regime).index(kind.regime), kind.is_collected, kind.mixture_of_experts, list(Banded).index(quantity)


def _by_knowledge(answers: Iterable[SizedAnswer]) -> Iterable[list[SizedAnswer]]:
    """Answers about one curve by the same knowledge."""
    grouped: dict[tuple[int, str], list[SizedAnswer]] = defaultdict(list)
    for answer in answers:
        grouped[id(answer.asked.curve), answer.known].append(answer)
    return grouped.values()


def _capacities(answers: Iterable[SizedAnswer]) -> Iterator[tuple[Class, HeldOut]]:
    for answer in answers:
        found, question = answer.evaluation, answer.question
        if found is None:
            continue
        truth = answer.asked.truth.requests_per_second
        difficulty = difficulty_of(question, found.bound, found.point)
        error = abs(math.log(truth / found.capacity))
        times = _times_of(question, found, truth)
        held_out = HeldOut(_name(answer), times, difficulty, error, found, question)
        yield (kind_of(question, found.bound), quantity_of(found.binding, found.point, question.request.sla)), held_out


def _latencies(answers: Sequence[SizedAnswer]) -> Iterator[tuple[Class, HeldOut]]:
    """Latencies at every measured concurrency, by one of the answers, of which all have the same step model."""
    first = next((a for a in answers if a.evaluation is not None), None)
    if first is None or first.evaluation is None:
        return
    bound, load_model = first.evaluation.bound, _load_model(first.question, first.evaluation)
    assert isinstance(load_model, InFlightRequests)
    for point in first.asked.curve.points:
        predicted = load_model.at(max(1, round(point.concurrency or 1.0)))
        difficulty = difficulty_of(first.question, bound, predicted)
        for quantity, times in _log_ratios(point, predicted):
            yield (kind_of(first.question, bound), quantity), HeldOut(_name(first), times, difficulty, abs(times))


def _log_ratios(measured: Point, other: Point) -> Iterator[tuple[Banded, float]]:
    """Every statistic of a latency, as far as both are known and positive."""
    for quantity, (name, statistic) in _LATENCIES.items():
        ours, theirs = getattr(getattr(measured, name), statistic), getattr(getattr(other, name), statistic)
        if ours and theirs:
            yield quantity, math.log(ours / theirs)


def _times_of(question: Question, found: Evaluation, truth: float) -> float:
    """Logarithm of the factor on all times with which the capacity would be `truth` requests a second."""
    load_model, sla = _load_model(question, found), judged_sla(question)
    low, high = -math.log(_LONGEST), math.log(_LONGEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if capacity_if(load_model, sla, math.exp(middle)) > truth else (low, middle)
    # The capacity is a step function of the times: of all factors that give the answer, the one nearest to none.
    return min(low, high, key=abs)


def _load_model(question: Question, found: Evaluation) -> LoadModel:
    return load_model_of(found.bound, question.lengths, question.arrivals)


def _name(answer: SizedAnswer) -> str:
    curve = answer.asked.curve
    return f"{curve.engine.value} {_configuration(curve.key)}"


def _configuration(key: ConfigurationKey) -> str:
    return f"{key.model} {key.gpu} {key.precision} TP{key.tensor_parallel}"


def _repeats(data: Path) -> Iterator[tuple[Banded, HeldOut]]:
    """Loads that were measured twice, each against the other."""
    for key, profiles in read_profiles(data / NIM).items():
        for profile in profiles:
            by_load: dict[float | None, list[Point]] = defaultdict(list)
            for point in profile.points:
                by_load[point.concurrency].append(point)
            for points in by_load.values():
                if len(points) == _MEASURED_TWICE:
                    one, other = points
                    rates = math.log(other.requests_per_second / one.requests_per_second)
                    for quantity, times in ((Banded.CAPACITY, rates), *_log_ratios(one, other)):
                        for signed in (times, -times):
                            yield quantity, HeldOut(_configuration(key), signed, 1.0, abs(signed))
