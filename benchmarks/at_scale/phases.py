"""Phases of a measurement on a rig, the same for every autoscaler; those that only ours goes through are in `lives`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from at_scale.autoscaler import Autoscaler
from at_scale.figures import Delays, Onboarding, Spent, Step, spent
from at_scale.kinds import Workload
from at_scale.rig import Rig, Snapshot
from tools.cluster import report

POLL_SECONDS = 0.25
PROGRESS_SECONDS = 20.0
ONBOARDING_SECONDS = 600.0
STEP_SECONDS = 240.0
"""Time that a workload has to be written after its step."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """An autoscaler on a rig, and what it spends."""

    rig: Rig
    autoscaler: Autoscaler

    def during(self, work: Callable[[], object]) -> Spent:
        """Do the work, and say what was spent meanwhile."""
        before = self.rig.snapshot()
        work()
        return self.since(before)

    def since(self, before: Snapshot) -> Spent:
        """Say what was spent since an earlier snapshot."""
        after, probes = self.rig.snapshot(), self.autoscaler.probes
        return spent(
            before,
            after,
            self.autoscaler.processes,
            ticks=self._ticks(after) - self._ticks(before),
            health=probes.health(before.at, after.at) if probes else None,
        )

    def _ticks(self, snapshot: Snapshot) -> float:
        return self.autoscaler.ticks(snapshot.pages.get(self.autoscaler.processes[0]))


def onboard(measurement: Measurement, sized: Callable[[], dict[str, float]] | None) -> Onboarding:
    """Declare all workloads at once, and wait until each has been decided (on a size, where `sized` tells)."""
    rig, autoscaler = measurement.rig, measurement.autoscaler
    every = {workload.name for workload in rig.workloads}
    sound = {workload.name for workload in rig.workloads if workload.fault is None}
    before = rig.snapshot()
    began = time.monotonic()
    autoscaler.declare()
    created, until = time.monotonic() - began, began + ONBOARDING_SECONDS
    _wait(lambda: len(autoscaler.decided()), len(every), until, "decided")
    if sized is not None:
        _wait(lambda: len(sized().keys() & sound), len(sound), until, "decided on a size")
    return Onboarding(
        created_seconds=round(created, 1),
        decided=_delays(autoscaler.decided(), every, began),
        sized=_delays(sized(), sound, began) if sized else None,
        spent=measurement.since(before),
    )


def step(measurement: Measurement, factor: float, spread_seconds: float = 0.0) -> Step:
    """Multiply every load, each at an instant of its own within the spread, and wait for the writes."""
    rig = measurement.rig
    awaited = [workload for workload in rig.workloads if workload.fault is None]
    before = rig.snapshot()
    written, sizes = len(rig.writes), dict(rig.replicas)
    began = time.monotonic()
    instants = rig.tell(factor=factor, spread=spread_seconds)

    def raised() -> dict[str, float]:
        return first_raises(rig.writes[written:], sizes)

    until = began + spread_seconds + STEP_SECONDS
    _wait(lambda: len(raised()), len(awaited), until, f"written after the load became x{factor:g}")
    figures = measurement.since(before)
    scrape = next((round(at - began, 2) for at in rig.scrapes() if at >= began), None)
    return Step(delays_of(awaited, raised(), instants), scrape, figures)


def first_raises(writes: Sequence[tuple[float, str, int]], sizes: dict[str, int]) -> dict[str, float]:
    """Time of the first write of each Deployment that gave it more replicas than these."""
    found: dict[str, float] = {}
    for at, name, replicas in writes:
        if replicas > sizes.get(name, replicas):
            found.setdefault(name, at)
    return found


def delays_of(awaited: Sequence[Workload], raised: dict[str, float], instants: Sequence[float]) -> Delays:
    """Delays of the workloads that were to be written, each from its own instant (by the workload's number)."""
    seconds = [raised[w.name] - instants[w.number] for w in awaited if w.name in raised]
    late = [delay for delay in seconds if delay >= 0]
    return Delays.of(late, never=len(awaited) - len(seconds), early=len(seconds) - len(late))


def _delays(instants: dict[str, float], awaited: set[str], began: float) -> Delays:
    seconds = [instants[name] - began for name in awaited & instants.keys()]
    return Delays.of(seconds, never=len(awaited) - len(seconds))


def _wait(count: Callable[[], int], wanted: int, until: float, what: str) -> None:
    """Wait until the count is reached or the time is over; say now and then how far it is."""
    said = time.monotonic()
    while (found := count()) < wanted and time.monotonic() < until:
        if time.monotonic() - said > PROGRESS_SECONDS:
            report(f"{found} of {wanted} {what}")
            said = time.monotonic()
        time.sleep(POLL_SECONDS)
    report(f"{found} of {wanted} {what}")
