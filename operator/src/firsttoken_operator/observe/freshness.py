"""Trust in each pod of a resource right now, before any of its numbers is read.

A pod that has been Ready for less than one window is not asked to prove anything; every other ready pod is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from firsttoken_operator.families import Signal
from firsttoken_operator.observe.bounds import PodKey
from firsttoken_operator.observe.collect import PodSample, SourceReading
from firsttoken_operator.observe.config import DEFAULT, ObserveConfig


@dataclass(frozen=True)
class MeasureSettings:
    """Times that say what is current and what is complete, already divided by the time scale.

    The times of the config are not divided: they are Prometheus' and Kubernetes' own.
    NB: without slots, so that what follows from the times is computed once and not for every pod.
    """

    window_seconds: float
    scrape_interval_seconds: float
    config: ObserveConfig = DEFAULT

    @cached_property
    def maximum_age_seconds(self) -> float:
        """A sample older than this is stale: two scrapes were missed."""
        law = self.config.freshness
        return law.stale_after_scrapes * self.scrape_interval_seconds + law.margin_seconds

    @cached_property
    def longest_gap_seconds(self) -> float:
        """Between samples of a pod that answers, where two scrapes in a row failed: a busy engine is slow to answer."""
        return self.maximum_age_seconds + self.scrape_interval_seconds

    @cached_property
    def overdue_age_seconds(self) -> float:
        """With an older sample the last scrape failed, or did not come."""
        law = self.config.freshness
        return law.overdue_after_scrapes * self.scrape_interval_seconds + law.margin_seconds

    @cached_property
    def expected_samples(self) -> float:
        """Samples of a full window."""
        return self.window_seconds / self.scrape_interval_seconds

    @cached_property
    def complete_samples(self) -> int:
        """Samples that a window needs after its start."""
        law = self.config.freshness
        return max(law.least_samples, math.ceil(law.complete_share * math.floor(self.expected_samples)))

    @cached_property
    def warm_up_seconds(self) -> float:
        """Time after Ready that a pod needs to fill its first window."""
        law = self.config.freshness
        unknown_seconds = law.discovery_seconds + law.timestamp_resolution_seconds
        return self.window_seconds + self.scrape_interval_seconds + unknown_seconds


@dataclass(frozen=True, slots=True)
class LivePod:
    """A pod in the live owner chain of a target. `ready_seconds`: for how long it has been Ready; None: it is not."""

    namespace: str
    name: str
    ready_seconds: float | None
    terminating: bool = False


class Trust(IntEnum):
    """Worth of a pod's samples; higher is better."""

    LOST = 0
    """No sample now or in the window, or its scrapes fail."""
    STALE = 1
    """There are samples, none of them current."""
    SHORT = 2
    """Current, but the window is not filled: rates are too low."""
    COMPLETE = 3


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A live pod, what it said, and how far to believe it."""

    pod: LivePod
    sample: PodSample
    trust: Trust
    up: bool
    overdue: bool
    """Its newest scrape failed or is late: the numbers are of before."""
    warming: bool
    filled: float
    """Share of the window that its samples cover, 0..1."""
    scalable: bool
    """True where these are enough to scale its rates to a whole window."""
    served: float
    """Share of the fleet's service in the window for which it was Ready, 0..1; below 1 it took over from older pods."""

    @property
    def key(self) -> PodKey:
        """Namespace and name."""
        return self.pod.namespace, self.pod.name

    @property
    def current(self) -> bool:
        """True where its numbers may be used at all."""
        return self.trust >= Trust.SHORT

    @property
    def ready(self) -> bool:
        """True where it takes traffic."""
        return self.pod.ready_seconds is not None and not self.pod.terminating

    @property
    def required(self) -> bool:
        """True where data without it is partial: it takes traffic and had the time to report."""
        return self.ready and not self.warming


NOTHING = PodSample(family="")


def look_at(reading: SourceReading, pods: Iterable[LivePod], settings: MeasureSettings) -> tuple[SeenPod, ...]:
    """Join live pods to what they said. Series of other pods (deleted ones, look-alikes) are left behind."""
    pods = tuple(pods)
    oldest = max((_service_seconds(pod, settings) for pod in pods), default=0.0)
    return tuple(_seen(reading, pod, oldest, settings) for pod in pods)


def _service_seconds(pod: LivePod, settings: MeasureSettings) -> float:
    """Part of the window for which a pod has been Ready for certain."""
    certain_seconds = (pod.ready_seconds or 0.0) - settings.config.freshness.timestamp_resolution_seconds
    return min(settings.window_seconds, max(0.0, certain_seconds))


def _seen(reading: SourceReading, pod: LivePod, oldest_seconds: float, settings: MeasureSettings) -> SeenPod:
    key = (pod.namespace, pod.name)
    sample = reading.pods.get(key, NOTHING)
    up = reading.up.get(key)
    age = sample.values.get(Signal.AGE, math.nan)
    count = sample.values.get(Signal.SAMPLES, 0.0)
    count = count if math.isfinite(count) and count > 0 else 0.0
    return SeenPod(
        pod=pod,
        sample=sample,
        trust=_trust(sample, up, count, settings),
        up=up == 1,
        overdue=up == 0 or abs(age) > settings.overdue_age_seconds,
        warming=pod.ready_seconds is not None and pod.ready_seconds < settings.warm_up_seconds,
        filled=min(1.0, count / settings.expected_samples),
        scalable=count >= settings.config.freshness.least_scaled_samples,
        served=_service_seconds(pod, settings) / oldest_seconds if oldest_seconds else 1.0,
    )


def _trust(sample: PodSample, up: float | None, count: float, settings: MeasureSettings) -> Trust:
    age = sample.values.get(Signal.AGE)
    # NB: an age that is NaN fails the comparison; one below zero means Prometheus was given samples of the future.
    start = sample.values.get(Signal.START_AGE, math.inf) - settings.window_seconds
    is_filled = abs(start) <= settings.longest_gap_seconds and count >= settings.complete_samples
    if age is not None and up != 0 and abs(age) <= settings.maximum_age_seconds:
        return Trust.COMPLETE if is_filled else Trust.SHORT
    if age is not None and up == 0 and is_filled and abs(age) <= settings.longest_gap_seconds:
        return Trust.COMPLETE
    if up != 0 and (age is not None or count):
        return Trust.STALE
    return Trust.LOST
