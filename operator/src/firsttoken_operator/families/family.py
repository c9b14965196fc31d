"""A metric family: the names that one kind of engine gives to what it publishes, and all that follows from them.

One value a family, one file a value. `observe` asks Prometheus by it for what is (`MetricFamily.query`) and what was
(`observe.history`); the laboratory publishes its `page` from emulated engines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import count, takewhile
from types import MappingProxyType

from firsttoken_operator.families.promql import (
    BOUND,
    age,
    folded,
    fullest,
    layout,
    rate,
    recent,
    samples,
    scaled,
    slope,
    start_age,
    summed,
    told_apart,
    windowed,
)
from firsttoken_operator.families.signals import ARRIVING, BY_BOUND, OUTCOME, PART, SIGNAL, Arrivals, Signal, TokenPart


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
    TAKEN = "Requests whose answer has begun."


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
    values: Mapping[str, str] = field(default_factory=dict)
    """Values of that label by the reason that a request ended for, of a counter that leaves the other reasons out and
    is 0 from the beginning; empty: the reasons themselves, as they come."""
    text: str = ""
    """Help text, where it is not that of the metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Changes on the server's side that mend what is wrong with its metrics, each a clause; empty: there is none."""

    publish: str = ""
    """Change where a server of this kind is scraped and none of its series is there."""
    ttft: str = ""
    """Change that turns the TTFT histogram on, of a server that publishes none as it is installed."""
    buckets: str = ""
    """Change that puts a bucket's bound at a limit; `{limit}` is that limit in the unit of the histogram."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MetricFamily:
    """One family. Expressions are PromQL without their grouping; `WINDOW` in them is the rate window."""

    name: str
    told_by: str
    """Selector of a metric that is there as soon as the server is: a pod that has it is of the family."""
    dimensions: str
    """Labels that tell apart the series of one pod which must be added up."""
    waiting: tuple[str, ...]
    """Selectors of gauges that together are the queue."""
    ended: Mapping[str, str]
    """Rates of requests that ended, by outcome."""
    ended_dimensions: str
    running: str = ""
    """Selector of the gauge of requests that are being worked on; empty: none tells."""
    ttft: str = ""
    """Histogram of the time to the first token; empty: there is none."""
    ttft_unit_seconds: float = 1.0
    """Unit of that histogram: 0.001 where it is in milliseconds."""
    started: str = ""
    """Counter of requests as they come in; empty: there is none."""
    arrivals: Arrivals = Arrivals.FIRST_TOKENS
    """Way that is taken where the signals for it are there; by what ended otherwise."""
    kv_usage: str = ""
    tokens: Mapping[TokenPart, str] = field(default_factory=dict)
    """The counter behind each part: how prompts and outputs are counted; empty: they are not."""
    only_where: str = ""
    """Selector: of the counters of models only those count whose model has it."""
    model_label: str = ""
    """Label that names a model, where one server has several and one of them may call another: one is read."""
    includes: tuple[str, ...] = ()
    """Names of families whose series its servers publish as well."""
    advice: Advice = Advice()
    runtime: str = ""
    """Argument of `firsttoken emulate --runtime`; empty: it is not emulated."""
    page: tuple[Series, ...] = ()
    """Series that one emulated engine publishes, in its order, as far as anything here reads them."""
    page_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of every series of an engine that runs alone, beside the name of its model."""
    kv_labels: Callable[[int], Mapping[str, str]] | None = None
    """Labels of `Metric.KV_CONFIG` for a cache of so many tokens."""

    def series(self, metric: Metric) -> Series:
        """Series in which the family publishes a metric."""
        return next(series for series in self.page if series.metric is metric)

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Signals that it publishes, in their order."""
        return tuple(signal for signal in Signal if signal in _templates(self))

    def queries(self, window_seconds: float, recent_seconds: float) -> tuple[str, ...]:
        """The PromQL of all its `signals`: of its numbers, and of all its buckets where it has a histogram."""
        return tuple(filter(None, (self.numbers(window_seconds, recent_seconds), self.buckets(window_seconds))))

    def numbers(self, window_seconds: float, recent_seconds: float) -> str:
        """The PromQL of one number a pod and signal, by `SIGNAL`; samples are current for `recent_seconds`."""
        return windowed(self._told_apart(by_bound=False), window_seconds, recent_seconds)

    def buckets(self, window_seconds: float, bounds: Collection[str] = ()) -> str:
        """The PromQL of the buckets of its histogram with these bounds; none: with all. Empty: it has no histogram."""
        return windowed(folded(self._told_apart(by_bound=True), bounds), window_seconds, window_seconds)

    def layout(self, window_seconds: float) -> str:
        """The PromQL of the bounds that its histograms have, by `le`; empty: it has none."""
        buckets = layout(f"{self.ttft}_bucket", self.model_label) if self.ttft else ""
        return windowed(buckets, window_seconds, window_seconds)

    def _told_apart(self, *, by_bound: bool) -> str:
        signals = (signal for signal in self.signals if (signal in BY_BOUND) is by_bound)
        return told_apart(SIGNAL, ((signal, _templates(self)[signal]) for signal in signals))

    def arriving(self, window_seconds: float) -> str:
        """The PromQL of requests a second that arrive, by pod, in the family's way; what is not told is left out."""
        kept = ", ".join(filter(None, ("namespace, pod", self.model_label)))
        terms = [(signal, _templates(self).get(signal, "")) for signal in ARRIVING[self.arrivals]]
        # NB: where a server has several models, that of the most requests: one may call another.
        by_pod = ((signal, f"max by (namespace, pod) (sum by ({kept}) ({term}))") for signal, term in terms if term)
        # NB: of its own pods, because another family may publish some of the same series.
        own = f"sum by (namespace, pod) ({told_apart(SIGNAL, by_pod)}) and on (namespace, pod) {self.told_by}"
        return windowed(f"({own})", window_seconds, window_seconds)


def gauge(metric: Metric, name: str) -> Series:
    """A number that goes up and down."""
    return Series(metric, MetricKind.GAUGE, name)


def counter(
    metric: Metric, name: str, label: str = "", text: str = "", values: Mapping[str, str] = MappingProxyType({})
) -> Series:
    """A number that only grows, one for each value of `label`."""
    return Series(metric, MetricKind.COUNTER, name, label=label, text=text, values=values)


def histogram(metric: Metric, name: str, bounds: tuple[float, ...] = ()) -> Series:
    """Cumulative buckets, a sum and a count."""
    return Series(metric, MetricKind.HISTOGRAM, name, bounds)


def token_bounds(largest: int) -> tuple[float, ...]:
    """The 1-2-5 series up to `largest`: 1, 2, 5, 10, 20, 50, ..."""
    series = (float(digit * 10**decade) for decade in count() for digit in (1, 2, 5))
    return tuple(takewhile(lambda bound: bound <= largest, series))


def of_models(family: MetricFamily, rates: str, marked: str) -> str:
    """Rates of the models that count, where the family reads those of some only; `marked` are the series of these."""
    return f"(({rates}) and on (namespace, pod, {family.model_label}) {marked})" if family.only_where else rates


@cache
def _templates(family: MetricFamily) -> Mapping[Signal, str]:
    told_by, dimensions = family.told_by, family.dimensions
    of_pod = ", ".join(name for name in (family.model_label, dimensions) if name)

    def counted(rates: str, labels: str, by: str = "") -> str:
        """Sum of counters of requests: of each model by itself, where one server has several."""
        rates = of_models(family, rates, recent(family.only_where))
        kept = ", ".join(name for name in (family.model_label, by) if name)
        return summed(rates, labels, by=kept)

    ended = {outcome: counted(rates, family.ended_dimensions) for outcome, rates in family.ended.items()}
    found = {
        Signal.AGE: age(told_by),
        Signal.START_AGE: start_age(told_by),
        Signal.SAMPLES: samples(told_by),
        Signal.ENDED: told_apart(OUTCOME, ended.items()),
        Signal.WAITING: " + ".join(summed(recent(series), of_pod) for series in family.waiting),
        Signal.WAITING_SLOPE: " + ".join(summed(slope(series), of_pod) for series in family.waiting),
    }
    if family.started:
        found[Signal.STARTED] = counted(rate(family.started), dimensions)
    if family.ttft:
        found[Signal.FIRST_TOKENS] = counted(rate(f"{family.ttft}_count"), dimensions)
        found[Signal.TTFT_BUCKETS] = counted(rate(f"{family.ttft}_bucket", BOUND), dimensions, by="le")
        found[Signal.TTFT_SUM] = scaled(counted(rate(f"{family.ttft}_sum"), dimensions), family.ttft_unit_seconds)
    if family.running:
        found[Signal.RUNNING] = summed(recent(family.running), of_pod)
        found[Signal.RUNNING_SLOPE] = summed(slope(family.running), of_pod)
    if family.kv_usage:
        found[Signal.KV_USAGE] = fullest(family.kv_usage)
    if family.tokens:
        parts = {part: summed(rate(name), of_pod) for part, name in family.tokens.items()}
        found[Signal.TOKENS] = told_apart(PART, parts.items())
    return found
