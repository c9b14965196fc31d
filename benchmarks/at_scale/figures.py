"""Figures of one autoscaler at one number of resources, as they are written to the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from at_scale.exposition import MetricsPage
from at_scale.probing import Health
from at_scale.rig import Snapshot

AUTOSCALER = "autoscaler"
"""Name of the sum over an autoscaler's own processes."""
CONTROLLER_MANAGER = "kube-controller-manager"
"""Program that the HorizontalPodAutoscaler is a part of; it runs without one too."""
YARDSTICK = "yardstickMilliseconds"
"""Option of a run under which it says how fast this CPU is."""
WRITING = ("POST", "PUT", "PATCH", "DELETE", "APPLY")
NOT_OF_AUTOSCALERS = ("nodes", "pods", "leases", "endpoints", "endpointslices", "subjectaccessreviews", "tokenreviews")
"""Resources that other programs of a control plane write; of leases every program has one."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds from a step to the first write of replicas: percentiles over the workloads that were to be written.

    `never` were not within the time that they had; `early` were written before their step, and are in no percentile.
    """

    p50: float | None
    p90: float | None
    p99: float | None
    longest: float | None
    never: int
    early: int = 0

    @classmethod
    def of(cls, seconds: Sequence[float], *, never: int, early: int = 0) -> Delays:
        """Percentiles, each the smallest delay that so many do not exceed."""
        if not seconds:
            return cls(None, None, None, None, never, early)
        shares = np.quantile(seconds, (0.5, 0.9, 0.99, 1.0), method="inverted_cdf")
        p50, p90, p99, longest = (round(float(share), 2) for share in shares)
        return cls(p50, p90, p99, longest, never, early)


@dataclass(frozen=True, slots=True)
class Spent:
    """Resources that were used between two snapshots: cores and MB by program, queries, writes, answers of probes."""

    seconds: float
    cores: dict[str, float]
    megabytes: dict[str, float]
    queries_per_second: float
    range_queries: float
    ticks: float
    writes_per_minute: dict[str, float]
    """Writes that the API server took, by resource."""
    refused_writes: float
    """Writes that it answered with an error."""
    health: Health | None

    @property
    def all_writes_per_minute(self) -> float:
        """Writes of all resources."""
        return sum(self.writes_per_minute.values())


def spent(
    before: Snapshot, after: Snapshot, processes: Iterable[str], *, ticks: float = 0.0, health: Health | None = None
) -> Spent:
    """Compare two snapshots; `processes` are those of the autoscaler."""
    seconds = after.at - before.at
    cores = after.cpu.cores_since(before.cpu, seconds)
    own = tuple(processes)
    taken, refused = _writes(before.pages["kube-apiserver"], after.pages["kube-apiserver"])
    return Spent(
        seconds=round(seconds, 1),
        cores=_rounded(cores | {AUTOSCALER: sum(cores.get(name, 0.0) for name in own)}, 3),
        megabytes=_rounded(after.megabytes | {AUTOSCALER: sum(after.megabytes.get(name, 0.0) for name in own)}, 1),
        queries_per_second=round(_queries(before, after, "/api/v1/query") / seconds, 3),
        range_queries=_queries(before, after, "/api/v1/query_range"),
        ticks=ticks,
        writes_per_minute={resource: round(60 * count / seconds, 2) for resource, count in sorted(taken.items())},
        refused_writes=refused,
        health=health,
    )


@dataclass(frozen=True, slots=True)
class Onboarding:
    """Seconds from the first creation until each has a decision, and (`sized`) one that was made on a size."""

    created_seconds: float
    decided: Delays
    sized: Delays | None
    spent: Spent


@dataclass(frozen=True, slots=True)
class Step:
    """Change of the load of all workloads, and what followed.

    `scrape_seconds` is the time from the step to the first scrape that could show it.
    """

    delays: Delays
    scrape_seconds: float | None
    spent: Spent


@dataclass(frozen=True, slots=True)
class Restart:
    """Kill and start while the load grows: seconds from the kill, and what was changed that should not have been.

    `decided_seconds` is when the first tick is over, in which all were decided; `sized_seconds` when no resource waits
    for a size. `lowered` Deployments lost replicas; `flipped` counts conditions whose status changed, by type.
    """

    listening_seconds: float | None
    decided_seconds: float | None
    sized_seconds: float | None
    writes: Delays
    lowered: int
    flipped: dict[str, int]


@dataclass(frozen=True, slots=True)
class Soak:
    """Memory over time, in ticks that come faster. `megabytes` are (seconds, MB) of the operator.

    `hours` are those in which that many ticks come at the interval that is shipped, and `slope_per_hour` is what memory
    grew in one of them, in MB, over the second half.
    """

    ticks: float
    hours: float
    megabytes: list[tuple[float, float]]
    slope_per_hour: float | None


@dataclass(slots=True)
class AutoscalerFigures:
    """All figures of one autoscaler in one run. `about` has the options of the run."""

    name: str
    resources: int
    about: dict[str, Any]
    onboarding: Onboarding | None = None
    quiet: Spent | None = None
    step: Step | None = None
    spread: Step | None = None
    restart: Restart | None = None
    soak: Soak | None = None
    profile: dict[str, dict[str, float]] = field(default_factory=dict)
    """CPU milliseconds of a resource and tick by part, for each phase that was recorded."""

    def document(self) -> dict[str, Any]:
        """Make the JSON of it."""
        return asdict(self)


def _queries(before: Snapshot, after: Snapshot, handler: str) -> float:
    first, last = (
        snapshot.pages["prometheus"].sum("prometheus_http_requests_total", handler=handler)
        for snapshot in (before, after)
    )
    return last - first


def _writes(before: MetricsPage, after: MetricsPage) -> tuple[dict[str, float], float]:
    name, labels = "apiserver_request_total", ("verb", "resource", "subresource", "code")
    earlier = before.by(name, *labels)
    taken: dict[str, float] = {}
    refused = 0.0
    for key, total in after.by(name, *labels).items():
        verb, resource, subresource, code = key
        count = total - earlier.get(key, 0.0)
        if verb not in WRITING or resource in ("", *NOT_OF_AUTOSCALERS) or not count:
            continue
        if not code.startswith("2"):
            refused += count
            continue
        what = f"{resource}/{subresource}" if subresource else resource
        taken[what] = taken.get(what, 0.0) + count
    return taken, refused


def _rounded(values: Mapping[str, float], digits: int) -> dict[str, float]:
    return {name: round(value, digits) for name, value in values.items()}
