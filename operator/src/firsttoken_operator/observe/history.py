"""Memory of a Prometheus for arrivals: the PromQL and how a range of time is asked for, piece by piece.

Arrivals are what the operator takes for them: first tokens plus the growth of the queue. Pods are found by name (those
of a Deployment are called `<deployment>-<template hash>-<suffix>`), because the ones of last week are in no cluster any
more. The command `replay` asks for one Deployment, the operator at its start for all of them at once.

NB: Kubernetes cuts the names of pods at 63 characters, so a Deployment with a name of more than 46 is not told apart
from its template hash: it has no history among all, and one when it is asked for by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firsttoken_operator.domain import Reason
from firsttoken_operator.families import FAMILY, Arrivals, MetricFamily, TokenPart
from firsttoken_operator.families.family import of_models
from firsttoken_operator.families.promql import EVERY_POD, rate, selector, slope, told_apart
from firsttoken_operator.observe.session import BoundedSession, RequestFailed

DEPLOYMENT_LABEL = "deployment"
"""Made by the queries below: the name of the Deployment, or of what numbers its pods, that a pod's name tells."""

CHUNK_SECONDS = 86400.0
"""One query asks for a day at most: a bounded answer, and progress to report."""

POD_NAME = "(.+?)(?:-[0-9]{1,4}|-[a-z0-9]+-[a-z0-9]{5})"
"""Name of a pod: numbered (StatefulSet, LeaderWorkerSet), or with the hash of a ReplicaSet and five characters."""
WARNING_CHARACTERS = 200


def pods_of(namespace: str, deployment: str) -> str:
    """Label matchers of the pods that a Deployment has or had."""
    name = deployment.replace(".", "[.]")
    return f'namespace="{namespace}",pod=~"{name}(-[a-z0-9]+){{1,2}}"'


@dataclass(frozen=True, slots=True)
class PastQueries:
    """Queries about one metric family. Duplicate scrapes of one engine are folded, as the operator does.

    `window` is what a rate is over, as PromQL writes it. `by_deployment` keeps the Deployments apart, in the labels
    `namespace` and `deployment`; otherwise everything that `matchers` select is added up.
    """

    family: MetricFamily
    matchers: str
    window: str
    by_deployment: bool = False

    @property
    def arrivals(self) -> str:
        """Requests a second that arrived, in the way of the family."""
        family = self.family
        waiting = [self.summed(slope(series), family.dimensions) for series in family.waiting]
        if family.arrivals is Arrivals.STARTED:
            return self.counted(rate(family.started), family.dimensions)
        if family.arrivals is Arrivals.FIRST_TOKENS:
            left = self.counted(rate(f"{family.ttft}_count"), family.dimensions)
        else:
            left = self.counted(" or ".join(family.ended.values()), family.ended_dimensions)
        return f"clamp_min({' + '.join([left, *waiting])}, 0)"

    def mean(self, tokens: TokenPart, requests: TokenPart) -> str:
        """Mean tokens a request; `requests`: the count that they are divided by. Empty where they are not counted."""
        counters = [self.family.tokens.get(part) for part in (tokens, requests)]
        return " / ".join(self.summed(rate(counter), self.family.dimensions) for counter in counters if counter)

    def counted(self, rates: str, dimensions: str) -> str:
        """Count requests: where one model of a server calls another, those of the model with most, server by server."""
        label = self.family.model_label
        marked = f"last_over_time({self.family.only_where}[WINDOW])"
        folded = self._folded(of_models(self.family, rates, marked), dimensions)
        return self._added(
            f"max by (namespace, pod) (sum by (namespace, pod, {label}) ({folded}))" if label else folded
        )

    def summed(self, inner: str, dimensions: str) -> str:
        """The sum over all engines, of each Deployment or of all."""
        return self._added(self._folded(inner, dimensions))

    def _folded(self, inner: str, dimensions: str) -> str:
        """Series of an engine that is scraped twice, once."""
        labels = ", ".join(name for name in ("namespace, pod", self.family.model_label, dimensions) if name)
        return f"max by ({labels}) ({self._filled(inner)})"

    def _added(self, of_pods: str) -> str:
        if not self.by_deployment:
            return f"sum ({of_pods})"
        named = f'label_replace({of_pods}, "{DEPLOYMENT_LABEL}", "$1", "pod", "{POD_NAME}")'
        return f"sum by (namespace, {DEPLOYMENT_LABEL}) ({named})"

    def _filled(self, template: str) -> str:
        """The text of a template for these pods and this window."""
        return template.replace(EVERY_POD, self.matchers).replace("[WINDOW]", f"[{self.window}]")


def presence_query(families: Sequence[MetricFamily]) -> str:
    """The PromQL of what there was: pods by `FAMILY`, each family told by what its arrivals are counted by."""
    return told_apart(FAMILY, ((family.name, f"count({_counter(family)})") for family in families))


def _counter(family: MetricFamily) -> str:
    if family.arrivals is Arrivals.STARTED:
        return selector(family.started)
    return selector(f"{family.ttft}_count") if family.arrivals is Arrivals.FIRST_TOKENS else family.told_by


@dataclass(frozen=True, slots=True)
class PastSeries:
    """One series of a range: its labels, and values by seconds since the epoch. What was not there is left out."""

    labels: Mapping[str, str]
    values: Mapping[float, float]


@dataclass(frozen=True, slots=True)
class PastAnswer:
    """Answer to a range query. With `warnings` it may be incomplete."""

    series: tuple[PastSeries, ...]
    warnings: tuple[str, ...] = ()


def chunks(since_seconds: float, now_seconds: float, step_seconds: float) -> Iterator[tuple[float, float]]:
    """First and last evaluation of every day of the last `since_seconds`, oldest first, on whole steps.

    Times are seconds since the epoch. Neighbours do not overlap.
    """
    steps = math.ceil(since_seconds / step_seconds)
    last = math.floor(now_seconds / step_seconds)
    steps_a_chunk = max(1, int(CHUNK_SECONDS // step_seconds))
    for start in range(last - steps, last, steps_a_chunk):
        yield start * step_seconds, min(start + steps_a_chunk - 1, last) * step_seconds


def ask_range(
    session: BoundedSession,
    url: str,
    promql: str,
    span: tuple[float, float],
    step_seconds: float,
    timeout_seconds: float,
) -> PastAnswer:
    """Evaluate a query at every step of `span` (both ends included). Raises `RequestFailed`."""
    begin, end = span
    parameters = {"query": promql, "start": _number(begin), "end": _number(end), "step": _number(step_seconds)}
    document = session.request(
        "GET", f"{url.rstrip('/')}/api/v1/query_range", params=parameters, timeout=timeout_seconds
    ).json()
    try:
        return _read(document)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
        raise RequestFailed(Reason.BAD_RESPONSE, "the answer is not a range of series of numbers") from None


def _read(document: Any) -> PastAnswer:
    if document["status"] != "success" or document["data"]["resultType"] != "matrix":
        raise ValueError("not a matrix")
    series = tuple(
        PastSeries(dict(element["metric"]), dict(_values(element["values"]))) for element in document["data"]["result"]
    )
    return PastAnswer(series, tuple(str(text)[:WARNING_CHARACTERS] for text in document.get("warnings") or ()))


def _values(pairs: Any) -> Iterator[tuple[float, float]]:
    """Times and values of one series, those that can be a rate or a mean."""
    for at, text in pairs:
        value = float(text)
        if math.isfinite(value) and value >= 0:
            yield float(at), value


def _number(value: float) -> str:
    """Seconds as Prometheus reads them, to the millisecond."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
