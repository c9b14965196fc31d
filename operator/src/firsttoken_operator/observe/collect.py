"""One observation of one source: a fixed number of queries, whatever the number of resources, joined by pod.

First it is asked which pods expose which family; the other signals only of families that were found. Numbers are passed
on as they came; what a query could not answer is kept as a `Failure`. Nothing is judged here.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from firsttoken_operator.domain import Missing, Reason
from firsttoken_operator.families import (
    DETECTION,
    FAMILIES,
    SERVED,
    SYMPTOM,
    UP_QUERY,
    MetricFamily,
    Signal,
    symptoms_query,
)
from firsttoken_operator.observe.containment import Shares
from firsttoken_operator.observe.source import MetricsSource, Vector

PodKey = tuple[str, str]
"""Namespace and name of a pod."""

Element = tuple[PodKey, Mapping[str, str], float]
"""Pod, labels and value."""

UP = "up"
UNKNOWN_POD: PodKey = ("", "")
"""Stands for the pods of series that name none."""
POD_BYTES, NUMBER_BYTES = 800, 100
"""Memory for the first number of a pod, and for each further one."""


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
    models: Mapping[str, PodSample] = field(default_factory=dict)
    """Counters of each model by itself, where a server has several; they are not in the fields above."""
    others: tuple[str, ...] = ()
    """Further families that the pod exposes, beside those that servers of its own publish as well."""

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
    symptoms: Mapping[PodKey, frozenset[str]] = field(default_factory=dict)
    """Signs of how pods are scraped (`families.SYMPTOMS`), by pod."""


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

    async def ask_up() -> None:
        joined.take_up(await source.query(UP_QUERY))

    async def ask_symptoms() -> None:
        joined.take_symptoms(await source.query(symptoms_query(families)))

    async def ask(family: MetricFamily, signal: Signal) -> None:
        joined.take(family, signal, await source.query(family.query(signal, *times)))

    # NB: each answer is joined as it comes: one that waits for all others takes several times the memory.
    detecting = (ask(family, signal) for family in families for signal in DETECTION)
    await asyncio.gather(ask_up(), ask_symptoms(), *detecting)
    found = [family for family in families if family.name in joined.found]
    questions = [(family, signal) for family in found for signal in family.signals if signal not in DETECTED]
    await asyncio.gather(*(ask(family, signal) for family, signal in questions))
    return joined.reading(families)


DETECTED = frozenset(DETECTION)

SaidOfPod = tuple[dict[Signal, float], dict[float, float], dict[str, float], dict[str, float]]
"""The values, buckets, outcomes and tokens of one `PodSample`, as they come in."""


class _Joined:
    """Vectors of many queries, joined by family and pod."""

    def __init__(self) -> None:
        self._said: dict[str, dict[PodKey, SaidOfPod]] = defaultdict(lambda: defaultdict(_nothing_said))
        self._models: dict[str, dict[PodKey, dict[str, SaidOfPod]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(_nothing_said))
        )
        self._up: dict[PodKey, float] = {}
        self._symptoms: dict[PodKey, set[str]] = defaultdict(set)
        self._failures: list[Failure] = []
        self._shares = Shares()

    @property
    def found(self) -> frozenset[str]:
        return frozenset(self._said)

    def take_up(self, answer: Vector | Missing) -> None:
        for pod, _, value in self._elements("", UP, answer):
            self._up[pod] = value
            self._count(pod, POD_BYTES)

    def take_symptoms(self, answer: Vector | Missing) -> None:
        # NB: what explains is no part of the health: without an answer the same is said with fewer words.
        for sample in () if isinstance(answer, Missing) else answer.samples:
            pod = _pod(sample.labels)
            self._symptoms[pod].add(sample.labels.get(SYMPTOM, ""))
            self._count(pod, POD_BYTES)

    def take(self, family: MetricFamily, signal: Signal, answer: Vector | Missing) -> None:
        for pod, labels, value in self._elements(family.name, signal, answer):
            said: dict[Any, SaidOfPod] = self._said[family.name]
            of: PodKey | str = pod
            if (model := labels.get(family.model_label)) and family.model_label:
                said, of = self._models[family.name][pod], model
            size = NUMBER_BYTES if of in said else POD_BYTES
            values, buckets, ended, tokens = said[of]
            if signal is Signal.TTFT_BUCKETS:
                buckets[family.ttft_unit_seconds * _bound(labels)] = value
            elif signal is Signal.ENDED:
                ended[labels.get("outcome", "")] = value
            elif signal is Signal.TOKENS:
                tokens[labels.get("part", "")] = value
            else:
                values[signal] = value
            self._count(pod, size)

    def reading(self, order: Sequence[MetricFamily]) -> SourceReading:
        pods: dict[PodKey, PodSample] = {}
        others: dict[PodKey, list[MetricFamily]] = defaultdict(list)
        for family in order:
            models = self._models[family.name]
            for pod, said in self._said[family.name].items():
                if DETECTED.isdisjoint(said[0]):
                    continue  # A family that publishes some of this one's series, under the same names.
                if pod in pods:
                    others[pod].append(family)
                else:
                    each = {model: PodSample(family.name, *of) for model, of in models.get(pod, {}).items()}
                    pods[pod] = PodSample(family.name, *said, models=each)
        included = {family.name: family.includes for family in order}
        for pod, more in others.items():
            beside = tuple(family.name for family in more if family.name not in included[pods[pod].family])
            if beside:
                pods[pod] = replace(pods[pod], others=beside)
        names = [family.name for family in order]
        places = {place: number for number, place in enumerate(product((UP, *Signal), ("", *names)))}
        failures = sorted(self._failures, key=lambda failure: places[failure.signal, failure.family])
        symptoms = {pod: frozenset(signs) for pod, signs in self._symptoms.items()}
        return SourceReading(pods, self._up, tuple(failures), frozenset(self._shares.overflowing), symptoms)

    def _elements(self, family: str, signal: str, answer: Vector | Missing) -> Iterable[Element]:
        if isinstance(answer, Missing):
            self._failures.append(Failure(family, signal, answer.reason, answer.detail))
            return
        if answer.warnings:
            self._failures.append(Failure(family, signal, Reason.PARTIAL_RESPONSE, "; ".join(answer.warnings)))
        self._shares.drop(answer.overflowing)
        self._forget(answer.overflowing)
        for sample in answer.samples:
            pod = _pod(sample.labels)
            if pod[0] not in self._shares.overflowing:
                yield pod, sample.labels, sample.value

    def _count(self, pod: PodKey, size: int) -> None:
        self._forget(self._shares.add(pod[0], size))

    def _forget(self, namespaces: Collection[str]) -> None:
        pods: list[dict[PodKey, Any]] = []
        if namespaces:
            pods = [self._up, self._symptoms, *self._said.values(), *self._models.values()]
        for known in pods:
            for pod in [pod for pod in known if pod[0] in namespaces]:
                del known[pod]


def _nothing_said() -> SaidOfPod:
    return {}, {}, {}, {}


def _pod(labels: Mapping[str, str]) -> PodKey:
    return labels.get("namespace", ""), labels.get("pod", "")


def _bound(labels: Mapping[str, str]) -> float:
    """Upper bound of a bucket in seconds; NaN where the label is no number (`1` and `1.0` are one bound)."""
    try:
        return float(labels.get("le", ""))
    except ValueError:
        return float("nan")
