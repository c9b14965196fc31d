"""A fleet of engines behind a gateway: requests in, truth and pod metrics out, in virtual time.

Virtual time is the wall clock (`clock`), but nothing here sleeps or waits: `advance` computes everything that happened
up to now. Which pods exist is told by `follow`; no Kubernetes and no HTTP in this module.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from firsttoken_lab.emulate.metrics import PodMetrics
from firsttoken_lab.emulate.real import RealEngine, RealServer
from firsttoken_lab.emulate.traffic import Arrival, ArrivalSchedule
from firsttoken_lab.emulate.truth import Lateness, RequestRecord, Truth
from firsttoken_operator.families import NIM1, MetricFamily
from firsttoken_sizing.simulation.fleet import Settings
from firsttoken_sizing.simulation.online import OnlineReplica
from firsttoken_sizing.simulation.online_requests import Observer, Request, RequestTooLarge
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Routing, Sla


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """Specification of each replica of a fleet. `settings` are of one; `max_model_tokens` is the context window."""

    model: StepModel
    model_name: str
    family: MetricFamily = NIM1
    settings: Settings = field(default_factory=Settings)
    max_model_tokens: int = 8192
    cached_input_percent: float = 0.0
    tells_ttft: bool = True
    """False: its pages have no TTFT, as of a server that was not asked for it."""

    def cached_tokens(self, input_tokens: int) -> int:
        """Tokens of a prompt of this length that the prefix cache holds."""
        return int(input_tokens * self.cached_input_percent / 100)

    def replica(self, observer: Observer, start_seconds: float) -> OnlineReplica:
        """A fresh replica, idle until `start_seconds`."""
        return OnlineReplica(self.model, self.settings, observer=observer, start_seconds=start_seconds)

    def metrics(self) -> PodMetrics:
        """The metrics of a fresh replica."""
        return PodMetrics(
            self.family,
            self.model_name,
            max_requests=self.model.max_batch,
            kv_tokens=self.settings.kv_cache_tokens,
            max_model_tokens=self.max_model_tokens,
            tells_ttft=self.tells_ttft,
        )


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as the cluster shows it. `addressed`: it has an IP address, so that service discovery lists it."""

    namespace: str
    name: str
    uid: str
    ready: bool
    terminating: bool = False
    addressed: bool = True


@dataclass(frozen=True, slots=True)
class GatewayPolicy:
    """Router in front of the replicas, and how they leave.

    A request that finds no ready replica waits `timeout_seconds`, then fails. A terminating pod takes no new requests
    and has `drain_seconds` for those it holds (its grace period), or until its object is gone if that comes later.
    """

    routing: Routing = Routing.RANDOM
    timeout_seconds: float = 30.0
    drain_seconds: float = 30.0
    seed: int = 1
    real_share: float = 1.0
    """Share of what another replica would get that goes to the one that is real, 0 to 1: a slow one gets less."""


class Replica:
    """One pod's engine, its metrics, and the requests that it holds; it passes the engine's events on to the fleet.

    `real`: the server that stands in for the engine; its metrics are its own, and what is counted here is not shown.
    """

    def __init__(self, pod: Pod, fleet: Fleet, now: float, real: RealServer | None = None) -> None:
        self.pod, self.real = pod, real
        self.metrics = fleet.spec.metrics()
        self.decoded = self.metrics.decoded
        self.engine: OnlineReplica | RealEngine
        if real is None:
            self.engine = self.metrics.engine = fleet.spec.replica(self, now)
        else:
            self.engine = RealEngine(real, self)
        self.requests: dict[Request, RequestRecord] = {}
        self.drain_until_seconds: float | None = None
        self._fleet = fleet

    def prefilled(self, request: Request) -> None:
        """Book a first token."""
        self.metrics.prefilled(request)
        self._fleet.truth.first_token(self.requests[request], request.first_token)
        self._fleet.event_seconds.append(request.first_token)

    def finished(self, request: Request) -> None:
        """Book a last token."""
        self.metrics.finished(request)
        self._fleet.truth.finished(self.requests.pop(request), request.finish)
        self._fleet.event_seconds.append(request.finish)

    def failed(self, request: Request, error: str) -> None:
        """Book a request that a real server did not answer."""
        self._fleet.truth.lost(self.requests.pop(request), error)


class Fleet:
    """Engines by pod, a gateway, a schedule of requests. Times are seconds of `clock`."""

    def __init__(
        self,
        spec: ReplicaSpec,
        traffic: ArrivalSchedule,
        sla: Sla,
        gateway: GatewayPolicy,
        clock: Callable[[], float],
        *,
        real: RealServer | None = None,
    ) -> None:
        """Make an empty fleet; traffic begins with `start`. `real`: one replica at a time is this server."""
        self.spec = spec
        self.real = real
        self.traffic = traffic
        self.gateway = gateway
        self.truth = Truth(sla)
        self.lateness = Lateness()
        self.event_seconds: list[float] = []
        """Virtual times of the events of the `advance` that is going on."""
        self.replicas: dict[tuple[str, str], Replica] = {}
        """Replicas by (namespace, pod name): those whose metrics are served."""
        self.targets: tuple[tuple[str, str], ...] = ()
        """The same keys of all pods that discovery lists: from their address on, long before they are ready."""
        self.started_seconds: float | None = None
        self._clock = clock
        self._rng, self._turn = random.Random(gateway.seed), 0
        self._accepting: list[Replica] = []
        self._leaving: list[Replica] = []
        self._queue: deque[RequestRecord] = deque()

    def start(self) -> None:
        """Let the traffic begin now."""
        self.started_seconds = self._clock()

    @property
    def traffic_seconds(self) -> float:
        """Seconds since the traffic began; 0 before."""
        return 0.0 if self.started_seconds is None else self._clock() - self.started_seconds

    @property
    def ready(self) -> int:
        """Replicas that take requests."""
        return len(self._accepting)

    @property
    def queued(self) -> int:
        """Requests that wait at the gateway because no replica is ready."""
        return len(self._queue)

    def advance(self) -> None:
        """Compute everything that happened up to now."""
        self._advance_to(self._clock())

    def follow(self, pods: Iterable[Pod]) -> None:
        """Take the pods that exist now: new ready ones join, terminating ones drain, missing ones are gone."""
        now = self._clock()
        self._advance_to(now)
        seen = {(pod.namespace, pod.name): pod for pod in pods}
        self.targets = tuple(key for key, pod in seen.items() if pod.addressed)
        for key, replica in list(self.replicas.items()):
            pod = seen.get(key)
            if pod is None or pod.uid != replica.pod.uid:
                del self.replicas[key]
                self._leave(replica, now)
            else:
                replica.pod = pod
                if pod.terminating and replica.drain_until_seconds is None:
                    replica.drain_until_seconds = now + self.gateway.drain_seconds
        for key, pod in seen.items():
            # NB: a pod has metrics from its first readiness on; before that its server does not listen.
            if key not in self.replicas and pod.ready and not pod.terminating:
                taken = any(replica.real for replica in (*self.replicas.values(), *self._leaving))
                self.replicas[key] = Replica(pod, self, now, None if taken else self.real)
        self._accepting = [r for r in self.replicas.values() if r.pod.ready and not r.pod.terminating]
        self._release_queue(now)

    def finish(self) -> None:
        """End the run: requests in flight are computed to their end at once, those without a replica fail."""
        self.advance()
        for replica in self.replicas.values():
            replica.engine.advance(math.inf)
        for replica in self._leaving:
            replica.engine.advance(replica.drain_until_seconds or 0.0)
            self._lose(replica)
        self.event_seconds.clear()
        while self._queue:
            self.truth.lost(self._queue.popleft(), "no ready replica until the end of the run")

    def stats(self) -> dict[str, Any]:
        """Figures of a live table: load, replicas, score, lateness."""
        self.advance()
        elapsed = self.traffic_seconds
        return {
            "elapsedSeconds": elapsed,
            "offeredRequestsPerSecond": self.traffic.rate(elapsed) if self.started_seconds is not None else 0.0,
            "readyReplicas": self.ready,
            "queuedAtGateway": self.queued,
            **self.truth.stats(self._clock(), elapsed),
            "latenessP99Seconds": self.lateness.percentile(99),
            **({"real": self.real.stats()} if self.real else {}),
        }

    def export(self) -> Iterator[str]:
        """Per-request truth, one JSON object a line; `arrival_seconds` counts from the start of the traffic."""
        return self.truth.lines(self.started_seconds or 0.0)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _advance_to(self, now: float) -> None:
        if self.started_seconds is not None:
            for arrival in self.traffic.take(now - self.started_seconds):
                self._arrive(arrival, self.started_seconds + arrival.seconds)
        for replica in self.replicas.values():
            replica.engine.advance(now)
        for replica in list(self._leaving):
            deadline = replica.drain_until_seconds or 0.0
            replica.engine.advance(min(now, deadline))
            if now >= deadline or not replica.engine.in_flight:
                self._leaving.remove(replica)
                self._lose(replica)
        while self._queue and self._queue[0].arrival_seconds + self.gateway.timeout_seconds <= now:
            self.truth.lost(self._queue.popleft(), "no ready replica")
        self.lateness.add(self._clock(), self.event_seconds)
        self.event_seconds.clear()

    def _arrive(self, arrival: Arrival, at_seconds: float) -> None:
        record = RequestRecord(at_seconds, arrival.input_tokens, arrival.output_tokens)
        self.truth.arrived(record)
        self.event_seconds.append(at_seconds)
        if self._accepting:
            self._route(record, at_seconds)
        else:
            self._queue.append(record)

    def _route(self, record: RequestRecord, at_seconds: float) -> None:
        if self.gateway.routing is Routing.LEAST_LOADED:
            for replica in self._accepting:
                replica.engine.advance(at_seconds)
        replica = self._chosen()
        record.pod, record.real = replica.pod.name, replica.real is not None
        cached = self.spec.cached_tokens(record.input_tokens)
        try:
            request = replica.engine.submit(at_seconds, record.input_tokens, record.output_tokens, cached_tokens=cached)
        except RequestTooLarge as error:
            replica.metrics.count_finish("error")
            self.truth.lost(record, str(error))
        else:
            replica.requests[request] = record

    def _chosen(self) -> Replica:
        """Choose where the next request goes; ties of the least loaded are broken at random, as by several gateways."""
        among = self._accepting
        if self.gateway.real_share < 1 and self._rng.random() >= self.gateway.real_share:
            among = [replica for replica in among if replica.real is None] or among
        if self.gateway.routing is Routing.ROUND_ROBIN:
            self._turn += 1
            return among[self._turn % len(among)]
        if self.gateway.routing is Routing.LEAST_LOADED:
            least = min(replica.engine.in_flight for replica in among)
            among = [replica for replica in among if replica.engine.in_flight == least]
        return self._rng.choice(among)

    def _release_queue(self, now: float) -> None:
        while self._queue and self._accepting:
            self._route(self._queue.popleft(), now)

    def _leave(self, replica: Replica, now: float) -> None:
        """The pod object is gone: what its grace period still covers goes on unseen, the rest fails."""
        deadline = replica.drain_until_seconds
        if deadline is None and replica.engine.in_flight:
            # NB: deletion and disappearance may be one event for a watcher (kwok deletes at once).
            deadline = now + self.gateway.drain_seconds
        replica.drain_until_seconds = deadline
        if deadline is not None and deadline > now and replica.engine.in_flight:
            self._leaving.append(replica)
        else:
            self._lose(replica)

    def _lose(self, replica: Replica) -> None:
        for request in replica.engine.drop_all():
            self.truth.lost(replica.requests.pop(request), "pod gone")
