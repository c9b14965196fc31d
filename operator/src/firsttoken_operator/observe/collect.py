"""Observation of one source: two queries a family that is there, whatever the number of resources, joined by pod.

One more says which families there are and which pods are up; how pods are scraped, and which bounds their histograms
have, is asked once a window. Of those bounds only the ones around the limits are asked for (`bounds`). Numbers are
passed on as they came; what a query could not answer is kept as a `Failure`. Nothing is judged here.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from firsttoken_operator.domain import Missing, Reason
from firsttoken_operator.families import (
    FAMILIES,
    FAMILY,
    FRESHNESS,
    OUTCOME,
    PART,
    SERVED,
    SIGNAL,
    SYMPTOM,
    MetricFamily,
    Signal,
    overview_query,
    symptoms_query,
)
from firsttoken_operator.observe.bounds import KnownBounds, PodKey, around, seconds_of
from firsttoken_operator.observe.containment import Shares
from firsttoken_operator.observe.source import MetricsSource, Vector
from firsttoken_sizing.workload import Limit

Element = tuple[PodKey, Mapping[str, str], float]
"""Pod, labels and value."""

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
    """A query without a full answer, by its family; "": the one about all. With `PartialResponse` numbers are kept."""

    family: str
    reason: Reason
    detail: str

    @property
    def hides_pods(self) -> bool:
        """True where pods may have gone unseen because of it."""
        return self.reason is not Reason.PARTIAL_RESPONSE


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
    ttft_seconds: frozenset[float] | None = None
    """Times to the first token around which buckets were asked for; None: all buckets were."""
    newcomers: frozenset[PodKey] = frozenset()
    """Pods that came after it was asked which bounds there are: their own may be others."""

    def tells_late(self, limit: Limit | None, pods: Iterable[PodKey]) -> bool:
        """Tell whether the buckets of these pods around the limit are those that were asked for."""
        times = self.ttft_seconds
        return times is None or (seconds_of([limit]) <= times and self.newcomers.isdisjoint(pods))


def unavailable(reason: Reason, detail: str) -> SourceReading:
    """The reading of a source that could not be asked at all."""
    return SourceReading(failures=(Failure("", reason, detail),))


class Collector:
    """Observations of a source, one after the other. `clock` is monotonic seconds, as undivided as the window is."""

    def __init__(
        self,
        source: MetricsSource,
        *,
        window_seconds: float,
        recent_seconds: float,
        families: tuple[MetricFamily, ...] = FAMILIES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._families = families
        self._window_seconds, self._recent_seconds = window_seconds, recent_seconds
        self._clock = clock
        self._present: frozenset[str] = frozenset()
        """Families that there were last: they are asked for without waiting to hear that they still are."""
        self._symptoms: Mapping[PodKey, frozenset[str]] = {}
        self._symptoms_due_seconds = -math.inf
        self._bounds: dict[str, KnownBounds] = {}

    @property
    def present(self) -> tuple[MetricFamily, ...]:
        """Families that there were at the last observation."""
        return tuple(family for family in self._families if family.name in self._present)

    async def read(self, ttft_seconds: frozenset[float] | None = None) -> SourceReading:
        """Ask everything that one tick needs. Never raises for a failing source.

        `ttft_seconds`: times to the first token around which buckets are needed (`seconds_of`); None: all of them.
        """
        joined = _Joined()
        await asyncio.gather(
            self._ask_overview(joined), self._ask_symptoms(), *self._ask_families(joined, self._present, ttft_seconds)
        )
        # NB: where it is not known which there are, those of before are as good as any.
        there = self._present if joined.present is None else joined.present
        await asyncio.gather(*self._ask_families(joined, there - self._present, ttft_seconds))
        self._present = there
        self._bounds = {name: known for name, known in self._bounds.items() if name in there}
        reading = joined.reading(self._families, self._symptoms)
        return replace(reading, ttft_seconds=ttft_seconds, newcomers=self._newcomers(reading))

    def _newcomers(self, reading: SourceReading) -> frozenset[PodKey]:
        """Pods that came after their family's bounds were asked for, which they are at the next observation again."""
        new = set[PodKey]()
        for name, known in self._bounds.items():
            pods = frozenset(pod for pod, sample in reading.pods.items() if sample.family == name)
            new |= known.came(pods)
            self._bounds[name] = known.after(pods)
        return frozenset(new)

    def _ask_families(
        self, joined: _Joined, names: Collection[str], ttft_seconds: Collection[float] | None
    ) -> list[Coroutine[Any, Any, None]]:
        there = [family for family in self._families if family.name in names]
        asked = [self._ask_numbers(joined, family) for family in there]
        return [*asked, *(self._ask_buckets(joined, family, ttft_seconds) for family in there if family.ttft)]

    # NB: each answer is joined as it comes: one that waits for all others takes several times the memory.
    async def _ask_numbers(self, joined: _Joined, family: MetricFamily) -> None:
        joined.take(family, await self._source.query(family.numbers(self._window_seconds, self._recent_seconds)))

    async def _ask_buckets(self, joined: _Joined, family: MetricFamily, ttft_seconds: Collection[float] | None) -> None:
        layout = await self._layout(family) if ttft_seconds is not None else {}
        if isinstance(layout, Missing):
            # NB: not asked once more: a source that hangs would hold up the tick for twice as long.
            joined.take(family, layout)
            return
        kept = around(layout, ttft_seconds or (), family.ttft_unit_seconds)
        joined.take(family, await self._source.query(family.buckets(self._window_seconds, kept)))

    async def _layout(self, family: MetricFamily) -> Mapping[str, float] | Missing:
        """Number of histograms by bound; empty: it is not known; `Missing` where the source does not answer."""
        now, known = self._clock(), self._bounds.get(family.name)
        if known is not None and now < known.due_seconds:
            return known.layout
        self._bounds.pop(family.name, None)
        answer = await self._source.query(family.layout(self._window_seconds))
        if isinstance(answer, Missing):
            return answer if answer.reason is Reason.SOURCE_UNREACHABLE else {}
        # NB: with more bounds than are read it is not known which there are.
        layout = {} if answer.overflowing else {s.labels.get("le", ""): s.value for s in answer.samples}
        self._bounds[family.name] = KnownBounds(layout, now + self._window_seconds)
        return layout

    async def _ask_overview(self, joined: _Joined) -> None:
        joined.take_overview(await self._source.query(overview_query(self._families, self._window_seconds)))

    async def _ask_symptoms(self) -> None:
        """Ask how pods are scraped, which explains and decides nothing: without it the same is said in fewer words."""
        now = self._clock()
        if now < self._symptoms_due_seconds:
            return
        self._symptoms_due_seconds = now + self._window_seconds
        answer = await self._source.query(symptoms_query(self._families))
        if not isinstance(answer, Missing):
            self._symptoms = _by_pod(answer)


_FRESHNESS = frozenset(FRESHNESS)
_SIGNALS = {signal.value: signal for signal in Signal}

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
        self.present: frozenset[str] | None = None
        """Families that there are; None: it is not known. What is said of them has no namespace."""
        self._failures: list[Failure] = []
        self._shares = Shares()

    def take_overview(self, answer: Vector | Missing) -> None:
        present = set[str]()
        for pod, labels, value in self._elements("", answer):
            if FAMILY in labels:
                present.add(labels[FAMILY])
            else:
                self._up[pod] = value
                self._count(pod, POD_BYTES)
        if not isinstance(answer, Missing) and "" not in self._shares.overflowing:
            self.present = frozenset(present)

    def take(self, family: MetricFamily, answer: Vector | Missing) -> None:
        unit, models = family.ttft_unit_seconds, family.model_label
        for pod, labels, value in self._elements(family.name, answer):
            signal = _SIGNALS.get(labels.get(SIGNAL, ""))
            if signal is None:
                continue
            said: dict[Any, SaidOfPod] = self._said[family.name]
            of: PodKey | str = pod
            if models and (model := labels.get(models)):
                said, of = self._models[family.name][pod], model
            size = NUMBER_BYTES if of in said else POD_BYTES
            values, buckets, ended, tokens = said[of]
            if signal is Signal.TTFT_BUCKETS:
                buckets[unit * _bound(labels)] = value
            elif signal is Signal.ENDED:
                ended[labels.get(OUTCOME, "")] = value
            elif signal is Signal.TOKENS:
                tokens[labels.get(PART, "")] = value
            else:
                values[signal] = value
            self._count(pod, size)

    def reading(self, order: Sequence[MetricFamily], symptoms: Mapping[PodKey, frozenset[str]]) -> SourceReading:
        pods: dict[PodKey, PodSample] = {}
        others: dict[PodKey, list[MetricFamily]] = defaultdict(list)
        for family in order:
            models = self._models[family.name]
            for pod, said in self._said[family.name].items():
                if _FRESHNESS.isdisjoint(said[0]):
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
        places = {name: place for place, name in enumerate(["", *(family.name for family in order)])}
        failures = tuple(sorted(self._failures, key=lambda failure: places[failure.family]))
        return SourceReading(pods, self._up, failures, frozenset(self._shares.overflowing), symptoms)

    def _elements(self, family: str, answer: Vector | Missing) -> Iterable[Element]:
        if isinstance(answer, Missing):
            self._failures.append(Failure(family, answer.reason, answer.detail))
            return
        if answer.warnings:
            self._failures.append(Failure(family, Reason.PARTIAL_RESPONSE, "; ".join(answer.warnings)))
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
            pods = [self._up, *self._said.values(), *self._models.values()]
        for known in pods:
            for pod in [pod for pod in known if pod[0] in namespaces]:
                del known[pod]


def _nothing_said() -> SaidOfPod:
    return {}, {}, {}, {}


def _by_pod(answer: Vector) -> Mapping[PodKey, frozenset[str]]:
    """Signs of how pods are scraped."""
    found: dict[PodKey, set[str]] = defaultdict(set)
    for sample in answer.samples:
        found[_pod(sample.labels)].add(sample.labels.get(SYMPTOM, ""))
    return {pod: frozenset(signs) for pod, signs in found.items()}


def _pod(labels: Mapping[str, str]) -> PodKey:
    return labels.get("namespace", ""), labels.get("pod", "")


def _bound(labels: Mapping[str, str]) -> float:
    """Upper bound of a bucket in seconds; NaN where the label is no number (`1` and `1.0` are one bound)."""
    try:
        return float(labels.get("le", ""))
    except ValueError:
        return float("nan")
