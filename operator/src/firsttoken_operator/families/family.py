"""A metric family: the names that one kind of engine gives to what it publishes, and all that follows from them.

One value a family, one file a value. `observe` asks Prometheus by it for what is (`MetricFamily.query`) and what was
(`observe.history`); the laboratory publishes its `page` from emulated engines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import count, takewhile

from firsttoken_operator.families.promql import (
    BOUND,
    age,
    fullest,
    rate,
    recent,
    samples,
    selector,
    slope,
    start_age,
    summed,
    told_apart,
    windowed,
)
from firsttoken_operator.families.signals import Signal, TokenPart


class Metric(StrEnum):
    """Metric that an engine publishes of itself, whatever it calls it; the value is the help text."""

    RUNNING = "Requests in the batch."
    WAITING = "Requests that wait for the batch."
    MAX_RUNNING = "Most requests in the batch."
    KV_USAGE = "Share of the KV cache in use, 0 to 1."
    KV_CONFIG = "Size of the KV cache."
    """The number is 1, the sizes are in labels."""
    PREEMPTIONS = "Requests pushed out of the batch."
    PROMPT_TOKENS = "Prompt tokens computed."
    CACHED_PROMPT_TOKENS = "Prompt tokens found in the cache."
    GENERATION_TOKENS = "Output tokens emitted."
    TTFT = "Arrival to first token."
    ITL = "Time between two tokens."
    REQUEST_ITL = "Mean ITL of a request."
    END_TO_END = "Arrival to last token."
    QUEUE_TIME = "Arrival to the first step."
    INFERENCE_TIME = "First step to last token."
    PREFILL_TIME = "First step to first token."
    DECODE_TIME = "First token to last token."
    REQUEST_PROMPT_TOKENS = "Prompt tokens a request."
    REQUEST_GENERATION_TOKENS = "Output tokens a request."
    FINISHED = "Finished requests by reason."
    SUCCEEDED = "Requests that ended well."
    FAILED = "Requests that failed."


class MetricKind(StrEnum):
    """Kinds of the Prometheus text format."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of a page."""

    metric: Metric
    kind: MetricKind
    name: str
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram. Without any: 1-2-5 numbers of tokens up to the context window."""
    label: str = ""
    """A label with several values, beside those of the page."""
    text: str = ""
    """Help text, where it is not that of the metric."""


@dataclass(frozen=True, slots=True, eq=False)
class MetricFamily:
    """One family. Expressions are PromQL without their grouping; `WINDOW` in them is the rate window."""

    name: str
    runtime: str
    """Argument of `firsttoken emulate --runtime`."""
    page: tuple[Series, ...]
    """Series that one engine publishes, in its order, as far as anything here reads them."""
    dimensions: str
    """Labels that tell apart the series of one pod which must be added up."""
    ended: Mapping[str, str]
    """Rates of requests that ended, by outcome."""
    ended_dimensions: str
    kv_usage: str
    tokens: Mapping[TokenPart, str]
    """The counter behind each part: how prompts and outputs are counted."""
    page_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of every series of an engine that runs alone, beside `model_name`."""
    kv_labels: Callable[[int], Mapping[str, str]] | None = None
    """Labels of `Metric.KV_CONFIG` for a cache of so many tokens."""

    def series(self, metric: Metric) -> Series:
        """Series in which the family publishes a metric."""
        return next(series for series in self.page if series.metric is metric)

    def query(self, signal: Signal, window_seconds: float, recent_seconds: float) -> str:
        """The PromQL of one signal; samples are current for `recent_seconds`."""
        return windowed(_templates(self)[signal], window_seconds, recent_seconds)


def gauge(metric: Metric, name: str) -> Series:
    """A number that goes up and down."""
    return Series(metric, MetricKind.GAUGE, name)


def counter(metric: Metric, name: str, label: str = "", text: str = "") -> Series:
    """A number that only grows, one for each value of `label`."""
    return Series(metric, MetricKind.COUNTER, name, label=label, text=text)


def histogram(metric: Metric, name: str, bounds: tuple[float, ...] = ()) -> Series:
    """Cumulative buckets, a sum and a count."""
    return Series(metric, MetricKind.HISTOGRAM, name, bounds)


def token_bounds(largest: int) -> tuple[float, ...]:
    """The 1-2-5 series up to `largest`: 1, 2, 5, 10, 20, 50, ..."""
    series = (float(digit * 10**decade) for decade in count() for digit in (1, 2, 5))
    return tuple(takewhile(lambda bound: bound <= largest, series))


@cache
def _templates(family: MetricFamily) -> Mapping[Signal, str]:
    ttft, waiting, running = (family.series(m).name for m in (Metric.TTFT, Metric.WAITING, Metric.RUNNING))
    dimensions = family.dimensions
    ended = {outcome: summed(rates, family.ended_dimensions) for outcome, rates in family.ended.items()}
    parts = {part: summed(rate(name), dimensions) for part, name in family.tokens.items()}
    return {
        Signal.AGE: age(running),
        Signal.START_AGE: start_age(running),
        Signal.SAMPLES: samples(running),
        Signal.FIRST_TOKENS: summed(rate(f"{ttft}_count"), dimensions),
        Signal.TTFT_BUCKETS: summed(rate(f"{ttft}_bucket", BOUND), dimensions, by="le"),
        Signal.TTFT_SUM: summed(rate(f"{ttft}_sum"), dimensions),
        Signal.ENDED: told_apart("outcome", ended.items()),
        Signal.WAITING: summed(recent(selector(waiting)), dimensions),
        Signal.WAITING_SLOPE: summed(slope(waiting), dimensions),
        Signal.RUNNING: summed(recent(selector(running)), dimensions),
        Signal.RUNNING_SLOPE: summed(slope(running), dimensions),
        Signal.KV_USAGE: fullest(family.kv_usage),
        Signal.TOKENS: told_apart("part", parts.items()),
    }
