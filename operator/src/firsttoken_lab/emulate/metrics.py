"""The metrics page of one emulated pod, with the names, labels and buckets of its family.

It is fed by engine events (`Observer`), never sampled, so sums and counts are exact. What engines publish beyond
the pages of `firsttoken_operator.families` (process, garbage collection, prefix-cache and scheduler internals) is left
out: nothing of the product reads it.
"""

from __future__ import annotations

from collections.abc import Mapping

from firsttoken_lab.emulate.exposition import Histogram, Instrument, LabelledCounter, Scalar, render
from firsttoken_operator.families import Metric, MetricFamily, MetricKind, Series, token_bounds
from firsttoken_sizing.simulation.online import OnlineReplica
from firsttoken_sizing.simulation.online_requests import Request

_WELL = ("stop", "length")
"""Finish reasons of requests that succeeded."""


class PodMetrics:
    """Listens to one engine and renders its page. Attach the engine before the first `page`.

    Counts what the family publishes; the rest of what happens goes unseen.
    """

    def __init__(
        self,
        family: MetricFamily,
        model_name: str,
        *,
        max_requests: int,
        kv_tokens: int | None,
        max_model_tokens: int,
        tells_ttft: bool = True,
    ) -> None:
        """The metrics of a fresh pod. `max_model_tokens`: the context window."""
        self.engine: OnlineReplica | None = None
        self.instruments: list[Instrument] = []
        self._scalars: dict[Metric, Scalar] = {}
        self.histograms: dict[Metric, Histogram] = {}
        self._finished: LabelledCounter | None = None
        self._ttft_units = 1.0 / family.ttft_unit_seconds
        labels = {family.model_label or "model_name": model_name, **family.page_labels}
        window = token_bounds(max_model_tokens)
        for series in family.page:
            if series.metric is Metric.TTFT and not tells_ttft:
                continue
            if series.metric is not Metric.KV_CONFIG:
                self._publish(series, labels, window)
            elif family.kv_labels is not None and kv_tokens is not None:
                self._publish(series, {**labels, **family.kv_labels(kv_tokens)}, window)
        self._set(Metric.MAX_RUNNING, max_requests)
        self._set(Metric.KV_CONFIG, 1)

    def prefilled(self, request: Request) -> None:
        """Count a first token, and the cached part of its prompt."""
        self._add(Metric.TAKEN, 1)
        self._add(Metric.PROMPT_TOKENS, request.input)
        self._add(Metric.CACHED_PROMPT_TOKENS, request.cached)
        self._add(Metric.GENERATION_TOKENS, 1)
        self._observe(Metric.TTFT, request.ttft_seconds * self._ttft_units)

    def decoded(self, steps: int, requests: int, first_seconds: float, growth_seconds: float) -> None:
        """Count one token a step and request; the step's duration is the time between two tokens of each."""
        self._add(Metric.GENERATION_TOKENS, steps * requests)
        if (itl := self.histograms.get(Metric.ITL)) is not None:
            itl.observe_series(first_seconds, growth_seconds, steps, requests)

    def finished(self, request: Request) -> None:
        """Count a request that left by its finish reason, and split its time into queue, prefill and decode.

        Where a request counts from its first token on, its end is none, also where it is broken off.
        """
        if not (request.output and Metric.TAKEN in self._scalars):
            self.count_finish(request.finish_reason)
        if request.is_aborted:
            return
        self._observe(Metric.END_TO_END, request.end_to_end_seconds)
        self._observe(Metric.REQUEST_PROMPT_TOKENS, request.input)
        self._observe(Metric.REQUEST_GENERATION_TOKENS, request.output)
        self._observe(Metric.QUEUE_TIME, request.admitted - request.arrival)
        self._observe(Metric.PREFILL_TIME, request.first_token - request.admitted)
        self._observe(Metric.DECODE_TIME, request.finish - request.first_token)
        self._observe(Metric.INFERENCE_TIME, request.finish - request.admitted)
        if (itl_seconds := request.itl_seconds) is not None:
            self._observe(Metric.REQUEST_ITL, itl_seconds)

    def count_finish(self, reason: str) -> None:
        """Count one finished request under `reason` (`length`, `stop`, `abort`, `error`)."""
        if self._finished is not None:
            self._finished.increment(reason)
        self._add(Metric.SUCCEEDED if reason in _WELL else Metric.FAILED, 1)

    def page(self) -> bytes:
        """The metrics page at the engine's present time."""
        if self.engine is not None:
            self.engine.report()
            self._set(Metric.RUNNING, self.engine.running)
            self._set(Metric.WAITING, self.engine.waiting)
            self._set(Metric.KV_USAGE, self.engine.kv_usage)
            self._set(Metric.PREEMPTIONS, self.engine.preemptions)
        return render(self.instruments)

    def _publish(self, series: Series, labels: Mapping[str, str], window: tuple[float, ...]) -> None:
        text = series.text or series.metric.value
        instrument: Instrument
        if series.kind is MetricKind.HISTOGRAM:
            bounds = series.bounds or window
            instrument = self.histograms[series.metric] = Histogram(series.name, text, labels, bounds)
        elif series.label:
            instrument = self._finished = LabelledCounter(series.name, text, labels, series.label, series.values)
        else:
            instrument = self._scalars[series.metric] = Scalar(series.kind, series.name, text, labels)
        self.instruments.append(instrument)

    def _set(self, metric: Metric, value: float) -> None:
        if (scalar := self._scalars.get(metric)) is not None:
            scalar.value = value

    def _add(self, metric: Metric, value: float) -> None:
        if (scalar := self._scalars.get(metric)) is not None:
            scalar.value += value

    def _observe(self, metric: Metric, value: float) -> None:
        if (histogram := self.histograms.get(metric)) is not None:
            histogram.observe(value)
