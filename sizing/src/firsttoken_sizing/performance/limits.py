"""Does an operating point keep the SLA? Three answers: yes, no, not known.

What a limit on a percentile that is missing is judged by is the caller's choice, and never silently the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from firsttoken_sizing.profile import Latencies, Latency
from firsttoken_sizing.workload import Limit, Percentile, Sla

_PERCENTILES = tuple(p for p in Percentile if p.share is not None)
_ABOVE_MEAN = {Percentile.P90, Percentile.P95, Percentile.P99}
_ROUNDING = 1 + 1e-9
"""Factor that keeps what lies at a limit inside: an interpolated latency may miss it in the last bit."""


class MissingPercentile(Enum):
    """Judgment of a limit on a percentile that is not known."""

    UNKNOWN = auto()
    """Not at all: a size that nothing proves is not chosen."""
    JUDGED_BY_MEAN = auto()
    """Mean in its place: for a table whose capacity holds the percentile inside its limit already, so that only it can
    still contradict it."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One limit of an SLA against one point. `share` is value / limit, None where the statistic is not known."""

    metric: str
    """`TTFT`, `ITL` or `E2E`."""
    limit: Limit
    value_milliseconds: float | None
    latency: Latency
    """All that is known of the metric, milliseconds."""

    @property
    def name(self) -> str:
        """Short word for people: `TTFT P95`."""
        return f"{self.metric} {self.limit.percentile.value}"

    @property
    def share(self) -> float | None:
        """Share of the limit that is used; above 1 it is broken."""
        return None if self.value_milliseconds is None else self.value_milliseconds / self.limit.milliseconds

    @property
    def least_milliseconds(self) -> float | None:
        """Value, or where it is not known the largest statistic that it cannot be below; None: there is none.

        A percentile is not below a lower one, nor P90 and above below the mean.
        """
        if self.value_milliseconds is not None:
            return self.value_milliseconds
        below = [self.latency.at(p) for p in _PERCENTILES if _is_below(p, self.limit.percentile)]
        if self.limit.percentile in _ABOVE_MEAN:
            below.append(self.latency.mean)
        return max((value for value in below if value is not None), default=None)

    @property
    def kept(self) -> bool | None:
        """True where the limit holds, False where it is broken; None where that is not known.

        A missing percentile is inside where a higher one is, and outside where `least_milliseconds` is.
        """
        most, least = self.limit.milliseconds * _ROUNDING, self.least_milliseconds
        if self.value_milliseconds is not None:
            return self.value_milliseconds <= most
        if least is not None and least > most:
            return False
        above = (self.latency.at(p) for p in _PERCENTILES if _is_below(self.limit.percentile, p))
        return True if any(value is not None and value <= most for value in above) else None


def _is_below(low: Percentile, high: Percentile) -> bool:
    """Tell whether every distribution has the one at or below the other; the mean has no such place."""
    return low.share is not None and high.share is not None and low.share < high.share


def judged_milliseconds(latency: Latency, limit: Limit, missing: MissingPercentile) -> float | None:
    """The statistic that a limit is judged by, milliseconds; None: not known."""
    value = latency.at(limit.percentile)
    return latency.mean if value is None and missing is MissingPercentile.JUDGED_BY_MEAN else value


def bounds(point: Latencies, sla: Sla, missing: MissingPercentile = MissingPercentile.UNKNOWN) -> Iterator[Bound]:
    """Every declared limit of the SLA against this point."""
    declared: tuple[tuple[str, Limit | None, Latency], ...] = (
        ("TTFT", sla.time_to_first_token, point.ttft),
        ("ITL", sla.inter_token_latency, point.itl),
        ("E2E", sla.end_to_end, point.end_to_end),
    )
    for metric, limit, latency in declared:
        if limit is not None:
            yield Bound(metric, limit, judged_milliseconds(latency, limit, missing), latency)


def meets(point: Latencies, sla: Sla, missing: MissingPercentile = MissingPercentile.UNKNOWN) -> bool | None:
    """Tell whether the point keeps every limit: False if one is broken, else None if one is not known, else True."""
    verdicts = [bound.kept for bound in bounds(point, sla, missing)]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def tightest(point: Latencies, sla: Sla) -> Bound | None:
    """The limit of which the most is used; None without limits or where no statistic is known."""
    known = [bound for bound in bounds(point, sla) if bound.share is not None]
    return max(known, key=lambda bound: bound.share or 0.0, default=None)
