"""The life of simulated replicas: created, starting, serving, draining, gone. GPU time is billed from first to last.

Also what happens when one dies: its requests are lost, and another one is created at once, as a ReplicaSet does.

On standby a replica is started and sleeps: it serves nothing, is billed as ever, and serves seconds after it is woken.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from firsttoken_lab.replay.rented import RentedGPUs
from firsttoken_operator.observe.config import DEFAULT
from firsttoken_operator.observe.readiness import TimeToReady, percentiles
from firsttoken_sizing.simulation.fleet import Fleet

_LONG_READY_SECONDS = 86400.0
"""Age of the replicas that are there when a replay starts: longer than any rate window."""


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Time of a replica from its creation until it serves: uniform around `seconds`, by `jitter_percent`."""

    seconds: float
    jitter_percent: float = 20.0

    def draw(self, rng: np.random.Generator) -> float:
        """The seconds of one start."""
        spread = self.jitter_percent / 100
        return self.seconds * rng.uniform(1 - spread, 1 + spread)


WAKE_UP = ColdStart(5.0)
"""Time from the call that wakes a replica until it serves: vLLM's sleep mode of level 1 copies the weights back from
the host's memory. 140 GB on four GPUs are 35 GB for each, 1.5 to 3 s at the 12 to 25 GB/s of a PCIe link; the rest is
the call, and the label that brings its traffic back."""


@dataclass(frozen=True, slots=True)
class SimulatedPod:
    """One replica from its creation until it is gone."""

    number: int
    """No other pod of the replay has it; 1 and more."""
    slot: int
    """Its place in the simulated fleet, which another pod gets after it."""
    created_seconds: float
    ready_at_seconds: float
    woken_seconds: float | None = None
    """Time of the last call that woke it; None: it never slept."""

    @property
    def asked_seconds(self) -> float:
        """Time since which it is to serve."""
        return self.created_seconds if self.woken_seconds is None else self.woken_seconds


@dataclass(frozen=True, slots=True)
class Pods:
    """All that live at one moment."""

    starting: tuple[SimulatedPod, ...]
    serving: tuple[SimulatedPod, ...]
    draining: tuple[SimulatedPod, ...]

    @property
    def answering(self) -> tuple[SimulatedPod, ...]:
        """Those whose server is up."""
        return self.serving + self.draining


class Replicas:
    """Keeps a fleet at the size that was asked for, as a Deployment does.

    Fewer: those still starting go first, then the ones with the fewest requests (`pod-deletion-cost`); a replica that
    serves takes no new requests, answers those that it has, and is billed until then. Where standby is short of it, it
    falls asleep instead. More: those that sleep are woken first.
    """

    def __init__(
        self,
        fleet: Fleet,
        cold_start: ColdStart,
        rng: np.random.Generator,
        wake_up: ColdStart = WAKE_UP,
        rented: RentedGPUs | None = None,
    ) -> None:
        """`fleet` has a slot for every replica that may live at one time, draining ones included.

        `rented`: GPUs for which a new replica waits; None: they are there.
        """
        self._fleet, self._cold_start, self._wake_up, self._rng = fleet, cold_start, wake_up, rng
        self._rented = rented
        # NB: a view of the column, made once: looking a field of a record array up takes longer than reading it.
        self._outstanding = fleet.replicas.view(np.ndarray)["outstanding"]
        self._free = list(range(len(fleet.replicas)))[::-1]
        self._starting: list[SimulatedPod] = []
        self._serving: list[SimulatedPod] = []
        self._draining: list[SimulatedPod] = []
        self._dozing: list[SimulatedPod] = []
        """Those that answer what they have, and sleep then."""
        self._coming: list[SimulatedPod] = []
        """Those that start, and sleep then."""
        self._asleep: list[SimulatedPod] = []
        self._starts_seconds: deque[float] = deque(maxlen=DEFAULT.starts.kept)
        self._known_starts: TimeToReady | None = None
        self._wakes_seconds: deque[float] = deque(maxlen=DEFAULT.starts.kept)
        self._standby_seconds = 0.0
        self._created = 0
        self._now_seconds = 0.0
        self._billed_seconds = 0.0

    @property
    def asked(self) -> int:
        """Replicas that are to serve."""
        return len(self._starting) + len(self._serving)

    @property
    def standby(self) -> int:
        """Replicas that are to sleep."""
        return len(self._dozing) + len(self._coming) + len(self._asleep)

    @property
    def asleep(self) -> int:
        """Those that do."""
        return len(self._asleep)

    @property
    def pods(self) -> Pods:
        """Those that live now."""
        return Pods(tuple(self._starting), tuple(self._serving), (*self._draining, *self._dozing))

    @property
    def time_to_ready_seconds(self) -> float | None:
        """90th percentile of the last starts, as the operator learns it from pods; None before the first one."""
        return self._known_starts.p90_seconds if self._known_starts else None

    @property
    def p99_start_seconds(self) -> float | None:
        """The same, 99th percentile."""
        return self._known_starts.p99_seconds if self._known_starts else None

    @property
    def time_to_wake_seconds(self) -> float | None:
        """90th percentile of the last wake-ups, as the operator learns it; None before the first one."""
        return percentiles(self._wakes_seconds).p90_seconds if self._wakes_seconds else None

    @property
    def living(self) -> int:
        """Replicas that are billed."""
        return self.asked + self.standby + len(self._draining)

    def billed_replica_seconds(self) -> float:
        """Replica-seconds so far, those of living replicas included."""
        living = (*self._starting, *self._serving, *self._draining, *self._dozing, *self._coming, *self._asleep)
        return self._billed_seconds + sum(self._now_seconds - pod.created_seconds for pod in living)

    def standby_replica_seconds(self) -> float:
        """Those of them that were spent on standby."""
        return self._standby_seconds

    def begin(self, replicas: int) -> None:
        """The fleet that is there when the replay starts, and has been ready for long."""
        if self._rented:
            self._rented.begin(replicas)
        for _ in range(replicas):
            self._serve(self._new_pod(0.0, -_LONG_READY_SECONDS))

    def scale(self, replicas: int, now_seconds: float, standby: int = 0) -> None:
        """Ask for so many that serve, and so many that sleep. Never more than there are slots."""
        if replicas == self.asked and standby == self.standby:
            return
        self.advance(now_seconds)
        while self.asked < replicas and self._called_up():
            pass
        while self.asked < replicas and self._free:
            self._create()
        while self.asked > replicas:
            sleeps = self.standby < standby
            if self._starting:
                # The youngest has the longest way to go.
                pod = max(self._starting, key=lambda pod: pod.ready_at_seconds)
                if sleeps:
                    self._starting.remove(pod)
                    self._coming.append(pod)
                else:
                    self._remove(self._starting, pod)
                continue
            victim = min(self._serving, key=lambda pod: int(self._outstanding[pod.slot]))
            self._fleet.close(victim.slot)
            self._serving.remove(victim)
            (self._dozing if sleeps else self._draining).append(victim)
        while self.standby < standby and self._free:
            self._coming.append(self._started())
        while self.standby > standby:
            self._dismiss()

    def _called_up(self) -> bool:
        """Take a replica from standby: one that sleeps, or else the oldest that starts; False: there is none."""
        if self._asleep:
            ready_at = self._now_seconds + self._wake_up.draw(self._rng)
            pod = replace(self._asleep.pop(0), woken_seconds=self._now_seconds, ready_at_seconds=ready_at)
        elif self._coming:
            pod = self._coming.pop(0)
        else:
            return False
        self._starting.append(pod)
        return True

    def _dismiss(self) -> None:
        """Give up a replica on standby: the youngest that starts first, and one that still answers last."""
        if self._coming or self._asleep:
            pods = self._coming or self._asleep
            self._remove(pods, pods[-1])
        else:
            self._draining.append(self._dozing.pop())

    def look(self, now_seconds: float) -> None:
        """Let pods become ready up to `now_seconds`, as Kubernetes shows them; requests need not be up to date."""
        coming = (*self._starting, *self._coming)
        if coming and min(pod.ready_at_seconds for pod in coming) <= now_seconds:
            self.advance(now_seconds)

    def requests_held(self, now_seconds: float) -> float:
        """Requests in the replicas that serve at `now_seconds`, as a proxy in each would count them."""
        self.advance(now_seconds)
        return float(self._outstanding[[pod.slot for pod in self._serving]].sum())

    def advance(self, until_seconds: float) -> None:
        """Let time pass: starts are completed, requests are served, drained replicas go."""
        while self._starting or self._coming:
            first = min((*self._starting, *self._coming), key=lambda pod: pod.ready_at_seconds)
            if first.ready_at_seconds > until_seconds:
                break
            self._advance(first.ready_at_seconds)
            if first.woken_seconds is None:
                self._starts_seconds.append(first.ready_at_seconds - first.created_seconds)
                self._known_starts = percentiles(self._starts_seconds)
            else:
                self._wakes_seconds.append(first.ready_at_seconds - first.woken_seconds)
            if first in self._coming:
                self._coming.remove(first)
                self._asleep.append(first)
            else:
                self._starting.remove(first)
                self._serve(first)
        self._advance(until_seconds)

    def fail(self, probability: float, rng: np.random.Generator) -> None:
        """Let every replica that serves die now with this probability; each is replaced at once."""
        for pod in [pod for pod in self._serving if rng.random() < probability]:
            self._fleet.fail(pod.slot)
            self._remove(self._serving, pod)
            self._create()

    def finish(self) -> None:
        """Let the starts that are under way be completed, and everything be answered that can be."""
        while self._starting:
            self.advance(min(pod.ready_at_seconds for pod in self._starting))
        self._fleet.advance(np.inf)

    def _create(self) -> None:
        self._starting.append(self._started())

    def _started(self) -> SimulatedPod:
        waits_seconds = self._rented.take(self._now_seconds) if self._rented else 0.0
        ready_at = self._now_seconds + waits_seconds + self._cold_start.draw(self._rng)
        return self._new_pod(self._now_seconds, ready_at)

    def _new_pod(self, created_seconds: float, ready_at_seconds: float) -> SimulatedPod:
        self._created += 1
        return SimulatedPod(self._created, self._free.pop(), created_seconds, ready_at_seconds)

    def _advance(self, until_seconds: float) -> None:
        self._fleet.advance(until_seconds)
        self._standby_seconds += max(0.0, until_seconds - self._now_seconds) * (len(self._coming) + len(self._asleep))
        self._now_seconds = until_seconds
        # Seen at the ends of ticks only, so a drained replica is billed for at most one tick too long.
        for pod in [pod for pod in self._draining if not self._outstanding[pod.slot]]:
            self._remove(self._draining, pod)
        for pod in [pod for pod in self._dozing if not self._outstanding[pod.slot]]:
            self._dozing.remove(pod)
            self._asleep.append(pod)

    def _serve(self, pod: SimulatedPod) -> None:
        self._fleet.open(pod.slot, max(self._now_seconds, pod.ready_at_seconds))
        self._serving.append(pod)

    def _remove(self, pods: list[SimulatedPod], pod: SimulatedPod) -> None:
        pods.remove(pod)
        self._billed_seconds += self._now_seconds - pod.created_seconds
        self._free.append(pod.slot)
        if self._rented:
            self._rented.give_back(self._now_seconds)
