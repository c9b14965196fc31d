"""Arrivals of one source by pod and backend, in one small query: what is asked between two ticks.

It only says that a tick is worth while, which then measures everything. So nothing here is judged: of a pod that is not
seen, or a query that is not answered, nothing arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from firsttoken_operator.domain import Missing
from firsttoken_operator.families import MetricFamily
from firsttoken_operator.families.promql import joined
from firsttoken_operator.observe.bounds import PodKey
from firsttoken_operator.observe.gateway import Backend, GatewayCounter
from firsttoken_operator.observe.source import MetricsSource

POD_LABEL = "pod"


@dataclass(frozen=True, slots=True)
class Arriving:
    """Requests a second, over the rate window."""

    pods: Mapping[PodKey, float] = field(default_factory=dict)
    backends: Mapping[Backend, float] = field(default_factory=dict)
    """Those that a gateway counted."""

    def of(self, pods: Iterable[PodKey], backend: Backend) -> float:
        """Requests a second of one Deployment: the larger of what its pods and the gateway say."""
        return max(sum(self.pods.get(pod, 0.0) for pod in pods), self.backends.get(backend, 0.0))


async def ask(
    source: MetricsSource, families: Iterable[MetricFamily], counter: GatewayCounter | None, window_seconds: float
) -> Arriving:
    """Ask a source about these families and its gateway. Never raises for a failing source."""
    asked = [family.arriving(window_seconds) for family in families]
    asked += [counter.arrivals(window_seconds)] if counter is not None else []
    if not asked or isinstance(answer := await source.query(joined(asked)), Missing):
        return Arriving()
    pods, backends = dict[PodKey, float](), dict[Backend, float]()
    for sample in answer.samples:
        if POD_LABEL in sample.labels:
            pods[sample.labels.get("namespace", ""), sample.labels[POD_LABEL]] = sample.value
        elif counter is not None:
            backends[counter.backend(sample.labels)] = sample.value
    return Arriving(pods, backends)
