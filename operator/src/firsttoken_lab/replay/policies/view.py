"""Policies, and what each sees at one of its ticks. True arrivals are not here; only a gateway counts them.

Every policy gets the same: pods as Kubernetes shows them, and samples as Prometheus scraped them, late by the lag.
While metrics are out (`Stage.metric_outages`) they are out for all of them, whatever a policy brings along.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from firsttoken_lab.replay.gateway import Gateway
from firsttoken_operator.domain import Metrics
from firsttoken_sizing.errors import SizingError


class Unavailable(SizingError):
    """Lack of what a policy needs: the message says what, and how to get it."""


@dataclass(frozen=True, slots=True)
class View:
    """One deployment at one tick. Gauges are sums over the ready pods at the last scrape, None where none is known."""

    now_seconds: float
    replicas: int
    """Asked for at present (`spec.replicas`)."""
    ready: int
    starting: int
    terminating: int
    running_requests: float | None
    waiting_requests: float | None
    read_metrics: Callable[[], Metrics]
    """The same samples as the operator reads them. NB: nothing is queried before a policy asks."""
    gateway: Gateway | None = None
    """Gateway of those who put one in front of the engines; as late as the samples."""
    requests_in_pods: Callable[[], float] | None = None
    """Requests that the ready pods hold at this moment, for a policy that brings a proxy into every pod to count them
    (Knative). NB: nothing is counted before a policy asks."""
    time_to_ready_seconds: float | None = None
    """90th percentile of the last starts of this deployment, from created to Ready; None: none was seen yet."""

    p99_start_seconds: float | None = None
    """The same, 99th."""
    waits_seconds: tuple[float, ...] = ()
    """Seconds that each pod which starts has been doing so."""

    standby: int = 0
    """Replicas that are to sleep, beside `replicas`."""
    asleep: int = 0
    """Those of them that do, and may be woken."""
    time_to_wake_seconds: float | None = None
    """90th percentile of the last wake-ups; None: none was seen yet."""

    is_blind: bool = False
    """Metrics are out: nothing that is measured is known, only what Kubernetes shows."""

    @property
    def metrics(self) -> Metrics:
        """Rates, backlog and TTFT of the rate window, with their health."""
        return self.read_metrics()


class Policy(Protocol):
    """Decides how many replicas to ask for. Stateful; made anew for every replay."""

    name: str
    """Name on the command line."""
    interval_seconds: float
    """Between two of its ticks."""
    initial: int
    """Replicas to begin with, ready at once."""

    def desired(self, view: View) -> int:
        """Replicas to ask for now. 0 only of a policy that comes back from it by itself."""
        ...


@runtime_checkable
class KeepsStandby(Protocol):
    """Policy that keeps replicas asleep, too."""

    standby: int
    """Replicas that are to sleep, as it last decided."""
