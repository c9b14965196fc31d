"""Reading benchmark points: which ones belong to a workload, and what one knows from them at every concurrency.

The course's way: the operating point is a concurrency that was measured, the one with the highest throughput inside the
SLA. Statistics that a point lacks are filled with a shape (percentile / mean); an answer that stands on a filled one
says `Interpolated` or `Fitted`, and a `Measured` one reports what was measured only.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from firsttoken_sizing.performance.limits import bounds, meets
from firsttoken_sizing.profile import STATISTICS, ConfigurationKey, Latency, Load, Point, Profile
from firsttoken_sizing.step.knowledge import speed_key
from firsttoken_sizing.workload import Sla

_SAME_LENGTH = 0.01
_METRICS = ("ttft", "itl", "end_to_end")

Completion = Callable[[Point], Point | None]
"""The step model's operating point at the same load as a measured one; None where there is no model."""


def same_lengths(
    profiles: Iterable[Profile], key: ConfigurationKey, load: Load, input_tokens: float, output_tokens: float
) -> tuple[Profile, ...]:
    """Profiles of this configuration and load, at these lengths (within 1 %)."""
    return tuple(
        p
        for p in profiles
        if speed_key(p.key) == speed_key(key)
        and p.load is load
        and _near(p.input_tokens, input_tokens)
        and _near(p.output_tokens, output_tokens)
    )


def matching_points(
    profiles: Iterable[Profile], key: ConfigurationKey, load: Load, input_tokens: float, output_tokens: float
) -> tuple[Point, ...]:
    """Measured points of this configuration, load and lengths (within 1 %), by rising concurrency.

    A load that was measured twice is averaged; overload windows are left out. Means of E2E, and concurrencies, that the
    tool did not report follow from `E2E = TTFT + ITL * (OSL - 1)` and Little's law.
    """
    by_load: dict[float, list[Point]] = defaultdict(list)
    for profile in same_lengths(profiles, key, load, input_tokens, output_tokens):
        for point in profile.points:
            complete = point.completed(profile.output_tokens)
            if point.requests_per_second <= 0 or complete.concurrency is None or complete.is_overload:
                continue
            offered = complete.offered_requests_per_second
            by_load[complete.concurrency if offered is None else offered].append(complete)
    return tuple(_average(points) for _, points in sorted(by_load.items()))


def operating_point(points: Sequence[Point], sla: Sla) -> Point | None:
    """The point with the highest throughput that is known to keep the SLA; None where there is none."""
    inside = [p for p in points if meets(p, sla)]
    return max(inside, key=lambda p: p.requests_per_second, default=None)


def can_be_judged(point: Point, sla: Sla) -> bool:
    """Tell whether the point says something about every limit: whether it is kept, or a mean to fill from.

    One that does not (a run that sent everything at once has no TTFT) tells a throughput and nothing about the SLA.
    """
    return all(b.kept is not None or b.latency.mean is not None for b in bounds(point, sla))


def has_better_unknown(points: Sequence[Point], sla: Sla, known: Point | None) -> bool:
    """Tell whether a point with a higher throughput lacks a statistic, so that it may or may not keep the SLA."""
    floor = known.requests_per_second if known else 0.0
    return any(meets(p, sla) is None and p.requests_per_second > floor for p in points)


def is_between(points: Sequence[Point], point: Point, sla: Sla) -> bool:
    """Tell whether each statistic of the SLA that `point` lacks was measured at a lower and a higher concurrency."""
    here = point.concurrency or 0.0
    for missing in (b for b in bounds(point, sla) if b.value_milliseconds is None):
        places = [
            p.concurrency or 0.0
            for p in points
            for b in bounds(p, sla)
            if b.name == missing.name and b.value_milliseconds is not None and b.latency.mean is not None
        ]
        if not places or not min(places) < here < max(places):
            return False
    return True


def fill_percentiles(points: Sequence[Point], shape: Completion) -> tuple[Point, ...]:
    """The same points with every percentile that can be filled: own mean x (percentile / mean).

    The ratio is the one that other points of the curve measured (over log concurrency) where this one lies between
    them, else the step model's, else that of the nearest point. A mean is never changed, and nothing is filled where
    none of these is known.
    """
    models = [shape(p) if any(_lacks(getattr(p, m)) for m in _METRICS) else None for p in points]
    columns: dict[str, list[Latency]] = {}
    for metric in _METRICS:
        columns[metric] = latencies = [getattr(p, metric) for p in points]
        for statistic in STATISTICS[1:]:
            known = _ratios(points, latencies, statistic)
            for i, latency in enumerate(latencies):
                if latency.mean is None or getattr(latency, statistic) is not None:
                    continue
                ratio = _ratio(known, points[i], _ratio_of(models[i], metric, statistic))
                if ratio is not None:
                    latencies[i] = replace(latency, **{statistic: _ordered(latency, statistic, latency.mean * ratio)})
    return tuple(
        replace(p, ttft=columns["ttft"][i], itl=columns["itl"][i], end_to_end=columns["end_to_end"][i])
        for i, p in enumerate(points)
    )


def interpolate(points: Sequence[Point], per_gap: int = 6) -> tuple[Point, ...]:
    """The points with more between them: log-linear in concurrency, rate and latency, exact on the points."""
    ordered = sorted(points, key=lambda p: p.concurrency or 0.0)
    result: list[Point] = []
    for left, right in pairwise(ordered):
        result.extend(_between(left, right, i / per_gap) if i else left for i in range(per_gap))
    return (*result, ordered[-1])


def at_load(points: Sequence[Point], load: float) -> Point | None:
    """The point at a concurrency (or, of a Poisson benchmark, an offered rate): measured, or between two that were.

    Log-linear like `interpolate`. None outside of what was measured: nothing is extended beyond the last point.
    """
    ordered = sorted(points, key=load_of)
    for point in ordered:
        if math.isclose(load_of(point), load):
            return point
    for left, right in pairwise(ordered):
        low, high = load_of(left), load_of(right)
        if low < load < high:
            return _between(left, right, math.log(load / low) / math.log(high / low))
    return None


def load_of(point: Point) -> float:
    """Load that the benchmark set: the offered rate of an open loop, else the concurrency."""
    offered = point.offered_requests_per_second
    return (point.concurrency or 0.0) if offered is None else offered


def _near(measured: float, asked: float) -> bool:
    return abs(measured / asked - 1) <= _SAME_LENGTH


def _lacks(latency: Latency) -> bool:
    return any(getattr(latency, s) is None for s in STATISTICS)


def _average(points: Sequence[Point]) -> Point:
    def mean(values: Iterable[float | None]) -> float | None:
        known = [v for v in values if v is not None]
        return sum(known) / len(known) if known else None

    return replace(
        points[0].combined(points[1:], mean),
        requests_per_second=sum(p.requests_per_second for p in points) / len(points),
        concurrency=mean(p.concurrency for p in points),
        offered_requests_per_second=mean(p.offered_requests_per_second for p in points),
    )


def _ratios(points: Sequence[Point], latencies: Sequence[Latency], statistic: str) -> list[tuple[float, float]]:
    pairs = []
    for point, latency in zip(points, latencies, strict=True):
        value = getattr(latency, statistic)
        if value is not None and latency.mean and point.concurrency:
            pairs.append((math.log(point.concurrency), value / latency.mean))
    return pairs


def _ratio(known: Sequence[tuple[float, float]], point: Point, of_model: float | None) -> float | None:
    if not known:
        return of_model
    places, ratios = zip(*known, strict=True)
    place = math.log(point.concurrency or 1.0)
    if of_model is not None and not places[0] <= place <= places[-1]:
        return of_model
    return float(np.interp(place, places, ratios))


def _ratio_of(model: Point | None, metric: str, statistic: str) -> float | None:
    if model is None:
        return None
    latency: Latency = getattr(model, metric)
    value: float | None = getattr(latency, statistic)
    return value / latency.mean if value is not None and latency.mean else None


def _ordered(latency: Latency, statistic: str, value: float) -> float:
    """The value, kept between the percentiles that are known below and above it."""
    place = STATISTICS.index(statistic)
    below = [v for s in STATISTICS[1:place] if (v := getattr(latency, s)) is not None]
    above = [v for s in STATISTICS[place + 1 :] if (v := getattr(latency, s)) is not None]
    raised = max([value, *below])
    return float(min([raised, *above]))


def _between(left: Point, right: Point, share: float) -> Point:
    def log_mean(values: Sequence[float | None]) -> float | None:
        a, b = values
        if a is None or b is None:
            return None
        return float(a ** (1 - share) * b**share) if a > 0 and b > 0 else a + share * (b - a)

    return replace(
        left.combined([right], log_mean),
        requests_per_second=log_mean((left.requests_per_second, right.requests_per_second)) or 0.0,
        concurrency=log_mean((left.concurrency, right.concurrency)),
        offered_requests_per_second=log_mean((left.offered_requests_per_second, right.offered_requests_per_second)),
    )
