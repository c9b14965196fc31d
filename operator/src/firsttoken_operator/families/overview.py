"""One query that says which pods are up and which families there are: the others are asked of these alone."""

from __future__ import annotations

from collections.abc import Sequence

from firsttoken_operator.families.family import MetricFamily
from firsttoken_operator.families.promql import EVERY_POD, joined, told_apart, windowed

FAMILY = "family"
"""Label of what is said of a family; what has none is said of a pod."""

_UP = f"max by (namespace, pod) (up{{{EVERY_POD}}})"


def overview_query(families: Sequence[MetricFamily], window_seconds: float) -> str:
    """The PromQL: by pod 1 where its last scrape succeeded and 0 where it failed, and by `FAMILY` pods of it.

    A pod that fell silent within the window still has its family, so that it is stale and not unheard of.
    """
    known = ((each.name, f"count(last_over_time({each.told_by}[WINDOW]))") for each in families)
    return windowed(joined([_UP, told_apart(FAMILY, known)]), window_seconds, window_seconds)
