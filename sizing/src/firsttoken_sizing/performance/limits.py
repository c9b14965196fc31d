"""Does an operating point keep the SLA? Three answers: yes, no, not known.

What a limit on a percentile that is missing is judged by is the caller's choice, and never silently the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from firsttoken_sizing.profile import Latencies, Latency
from firsttoken_sizing.workload import Limit, Percentile, Sla

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
    mean_milliseconds: float | None

    @property
    def name(self) -> str:
        """Short word for people: `TTFT P95`."""
        return f"{self.metric} {self.limit.percentile.value}"

    @property
    def share(self) -> float | None:
        """Share of the limit that is used; above 1 it is broken."""
        return None if self.value_milliseconds is None else self.value_milliseconds / self.limit.milliseconds

    @property
    def kept(self) -> bool | None:
        """True where the limit holds, False where it is broken; None where that is not known.

        A point that lacks the percentile can still be ruled out when already its mean breaks a limit on P90 or above.
        """
        most = self.limit.milliseconds * _ROUNDING
        if self.value_milliseconds is not None:
            return self.value_milliseconds <= most
        mean_breaks = self.mean_milliseconds is not None and self.mean_milliseconds > most
        return False if mean_breaks and self.limit.percentile in _ABOVE_MEAN else None


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
            yield Bound(metric, limit, judged_milliseconds(latency, limit, missing), latency.mean)


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
