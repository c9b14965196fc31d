"""Measured curves of one replica, and questions that only its latency limits answer.

A curve is one configuration, one pair of lengths and one series of runs, by rising concurrency. Its truth is
interpolated between the measured points (log-linear in concurrency, as the product does). Limits are taken from the
curve itself, tight and loose, on the mean or the percentile of each latency, so that every one of them binds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from evaluation import silicon
from evaluation.folds import folds
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.spec import CURRENT
from firsttoken_sizing.engines.tensorrt_llm import RELEASE_2024
from firsttoken_sizing.performance.limits import meets
from firsttoken_sizing.performance.measured import interpolate, operating_point
from firsttoken_sizing.profile import ConfigurationKey, Latency, Point
from firsttoken_sizing.workload import Limit, Percentile, Sla

SHARES = (0.3, 0.7)
"""Places along a curve (over log concurrency) whose latency is taken for a limit: a tight and a loose one."""
_NO_LIMIT = Limit(1e9, Percentile.MEAN)
_PER_GAP = 8
_FEWEST_POINTS = 4
_BROKEN = 1.05
_METRICS = ("ttft", "itl", "end_to_end")


@dataclass(frozen=True, slots=True)
class MeasuredCurve:
    """Points of one replica, by rising concurrency."""

    key: ConfigurationKey
    engine: Engine
    release: str
    input_tokens: float
    output_tokens: float
    points: tuple[Point, ...]
    collected: bool

    @property
    def pair(self) -> tuple[float, float]:
        """Input and output tokens."""
        return self.input_tokens, self.output_tokens


@dataclass(frozen=True, slots=True)
class Asked:
    """An SLA with one limit, and what the curve carries inside it."""

    curve: MeasuredCurve
    name: str
    """`ttft mean`, `itl mean`, `end_to_end p95`..."""
    sla: Sla
    truth: Point
    dense: tuple[Point, ...]

    def is_broken(self, concurrency: float) -> bool:
        """Tell whether the latency measured at a concurrency is more than 5 % over the limit."""
        nearest = min(self.dense, key=lambda p: abs((p.concurrency or 0.0) - concurrency))
        return meets(nearest, loosened(self.sla)) is False


def loosened(sla: Sla) -> Sla:
    """The limits with the tolerance within which an answer does not count as broken."""

    def more(limit: Limit | None) -> Limit | None:
        return limit and replace(limit, milliseconds=limit.milliseconds * _BROKEN)

    return replace(
        sla,
        time_to_first_token=more(sla.time_to_first_token),
        inter_token_latency=more(sla.inter_token_latency),
        end_to_end=more(sla.end_to_end),
    )


def questions(curve: MeasuredCurve) -> Iterator[Asked]:
    """The questions about one curve, where the limit and not the end of the curve decides."""
    dense = interpolate(curve.points, _PER_GAP)
    for metric in _METRICS:
        for percentile in (Percentile.MEAN, Percentile.P95):
            values = [getattr(p, metric).at(percentile) for p in dense]
            if any(value is None for value in values):
                continue
            for share in SHARES:
                limit = Limit(values[round(share * (len(dense) - 1))], percentile)
                sla = _with_limit(metric, limit)
                truth = operating_point(dense, sla)
                if truth is not None and truth.requests_per_second < max(p.requests_per_second for p in dense):
                    yield Asked(curve, f"{metric} {percentile.key}", sla, truth, dense)


def _with_limit(metric: str, limit: Limit) -> Sla:
    # Streaming wants a limit on TTFT; one that never binds leaves the word to the other.
    if metric == "ttft":
        return Sla(time_to_first_token=limit)
    if metric == "itl":
        return Sla(time_to_first_token=_NO_LIMIT, inter_token_latency=limit)
    return Sla(time_to_first_token=_NO_LIMIT, end_to_end=limit)


@cache
def nim_curves(data: Path) -> tuple[MeasuredCurve, ...]:
    """Every workload of nim_dli.csv whose configuration has others."""
    return tuple(
        MeasuredCurve(
            fold.key,
            Engine.TENSORRT_LLM,
            RELEASE_2024,
            fold.tested.input_tokens,
            fold.tested.output_tokens,
            fold.points,
            collected=False,
        )
        for fold in folds(data)
        if len(fold.points) >= _FEWEST_POINTS
    )


@cache
def silicon_curves(data: Path) -> tuple[MeasuredCurve, ...]:
    """Every sound series of aic_silicon_agg.csv, up to the batch that the engine is shipped with."""
    found: list[MeasuredCurve] = []
    for name, engine in silicon.ENGINES.items():
        series: dict[object, list[silicon.Case]] = defaultdict(list)
        for case in silicon.sound_cases(data, name):
            if case.concurrency <= engine.spec.release().max_batch:
                series[case.variant, case.key, case.lengths].append(case)
        for cases in series.values():
            by_load = {case.concurrency: case for case in cases}
            if len(by_load) >= _FEWEST_POINTS:
                first = cases[0]
                points = tuple(_point(by_load[c]) for c in sorted(by_load))
                lengths = first.lengths.input_tokens, first.lengths.output_tokens
                found.append(MeasuredCurve(first.key, engine, CURRENT, *lengths, points, collected=True))
    return tuple(found)


def _point(case: silicon.Case) -> Point:
    return Point(
        case.requests_per_second,
        concurrency=float(case.concurrency),
        ttft=Latency(mean=1000 * case.ttft_seconds),
        itl=Latency(mean=1000 * case.token_seconds),
        end_to_end=Latency(mean=1000 * case.end_to_end_seconds),
    )
