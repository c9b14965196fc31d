"""One observation of one source: a fixed number of queries, whatever the number of resources, joined by pod.

First it is asked which pods expose which family; the other signals only of families that were found. Numbers are passed
on as they came; what a query could not answer is kept as a `Failure`. Nothing is judged here.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from firsttoken_operator.domain import Missing, Reason
from firsttoken_operator.families import DETECTION, FAMILIES, SERVED, UP_QUERY, MetricFamily, Signal
from firsttoken_operator.observe.source import MetricsSource, Vector

PodKey = tuple[str, str]
"""Namespace and name of a pod."""

Element = tuple[Mapping[str, str], float]
"""Labels and value."""


@dataclass(frozen=True, slots=True)
class PodSample:
    """Sample of one pod, by signal (units: `Signal`); absent where it has no such series.

    `buckets` maps upper bounds in seconds to the cumulative rate of first tokens, `ended` outcomes to rates, `tokens`
    parts to rates.
    """

    family: str
    values: Mapping[Signal, float] = field(default_factory=dict)
    buckets: Mapping[float, float] = field(default_factory=dict)
    ended: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, float] = field(default_factory=dict)

    @property
    def ended_rate(self) -> float | None:
        """Requests a second that ended in any way."""
        return sum(self.ended.values()) if self.ended else None

    @property
    def failed_rate(self) -> float | None:
        """Requests a second that failed; 0 where the runtime counts ended requests and shows no failure counter."""
        return sum(rate for outcome, rate in self.ended.items() if outcome != SERVED) if self.ended else None


@dataclass(frozen=True, slots=True)
class Failure:
    """A query without a full answer. With `PartialResponse` there was one, and its numbers are kept."""

    family: str
    signal: str
    reason: Reason
    detail: str

    @property
    def hides_pods(self) -> bool:
        """True where pods may have gone unseen because of it."""
        return self.signal in DETECTION and self.reason is not Reason.PARTIAL_RESPONSE


@dataclass(frozen=True, slots=True)
class SourceReading:
    """Everything that a source said at one tick."""

    pods: Mapping[PodKey, PodSample] = field(default_factory=dict)
    up: Mapping[PodKey, float] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    overflowing: frozenset[str] = frozenset()
    """Namespaces of which not everything was read: their pods expose too many series."""


def unavailable(reason: Reason, detail: str) -> SourceReading:
    """The reading of a source that could not be asked at all."""
    return SourceReading(failures=(Failure("", Signal.AGE, reason, detail),))


async def collect(
    source: MetricsSource,
    *,
    window_seconds: float,
    recent_seconds: float,
    families: tuple[MetricFamily, ...] = FAMILIES,
) -> SourceReading:
    """Ask a source everything that one tick needs. Never raises for a failing source."""
    joined = _Joined()
    times = window_seconds, recent_seconds
    detection = [(family, signal) for family in families for signal in DETECTION]
    up, *answers = await asyncio.gather(
        source.query(UP_QUERY),
        *(source.query(family.query(signal, *times)) for family, signal in detection),
    )
    joined.take_up(up)
    for (family, signal), answer in zip(detection, answers, strict=True):
        joined.take(family, signal, answer)
    found = [family for family in families if family.name in joined.found]
    rest = [(family, signal) for family in found for signal in Signal if signal not in DETECTION]
    answers = await asyncio.gather(*(source.query(family.query(signal, *times)) for family, signal in rest))
    for (family, signal), answer in zip(rest, answers, strict=True):
        joined.take(family, signal, answer)
    return joined.reading(family.name for family in families)


Said = tuple[dict[Signal, float], dict[float, float], dict[str, float], dict[str, float]]
"""The values, buckets, outcomes and tokens of one `PodSample`, as they come in."""


class _Joined:
    """Vectors of many queries, joined by family and pod."""

    def __init__(self) -> None:
        self._said: dict[str, dict[PodKey, Said]] = defaultdict(lambda: defaultdict(lambda: ({}, {}, {}, {})))
        self._up: dict[PodKey, float] = {}
        self._failures: list[Failure] = []
        self._overflowing: frozenset[str] = frozenset()

    @property
    def found(self) -> frozenset[str]:
        return frozenset(self._said)

    def take_up(self, answer: Vector | Missing) -> None:
        for labels, value in self._elements("", "up", answer):
            self._up[_pod(labels)] = value

    def take(self, family: MetricFamily, signal: Signal, answer: Vector | Missing) -> None:
        for labels, value in self._elements(family.name, signal, answer):
            values, buckets, ended, tokens = self._said[family.name][_pod(labels)]
            if signal is Signal.TTFT_BUCKETS:
                buckets[_bound(labels)] = value
            elif signal is Signal.ENDED:
                ended[labels.get("outcome", "")] = value
            elif signal is Signal.TOKENS:
                tokens[labels.get("part", "")] = value
            else:
                values[signal] = value

    def _elements(self, family: str, signal: str, answer: Vector | Missing) -> Iterable[Element]:
        if isinstance(answer, Missing):
            self._failures.append(Failure(family, signal, answer.reason, answer.detail))
            return ()
        if answer.warnings:
            self._failures.append(Failure(family, signal, Reason.PARTIAL_RESPONSE, "; ".join(answer.warnings)))
        self._overflowing |= answer.overflowing
        return ((sample.labels, sample.value) for sample in answer.samples)

    def reading(self, order: Iterable[str]) -> SourceReading:
        pods: dict[PodKey, PodSample] = {}
        for family in order:
            for pod, said in self._said[family].items():
                if pod not in pods and said[0]:
                    pods[pod] = PodSample(family, *said)
        return SourceReading(pods, self._up, tuple(self._failures), self._overflowing)


def _pod(labels: Mapping[str, str]) -> PodKey:
    return labels.get("namespace", ""), labels.get("pod", "")


def _bound(labels: Mapping[str, str]) -> float:
    """Upper bound of a bucket in seconds; NaN where the label is no number (`1` and `1.0` are one bound)."""
    try:
        return float(labels.get("le", ""))
    except ValueError:
        return float("nan")
