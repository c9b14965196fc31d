"""What a metric family is, and the PromQL that all families are made of.

A family is one file: names of series and the labels that tell apart series of one pod which must be added up. Queries
are grouped over the whole cluster by (namespace, pod), so their number does not depend on the number of resources; an
inner `max by` folds duplicate scrapes of one pod (two jobs, a Prometheus pair) into one. No text of a tenant gets here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Signal(StrEnum):
    """One query of a family; every value is by pod."""

    AGE = "age"
    """Seconds since the newest sample, by Prometheus' own clock."""
    SAMPLES = "samples"
    """Samples inside the rate window."""
    START_AGE = "age at window start"
    """Seconds from now back to the newest sample that was there when the rate window began."""
    FIRST_TOKENS = "first tokens"
    """Requests a second that got their first token."""
    TTFT_BUCKETS = "TTFT buckets"
    """Cumulative rate of first tokens by `le`, requests a second."""
    TTFT_SUM = "TTFT sum"
    """Seconds of TTFT a second: divided by the first-token rate, the mean TTFT."""
    ENDED = "ended requests"
    """Requests a second that ended, by `outcome`: `served` or `failed` (rejected included)."""
    WAITING = "waiting requests"
    WAITING_SLOPE = "slope of waiting requests"
    """Requests a second by which the queue grew over the window; negative while it drains."""
    RUNNING = "running requests"
    RUNNING_SLOPE = "slope of running requests"
    KV_USAGE = "KV cache usage"
    """0..1 of the fullest engine."""
    TOKENS = "tokens"
    """Tokens and requests a second, by `TokenPart`, at one moment: a mean is of numbers that belong together."""


class TokenPart(StrEnum):
    """What two means of tokens a request are made of; a mean is over the requests that its own count holds."""

    PROMPT_TOKENS = "prompt tokens"
    PROMPTS = "prompts"
    OUTPUT_TOKENS = "output tokens"
    OUTPUTS = "outputs"


DETECTION = (Signal.AGE, Signal.START_AGE, Signal.SAMPLES)
"""Asked for every family: they say which pods expose it, and whether what they say is current."""

UP_QUERY = 'max by (namespace, pod) (up{pod!=""})'
"""1 where the last scrape of a pod succeeded, 0 where it failed. The same for every family."""

SUPPLEMENTS = frozenset({Signal.TOKENS})
"""What refines a decision that is complete without it: that it is not known says nothing against the other data."""

SERVED, FAILED = "served", "failed"


@dataclass(frozen=True, slots=True)
class Family:
    """Queries of one kind of metrics endpoint. Templates hold `WINDOW` where the rate window goes."""

    name: str
    templates: Mapping[Signal, str]

    def query(self, signal: Signal, window_seconds: float) -> str:
        """The PromQL of one signal."""
        return windowed(self.templates[signal], window_seconds)


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


def labelled(inner: str, label: str, value: str) -> str:
    """The same vector with one more label, so that two vectors can be joined by `or` and stay apart."""
    return f'label_replace({inner}, "{label}", "{value}", "pod", ".*")'


def outcomes(served: str, *failed: str) -> str:
    """Rates of requests that ended, told apart by the label `outcome`."""
    return " or ".join([labelled(served, "outcome", SERVED), *(labelled(one, "outcome", FAILED) for one in failed)])


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


def standard_templates(
    *,
    dimensions: str,
    ttft: str,
    waiting: str,
    running: str,
    ended: str,
    ended_dimensions: str,
    kv_usage: str,
    tokens: Mapping[TokenPart, str],
) -> dict[Signal, str]:
    """Templates of a family with one TTFT histogram `ttft` and two gauges; `ended` carries the label `outcome`.

    `tokens` names a counter for each part.
    """
    parts = " or ".join(labelled(rate(counter), "part", part) for part, counter in tokens.items())
    return {
        Signal.AGE: age(running),
        Signal.START_AGE: start_age(running),
        Signal.SAMPLES: samples(running),
        Signal.FIRST_TOKENS: summed(rate(f"{ttft}_count"), dimensions),
        Signal.TTFT_BUCKETS: summed(rate(f"{ttft}_bucket"), dimensions, by="le"),
        Signal.TTFT_SUM: summed(rate(f"{ttft}_sum"), dimensions),
        Signal.ENDED: summed(ended, ended_dimensions, by="outcome"),
        Signal.WAITING: summed(selector(waiting), dimensions),
        Signal.WAITING_SLOPE: summed(slope(waiting), dimensions),
        Signal.RUNNING: summed(selector(running), dimensions),
        Signal.RUNNING_SLOPE: summed(slope(running), dimensions),
        Signal.KV_USAGE: fullest(kv_usage),
        Signal.TOKENS: summed(parts, dimensions, by="part"),
    }
