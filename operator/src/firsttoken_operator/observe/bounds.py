"""Bounds of the TTFT buckets that are asked for: those around the limits, of the twenty that a histogram has. Pure.

What decides is the share above the limit, for which the next bounds below and above it are enough. The same at half and
at twice the limit tell how far from it the percentile is. A bound that not every histogram has is passed on the way
outwards, so that each histogram has its own next one among those that are asked for:

| limit | histograms with bounds | asked for at the limit itself |
|---|---|---|
| 300 ms | all 0.1, 0.25, 0.5, 1 | 0.25, 0.5 |
| 250 ms | the same | 0.1, 0.25, 0.5 |
| 300 ms | all 0.1, 0.25, 0.5; one of them 0.3 | 0.25, 0.3, 0.5 |
| 300 ms | two layouts: 0.1, 0.5 and 0.2, 0.5 | 0.1, 0.2, 0.5 |
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from firsttoken_operator.families import NO_BOUND
from firsttoken_sizing.workload import Limit

ROUNDING = 1e-9
"""Relative error of summed floats: a share that is met up to rounding is met."""
TOLD_AT = (0.5, 1.0, 2.0)
"""Multiples of a limit at which bounds are asked for."""
WITHOUT_LIMIT_SECONDS = (0.25, 1.0, 4.0)
"""Steps in which TTFT is told where the SLA has no limit on a percentile: none of it decides then."""
MOST_BOUNDS = 100
"""Bounds in a query: no layout has so many, and with more the query would be longer than it is worth."""

PodKey = tuple[str, str]
"""Namespace and name of a pod."""


@dataclass(frozen=True, slots=True)
class KnownBounds:
    """Number of histograms of a family by bound, when it is asked for again, and the pods that there were then."""

    layout: Mapping[str, float]
    due_seconds: float
    pods: frozenset[PodKey] | None = None
    """None: not known yet."""

    def came(self, pods: frozenset[PodKey]) -> frozenset[PodKey]:
        """Pods that came after it was asked; none where all buckets are asked for."""
        return frozenset() if self.pods is None or not self.layout else pods - self.pods

    def after(self, pods: frozenset[PodKey]) -> KnownBounds:
        """The bounds after an observation with these pods: due at once where others came."""
        if self.pods is None:
            return replace(self, pods=pods)
        return replace(self, due_seconds=-math.inf) if self.came(pods) else self


def seconds_of(limits: Iterable[Limit | None]) -> frozenset[float]:
    """Times to the first token around which bounds are asked for, of resources with these limits."""
    found = set[float]()
    for limit in limits:
        if limit is not None and limit.percentile.share is not None:
            found.update(share * limit.milliseconds / 1000 for share in TOLD_AT)
        else:
            found.update(WITHOUT_LIMIT_SECONDS)
    return frozenset(found)


def around(layout: Mapping[str, float], seconds: Collection[float], unit_seconds: float) -> frozenset[str]:
    """The bounds to ask for, as they are spelled; none: all, because it is not known which there are, or too many.

    `layout` has the number of histograms by the bound that they have, in units of `unit_seconds`.
    """
    numbers = {text: number for text in layout if (number := _number(text)) >= 0}
    held = dict[float, float]()
    for text, number in numbers.items():
        # NB: `1` and `1.0` are one bound; how many histograms have one of the two is not known, but no fewer than this.
        held[number] = max(held.get(number, 0.0), layout[text])
    if not (every := layout.get(NO_BOUND, 0.0)):
        return frozenset()
    ascending = sorted(held)
    wanted = {math.inf}
    for at in (each / unit_seconds for each in seconds):
        below, above = bisect_left(ascending, at * (1 - ROUNDING)), bisect_right(ascending, at * (1 + ROUNDING))
        wanted.update(ascending[below:above])
        for outwards in (reversed(ascending[:below]), iter(ascending[above:])):
            for bound in outwards:
                wanted.add(bound)
                if held[bound] >= every:
                    break
    texts = frozenset(text for text, number in numbers.items() if number in wanted)
    return texts if len(texts) <= MOST_BOUNDS else frozenset()


def _number(text: str) -> float:
    """The bound; NaN where the text is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
