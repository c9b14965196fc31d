"""Remarks on a mean above its percentile: it looks like an error, and the discrete-event simulation says the same.

A percentile does not see the few beyond it, and a mean does: near saturation one request in thirty that waits seconds
for a slot lifts the mean above the P95 of a time to first token of a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Iterable

from firsttoken_sizing.profile import Latency
from firsttoken_sizing.workload import Arrivals, Percentile

_VISIBLY = 1.001
"""Factor by which the mean is above, so that four digits show it."""
_WHO = {
    Arrivals.CLOSED_LOOP: "those of the first round, when all clients send at once",
    Arrivals.POISSON: "those that come while every slot of the batch is taken, or in the middle of a long prompt",
}

Shown = tuple[Arrivals, Percentile, Latency]
"""One latency of a report at one load, with its mean and the statistic that stands beside it."""


def remarks(shown: Iterable[Shown]) -> tuple[str, ...]:
    """One sentence for each kind of arrivals and percentile that has a mean above it; of the median that is usual."""
    found = dict.fromkeys((arrivals, statistic) for arrivals, statistic, latency in shown if _above(statistic, latency))
    return tuple(
        f"{arrivals.value}: where the mean is above the {statistic.value}, fewer than {_percent(statistic)} % of the"
        f" requests wait so long that they lift it: {_WHO[arrivals]}."
        for arrivals, statistic in found
    )


def _above(statistic: Percentile, latency: Latency) -> bool:
    mean, value = latency.mean, latency.at(statistic)
    unusual = statistic not in (Percentile.MEAN, Percentile.P50)
    return unusual and mean is not None and value is not None and mean > _VISIBLY * value


def _percent(statistic: Percentile) -> str:
    return f"{100 * (1 - (statistic.share or 0.0)):g}"
