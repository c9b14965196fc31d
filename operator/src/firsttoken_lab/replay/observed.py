"""The operator's reading of a simulated fleet: pods as the API server shows them, and what Prometheus answers of each.

Here ends what is simulated. What it means is for `observe.measure` to say, as in a cluster.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firsttoken_lab.replay.exposition import (
    BUCKETS,
    ENDED,
    FIRST_TOKENS,
    OUTPUT_TOKENS,
    PROMPT_TOKENS,
    RUNNING,
    TTFT_SECONDS,
    WAITING,
)
from firsttoken_lab.replay.replicas import Pods, SimulatedPod
from firsttoken_lab.replay.scrape import BOUNDS, MILLISECONDS, Scrape
from firsttoken_operator.domain import Metrics, Reason
from firsttoken_operator.families import FAILED, SERVED, VLLM, Signal, TokenPart
from firsttoken_operator.observe import (
    LivePod,
    MeasureSettings,
    PodSample,
    SourceReading,
    measure,
    unavailable,
)
from firsttoken_operator.observe.bounds import PodKey
from firsttoken_sizing.workload import Limit

Floats = NDArray[np.float64]

_NEAR = 1.1
"""An edge of the range within so many mean intervals of the first or last sample counts as covered."""
_NAMESPACE = "replay"
_SIGNALS = (
    *(Signal.WAITING, Signal.RUNNING, Signal.KV_USAGE, Signal.WAITING_SLOPE, Signal.RUNNING_SLOPE),
    *(Signal.FIRST_TOKENS, Signal.TTFT_SUM),
)
"""Signals that a pod shows; from the first slope on only of one that was scraped twice or more."""
_OUTAGE = unavailable(Reason.SOURCE_UNREACHABLE, "metrics are out")


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """One moment, kept to be read when a policy asks."""

    now_seconds: float
    pods: Pods
    scrapes: Sequence[Scrape] | None
    """None: Prometheus does not answer."""
    limit: Limit | None
    """Limit on TTFT."""
    settings: MeasureSettings

    def metrics(self) -> Metrics:
        """Metrics that the operator would make of it."""
        return measure(self.reading(), self._live_pods(), self.limit, self.settings)

    def reading(self) -> SourceReading:
        """Answer that Prometheus would give, of the pods that live."""
        if self.scrapes is None:
            return _OUTAGE
        end = round(self.now_seconds, MILLISECONDS)
        begin = round(end - self.settings.window_seconds, MILLISECONDS)
        inside = [scrape for scrape in self.scrapes if scrape.at_seconds > begin]
        if not inside:
            return SourceReading()
        before = next((s.at_seconds for s in reversed(self.scrapes) if s.at_seconds <= begin), -math.inf)
        answers: dict[PodKey, PodSample] = {}
        for since, pods in _by_first_sample(inside[-1], before, self.pods.answering).items():
            samples = [scrape for scrape in inside if scrape.at_seconds >= since]
            answers |= _answers(samples, pods, begin, end, None if since > before else end - since)
        return SourceReading(answers, up=dict.fromkeys(answers, 1.0))

    def _live_pods(self) -> list[LivePod]:
        # Condition times are whole seconds.
        return [
            *(LivePod(*_key(pod), None) for pod in self.pods.starting),
            *(
                LivePod(*_key(pod), self.now_seconds - math.floor(pod.ready_at_seconds), terminating)
                for pods, terminating in ((self.pods.serving, False), (self.pods.draining, True))
                for pod in pods
            ),
        ]


def _key(pod: SimulatedPod) -> PodKey:
    return _NAMESPACE, f"replica-{pod.number}"


def _by_first_sample(
    last: Scrape, before_seconds: float, pods: Iterable[SimulatedPod]
) -> dict[float, list[SimulatedPod]]:
    """Pods that were there at the last scrape, by the time of their first sample, or of the last before the window."""
    found: dict[float, list[SimulatedPod]] = defaultdict(list)
    for pod in pods:
        if pod.number in last.since:
            found[max(before_seconds, last.since[pod.number])].append(pod)
    return found


def _answers(
    scrapes: Sequence[Scrape], pods: Sequence[SimulatedPod], begin: float, end: float, start_age: float | None
) -> dict[PodKey, PodSample]:
    """Answer the queries over (begin, end] for the pods that all these scrapes found."""
    slots, at_seconds = np.array([pod.slot for pod in pods]), [scrape.at_seconds for scrape in scrapes]
    known = {Signal.AGE: end - at_seconds[-1], Signal.SAMPLES: float(len(scrapes))}
    if start_age is not None:
        known[Signal.START_AGE] = start_age
    gauges = [scrape.gauges.take(slots, axis=1) for scrape in scrapes]
    if len(scrapes) < 2:
        return {
            _key(pod): PodSample(VLLM.name, known | dict(zip(_SIGNALS, shown, strict=False)))
            for pod, shown in zip(pods, gauges[-1].T.tolist(), strict=True)
        }
    first, last = (scrape.counters.take(slots, axis=1) for scrape in (scrapes[0], scrapes[-1]))
    rates, slopes = rate(at_seconds, first, last, begin, end), deriv(at_seconds, gauges)
    values = np.concatenate((gauges[-1], slopes[[WAITING, RUNNING]], rates[[FIRST_TOKENS, TTFT_SECONDS]]))
    columns = zip(pods, values.T.tolist(), rates.T.tolist(), strict=True)
    return {_key(pod): _sample(known | dict(zip(_SIGNALS, row, strict=True)), counted) for pod, row, counted in columns}


def _sample(values: dict[Signal, float], rates: list[float]) -> PodSample:
    """Sample one pod that was scraped twice or more from its series."""
    return PodSample(
        VLLM.name,
        values,
        buckets=dict(zip(BOUNDS, rates[BUCKETS:], strict=True)),
        ended={SERVED: rates[ENDED], FAILED: 0.0},
        tokens={
            TokenPart.PROMPT_TOKENS: rates[PROMPT_TOKENS],
            TokenPart.PROMPTS: rates[FIRST_TOKENS],
            TokenPart.OUTPUT_TOKENS: rates[OUTPUT_TOKENS],
            TokenPart.OUTPUTS: rates[ENDED],
        },
    )


def rate(at_seconds: Sequence[float], first: Floats, last: Floats, begin_seconds: float, end_seconds: float) -> Floats:
    """Increase a second from begin to end of counters that were never reset; `first`, `last`: their outer samples.

    As `rate()` does it, the increase is extended to the edges of the range where they are near, by half an interval
    where they are not, and never to before the moment at which a counter would have been 0.
    """
    covered = at_seconds[-1] - at_seconds[0]
    interval = covered / (len(at_seconds) - 1)
    before, after = (
        gap if gap < _NEAR * interval else interval / 2
        for gap in (at_seconds[0] - begin_seconds, end_seconds - at_seconds[-1])
    )
    increase = last - first
    extended = increase * (1 + after / covered) + np.minimum(increase * (before / covered), first)
    rates: Floats = extended / (end_seconds - begin_seconds)
    return rates


def deriv(at_seconds: Sequence[float], samples: Sequence[Floats]) -> Floats:
    """Least-squares slope a second of gauges, as `deriv()`."""
    mean = sum(at_seconds) / len(at_seconds)
    from_mean = np.array([at - mean for at in at_seconds])
    weights = from_mean / from_mean.dot(from_mean)
    slopes: Floats = weights.dot(np.array(samples).reshape(len(weights), -1)).reshape(samples[0].shape)
    return slopes
