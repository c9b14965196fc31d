"""Record of a run: every watch event of the scaled target, and a sample of the rest twice a second."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ReplicaEvent:
    """One watch event of the target. `seconds` of wall time since the traffic began."""

    seconds: float
    replicas: int
    ready: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of the live table. `ttft_p95_milliseconds` is the truth of the last seconds; None: no request ended."""

    seconds: float
    offered_requests_per_second: float
    sized: int
    desired: int
    ready: int
    ttft_p95_milliseconds: float | None
    attainment_percent: float | None
    lateness_p99_seconds: float
    reason: str
    real_ttft_p95_milliseconds: float | None = None
    """The same of the replica that is a real server, by the clock of its client; None: there is none, or it is idle."""


@dataclass(kw_only=True)
class Judged:
    """Requests that were judged, all of a run or those of one replica."""

    requests: int = 0
    """Number of requests that were judged."""
    missed: int = 0
    """Number of these that failed, or waited longer than the SLA allows."""

    @property
    def attainment_percent(self) -> float | None:
        """Share of the requests that were inside the SLA; None: none was judged."""
        return 100 * (self.requests - self.missed) / self.requests if self.requests else None


@dataclass(kw_only=True)
class RealReplica(Judged):
    """Requests of the replica that is a real server, and what it says of them itself."""

    name: str
    is_paced: bool = True
    """True: it takes as long for a step as the emulated ones do, so that the SLA is its own, too."""
    ttft_milliseconds: list[float] = field(default_factory=list)
    """TTFT of its requests by the clock of their client."""
    ttft_bucket_milliseconds: tuple[float, float] | None = None
    """Bounds of the bucket of its own histogram that holds the median of TTFT; None: it has none."""
    sent: int = 0
    answered: int = 0
    """Requests that it answered to the end: those whose pod ended, or the demo, were broken off."""
    counted: int | None = None
    """Requests that its own metrics count; None: they could not be read."""

    @property
    def median_ttft_milliseconds(self) -> float | None:
        """Median of TTFT by the clock of its client; None: none began."""
        return statistics.median(self.ttft_milliseconds) if self.ttft_milliseconds else None


@dataclass
class Record(Judged):
    """Everything that the verdict and the page are made of."""

    events: list[ReplicaEvent] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    seconds: float = 0.0
    """Time that the traffic ran."""
    real: RealReplica | None = None
    """The replica that was a real server; None: all were emulated."""

    @property
    def lateness_p99_seconds(self) -> float | None:
        """Lateness of the emulated fleet against its own clock, over the whole run; None: not measured."""
        return self.samples[-1].lateness_p99_seconds if self.samples else None

    def replicas_at(self, seconds: float) -> int:
        """`spec.replicas` of the target at this second (the first one known before the first event)."""
        known = [e.replicas for e in self.events if e.seconds <= seconds]
        return known[-1] if known else self.events[0].replicas

    def replica_seconds(self) -> float:
        """Replicas integrated over the run: a replica counts from the moment it is asked for."""
        total, at, replicas = 0.0, 0.0, self.replicas_at(0.0)
        for event in self.events:
            if event.seconds > at:
                end = min(event.seconds, self.seconds)
                total += replicas * (end - at)
                at = end
            replicas = event.replicas
        return total + replicas * max(0.0, self.seconds - at)

    def add_truth(self, requests: Sequence[Mapping[str, Any]], ttft_sla_milliseconds: float) -> None:
        """Judge the requests of the fleet's export by how long they waited for their first token.

        One that still waits when the traffic ends is late if it has waited for longer than it may; else it is not
        judged, as it may yet be in time.
        """
        for request in requests:
            ttft_seconds = request["ttft_seconds"]
            began = ttft_seconds is not None
            waited_seconds = ttft_seconds if began else self.seconds - request["arrival_seconds"]
            missed = request["ok"] is False or waited_seconds * 1000 > ttft_sla_milliseconds
            self.requests += began or missed
            self.missed += missed
            if self.real is not None and request.get("real"):
                self.real.sent += 1
                self.real.answered += request["ok"] is True
                self.real.ttft_milliseconds += [1000 * ttft_seconds] if began else []
                self.real.requests += began or missed
                self.real.missed += missed
