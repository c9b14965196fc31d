"""Requests that a gateway counted as they came: arrivals without queue arithmetic, and without a single ready pod.

The cluster's administrator names the counter, for each source; one query asks for all deployments. The label that names
a backend holds the name of the scaled Deployment (for `spec.runtime` that of the resource itself). What the gateway
says stands beside what the pods say and is no part of the health of their data: a gateway that is not seen is Missing
here and nowhere else.

NB: a replica of the gateway that is no longer scraped goes unnoticed while another one answers; its requests are then
missing from the sum. A counter that first appears with a request does not show that request: only an increase is seen.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from firsttoken_operator.domain import Measurement, Missing, Reason, Value, measured
from firsttoken_operator.domain.metrics import NO_GATEWAY
from firsttoken_operator.families.promql import since_newest, told_apart, windowed
from firsttoken_operator.observe.freshness import MeasureSettings
from firsttoken_operator.observe.source import MetricsSource

DUPLICATES = "job, prometheus, prometheus_replica"
"""Labels in which two scrapes of one series differ (two jobs, a pair of Prometheus servers): folded, never added up."""

PART = "firsttoken_part"
"""Label that tells the parts of the answer apart."""

NAMESPACE_LABEL = "namespace"
TOO_MANY = Missing(Reason.TOO_MANY_SERIES, "the gateway's counter has more series than are read")

Backend = tuple[str, str]
"""Namespace and name of a Deployment."""


class Part(StrEnum):
    """One number by backend."""

    RATE = "rate"
    """Requests a second."""
    AGE = "age"
    """Seconds since the newest sample, of the series where that is longest ago."""
    START_AGE = "age at window start"
    """Seconds from now back to the newest sample that was there when the rate window began."""
    SAMPLES = "samples"
    """Samples inside the rate window."""


@dataclass(frozen=True, slots=True)
class GatewayCounter:
    """The counter of one source: names of the metric and of the labels, and exact values of further labels."""

    metric: str
    namespace_label: str
    name_label: str
    selector: Mapping[str, str] = field(default_factory=dict)

    @property
    def _series(self) -> str:
        # NB: JSON and PromQL escape strings alike.
        matchers = [f'{self.name_label}!=""', *(f"{label}={json.dumps(v)}" for label, v in self.selector.items())]
        return f"{self.metric}{{{','.join(matchers)}}}"

    @property
    def _by(self) -> str:
        return f"by ({self.namespace_label}, {self.name_label})"

    @property
    def _rate(self) -> str:
        return f"sum {self._by} (max without ({DUPLICATES}) (rate({self._series}[WINDOW])))"

    def arrivals(self, window_seconds: float) -> str:
        """The PromQL of requests a second, for all backends."""
        return windowed(self._rate, window_seconds, window_seconds)

    def backend(self, labels: Mapping[str, str]) -> Backend:
        """The Deployment that an element is about."""
        return labels.get(self.namespace_label, ""), labels.get(self.name_label, "")

    def query(self, window_seconds: float, recent_seconds: float) -> str:
        """The PromQL of all parts, for all backends."""
        series, by = self._series, self._by
        parts = {
            Part.RATE: self._rate,
            Part.AGE: f"max {by} (min without ({DUPLICATES}) ({since_newest(series)}))",
            Part.START_AGE: f"min {by} ({since_newest(series, ' offset WINDOW')})",
            Part.SAMPLES: f"max {by} (count_over_time({series}[WINDOW]))",
        }
        return windowed(told_apart(PART, parts.items()), window_seconds, recent_seconds)


@dataclass(frozen=True, slots=True)
class GatewayReading:
    """Answer of a gateway's counter at one tick, by backend; `failure` where it was not or could not be asked."""

    backends: Mapping[Backend, Mapping[str, float]] = field(default_factory=dict)
    failure: Missing | None = None
    partial: bool = False
    """Prometheus itself calls the answer incomplete."""
    overflowing: frozenset[str] = frozenset()
    """Namespaces with more series than are read: nothing is known of their backends."""


async def ask(source: MetricsSource, counter: GatewayCounter | None, settings: MeasureSettings) -> GatewayReading:
    """Ask a source for its gateway's counter; None: it has none. Never raises for a failing source."""
    if counter is None:
        return GatewayReading(failure=NO_GATEWAY)
    answer = await source.query(counter.query(settings.window_seconds, settings.maximum_age_seconds))
    if isinstance(answer, Missing):
        return GatewayReading(failure=answer)
    if answer.overflowing and counter.namespace_label != NAMESPACE_LABEL:
        # Series are counted by that label; in another one it is not known whose they were.
        return GatewayReading(failure=TOO_MANY)
    backends: dict[Backend, dict[str, float]] = defaultdict(dict)
    for sample in answer.samples:
        backends[counter.backend(sample.labels)][sample.labels.get(PART, "")] = sample.value
    return GatewayReading(backends, partial=bool(answer.warnings), overflowing=answer.overflowing)


def arrivals(reading: GatewayReading, backend: Backend, settings: MeasureSettings) -> Measurement:
    """Requests a second that the gateway counted for one Deployment.

    0 is said only of a counter that is there, is current and covers the window. One that covers a part of it gives a
    lower bound with coverage < 1 where it moved, and nothing where it did not.
    """
    if reading.failure is not None:
        return reading.failure
    if backend[0] in reading.overflowing:
        return TOO_MANY
    parts = reading.backends.get(backend)
    if parts is None:
        return Missing(Reason.NO_SERIES, f"the gateway's counter has no series of {'/'.join(backend)}")
    age = parts.get(Part.AGE, math.nan)
    # NB: an age that is NaN or absent fails the comparison.
    if not abs(age) <= settings.maximum_age_seconds:
        return Missing(Reason.STALE, "the gateway's counter has no current sample")
    if Part.RATE not in parts:
        return Missing(Reason.NOT_ENOUGH_SAMPLES, "the gateway's counter has one sample")
    rate = measured(parts[Part.RATE], abs(age), _coverage(parts, settings, partial=reading.partial))
    if isinstance(rate, Value) and rate.value == 0 and rate.coverage < 1:
        why = Reason.PARTIAL_RESPONSE if reading.partial else Reason.NOT_ENOUGH_SAMPLES
        return Missing(why, "the gateway's counter stands still, but not for the whole window")
    return rate


def _coverage(parts: Mapping[str, float], settings: MeasureSettings, *, partial: bool) -> float:
    """Share of the window that the counter speaks for."""
    most = settings.config.partial_coverage
    count = parts.get(Part.SAMPLES, 0.0)
    count = count if math.isfinite(count) and count > 0 else 0.0
    start = parts.get(Part.START_AGE, math.inf) - settings.window_seconds
    if abs(start) <= settings.maximum_age_seconds and count >= settings.complete_samples:
        return most if partial else 1.0
    return min(most, count / settings.expected_samples)
