"""Does an operating point keep the SLA? Three answers: yes, no, not known. A missing statistic is never the mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from firsttoken_sizing.profile import Latency, Point
from firsttoken_sizing.workload import Limit, Percentile, Sla

_ABOVE_MEAN = {Percentile.P90, Percentile.P95, Percentile.P99}


@dataclass(frozen=True, slots=True)
class Bound:
    """One limit of an SLA against one point. `share` is value / limit, None where the statistic is not known."""

    metric: str
    """`TTFT`, `ITL` or `E2E`."""
    limit: Limit
    value_milliseconds: float | None
    mean_milliseconds: float | None

    @property
    def name(self) -> str:
        """Short word for people: `TTFT P95`."""
        return f"{self.metric} {self.limit.percentile.value}"

    @property
    def share(self) -> float | None:
        """How much of the limit is used; above 1 it is broken."""
        return None if self.value_milliseconds is None else self.value_milliseconds / self.limit.milliseconds

    @property
    def kept(self) -> bool | None:
        """Whether the limit holds; None where nobody knows.

        A point that lacks the percentile can still be ruled out when already its mean breaks a limit on P90 or above.
        """
        if self.value_milliseconds is not None:
            return self.value_milliseconds <= self.limit.milliseconds
        mean_breaks = self.mean_milliseconds is not None and self.mean_milliseconds > self.limit.milliseconds
        return False if mean_breaks and self.limit.percentile in _ABOVE_MEAN else None


def bounds(point: Point, sla: Sla) -> Iterator[Bound]:
    """Every declared limit of the SLA against this point."""
    declared: tuple[tuple[str, Limit | None, Latency], ...] = (
        ("TTFT", sla.time_to_first_token, point.ttft),
        ("ITL", sla.inter_token_latency, point.itl),
        ("E2E", sla.end_to_end, point.end_to_end),
    )
    for metric, limit, latency in declared:
        if limit is not None:
            yield Bound(metric, limit, latency.at(limit.percentile), latency.mean)


def meets(point: Point, sla: Sla) -> bool | None:
    """Whether the point keeps every limit: False if one is broken, else None if one is not known, else True."""
    verdicts = [bound.kept for bound in bounds(point, sla)]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def tightest(point: Point, sla: Sla) -> Bound | None:
    """The limit of which the most is used; None without limits or where no statistic is known."""
    known = [bound for bound in bounds(point, sla) if bound.share is not None]
    return max(known, key=lambda bound: bound.share or 0.0, default=None)
