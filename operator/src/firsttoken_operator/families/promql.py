"""The PromQL that live queries are made of; `WINDOW` stands where the rate window goes.

Queries are grouped over the whole cluster by (namespace, pod), so their number does not depend on the number of
resources; an inner `max by` folds duplicate scrapes of one pod (two jobs, a Prometheus pair) into one. No text of a
tenant gets here.
"""

from __future__ import annotations

from collections.abc import Iterable

BOUND = 'le=~"[-+.0-9a-zA-Z]{1,32}"'
"""Matcher of bounds that can be numbers: `le` is a label of a tenant's too, and may be a megabyte long."""


def windowed(template: str, window_seconds: float) -> str:
    """A template with its window."""
    return template.replace("WINDOW", duration(window_seconds))


def duration(seconds: float) -> str:
    """A PromQL duration. It is written in milliseconds: durations have no fractions."""
    return f"{round(seconds * 1000)}ms"


def selector(metric: str, matchers: str = "") -> str:
    """All series of a metric that belong to a pod."""
    return f'{metric}{{pod!=""{"," + matchers if matchers else ""}}}'


def summed(inner: str, dimensions: str, by: str = "") -> str:
    """Sum over the series of a pod (its `dimensions`), after duplicates were folded; `by`: a further label to keep."""
    kept = f"namespace, pod, {by}" if by else "namespace, pod"
    return f"sum by ({kept}) (max by ({kept}, {dimensions}) ({inner}))"


def rate(metric: str, matchers: str = "") -> str:
    """Increase a second over the window."""
    return f"rate({selector(metric, matchers)}[WINDOW])"


def slope(metric: str) -> str:
    """Least-squares slope of a gauge over the window, per second."""
    return f"deriv({selector(metric)}[WINDOW])"


def told_apart(label: str, vectors: Iterable[tuple[str, str]]) -> str:
    """Vectors that were aggregated, joined into one: a label says which of them an element is from.

    NB: never of bare series. They have labels of a tenant's choice, and where one of them is overwritten here two
    series can become alike, which makes Prometheus refuse the query for everybody.
    """
    return " or ".join(f'label_replace({vector}, "{label}", "{value}", "pod", ".*")' for value, vector in vectors)


def age(metric: str) -> str:
    """Seconds since the newest sample of a pod, by Prometheus' own clock (immune to skew against ours)."""
    return f"min by (namespace, pod) (time() - timestamp({selector(metric)}))"


def start_age(metric: str) -> str:
    """Seconds from now back to the newest sample before the window: without one, rates are of a part of the window."""
    return f"min by (namespace, pod) (time() - timestamp({selector(metric)} offset WINDOW))"


def samples(metric: str) -> str:
    """Samples of a pod inside the window."""
    return f"max by (namespace, pod) (count_over_time({selector(metric)}[WINDOW]))"


def fullest(inner: str) -> str:
    """The largest value among the engines of a pod."""
    return f"max by (namespace, pod) ({inner})"
