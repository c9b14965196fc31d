"""The PromQL that live queries are made of; `WINDOW` and `RECENT` stand where the spans go (`windowed`).

Queries are grouped over the whole cluster by (namespace, pod), so their number does not depend on the number of
resources; an inner `max by` folds duplicate scrapes of one pod (two jobs, a Prometheus pair) into one. No text of a
tenant gets here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

BOUND = 'le=~"[-+.0-9a-zA-Z]{1,32}"'
"""Matcher of bounds that can be numbers: `le` is a label of a tenant's too, and may be a megabyte long."""
NO_BOUND = "+Inf"
"""Bound of the bucket that holds all."""

EVERY_POD = 'pod!=""'
"""Matcher of whatever runs in a pod."""

HIDDEN_SHARE = 0.6
"""Share of the time for which samples are current: how long ago scrapes may have begun to fail. The sample before that
is a scrape older."""
LOOKS = 4
"""Into that time: more than one a scrape, so that no sample is passed over."""


def windowed(template: str, window_seconds: float, recent_seconds: float) -> str:
    """A template with its window, and how old a sample may be and still be current."""
    window, hidden_seconds = duration(window_seconds), HIDDEN_SHARE * recent_seconds
    ranges = {
        "[WINDOW]": f"[{window}]",
        " offset WINDOW": f" offset {window}",
        "[RECENT]": f"[{duration(recent_seconds)}]",
        "[RECENT:LOOKS]": f"[{duration(hidden_seconds)}:{duration(hidden_seconds / LOOKS)}]",
    }
    for name, text in ranges.items():
        template = template.replace(name, text)
    return template


def duration(seconds: float) -> str:
    """A PromQL duration. It is written in milliseconds: durations have no fractions."""
    return f"{round(seconds * 1000)}ms"


def selector(metric: str, matchers: str = "") -> str:
    """All series of a metric that belong to a pod."""
    return f"{metric}{{{','.join(filter(None, (EVERY_POD, matchers)))}}}"


def without(query: str, namespaces: Collection[str]) -> str:
    """A query of pods, without those of some namespaces.

    NB: the names are a tenant's. Only such as Kubernetes allows get here, and series with any other are left out too.
    """
    names = "|".join(sorted(namespaces))
    left = f'namespace=~"[-a-z0-9]{{1,63}}",namespace!~"{names}"'
    return query.replace(f"{{{EVERY_POD}", f"{{{EVERY_POD},{left}") if namespaces else query


def folded(query: str, bounds: Collection[str]) -> str:
    """A query of buckets, with these bounds alone; none: with all that can be numbers.

    NB: the bounds are a tenant's. Only such as `BOUND` matches get here.
    """
    named = "|".join(bound.replace("+", "[+]").replace(".", "[.]") for bound in sorted(bounds))
    return query.replace(BOUND, f'le=~"{named}"') if bounds else query


def layout(histogram: str, by: str = "") -> str:
    """Histograms that have a bucket of each bound, by `le`: of pods that have the one without a bound.

    A pod counts once for each bound, or once for each value of the labels `by`.
    """
    kept = f"namespace, pod, {by}" if by else "namespace, pod"
    every, whole = (f"last_over_time({selector(histogram, of)}[WINDOW])" for of in (BOUND, f'le="{NO_BOUND}"'))
    return f"count by (le) (count by ({kept}, le) ({every}) and on ({kept}) count by ({kept}) ({whole}))"


def summed(inner: str, dimensions: str, by: str = "") -> str:
    """Sum over the series of a pod (its `dimensions`), after duplicates were folded; `by`: a further label to keep."""
    kept = f"namespace, pod, {by}" if by else "namespace, pod"
    return f"sum by ({kept}) (max by ({kept}, {dimensions}) ({inner}))"


def rate(metric: str, matchers: str = "") -> str:
    """Increase a second over the window."""
    return f"rate({selector(metric, matchers)}[WINDOW])"


def slope(series: str) -> str:
    """Least-squares slope of a gauge over the window, per second."""
    return f"deriv({series}[WINDOW])"


def scaled(vector: str, unit: float) -> str:
    """A vector in the unit of which `unit` is one of its own."""
    return vector if unit == 1 else f"{vector} * {unit:g}"


def told_apart(label: str, vectors: Iterable[tuple[str, str]]) -> str:
    """Vectors that were aggregated, joined into one: a label says which of them an element is from.

    NB: never of bare series. They have labels of a tenant's choice, and where one of them is overwritten here two
    series can become alike, which makes Prometheus refuse the query for all of them.
    """
    return joined([f'label_replace({vector}, "{label}", "{value}", "pod", ".*")' for value, vector in vectors])


def joined(vectors: Sequence[str]) -> str:
    """Vectors whose labels differ, as one.

    NB: by halves. Each `or` compares all elements on both of its sides, which of a chain would be the first ones often.
    """
    if len(vectors) < 2:
        return "".join(vectors)
    half = len(vectors) // 2
    right = joined(vectors[half:])
    return f"{joined(vectors[:half])} or " + (right if len(vectors) - half == 1 else f"({right})")


def recent(series: str) -> str:
    """The newest value of a gauge, also of a pod whose last scrape failed: that alone ends its series at once."""
    return f"last_over_time({series}[RECENT])"


def since_newest(series: str, offset: str = "") -> str:
    """Seconds since the newest sample, by Prometheus' own clock (immune to skew against ours).

    NB: a scrape that failed hides the samples before it from `timestamp`, and `timestamp` of `last_over_time` is now.
    """
    earlier = f"max_over_time(timestamp({series})[RECENT:LOOKS]{offset})"
    return f"time() - (timestamp({series}{offset}) or {earlier})"


def age(series: str) -> str:
    """Seconds since the newest sample of a pod."""
    return f"min by (namespace, pod) ({since_newest(series)})"


def start_age(series: str) -> str:
    """Seconds from now back to the newest sample before the window: without one, rates are of a part of the window."""
    return f"min by (namespace, pod) ({since_newest(series, ' offset WINDOW')})"


def samples(series: str) -> str:
    """Samples of a pod inside the window."""
    return f"max by (namespace, pod) (count_over_time({series}[WINDOW]))"


def fullest(inner: str) -> str:
    """The largest value among the engines of a pod."""
    return f"max by (namespace, pod) ({inner})"
