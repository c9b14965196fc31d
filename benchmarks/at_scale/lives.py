"""Phases that only our operator goes through: a restart while the load grows, and many ticks in a short time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import numpy as np

from at_scale.exposition import MetricsPage
from at_scale.figures import Restart, Soak
from at_scale.machine import resident_megabytes
from at_scale.ours import OPERATOR, RESOURCES, Ours
from at_scale.phases import delays_of, first_raises
from at_scale.rig import Rig, read_text
from tools.cluster import answers, report, wait_until

RESTART_SECONDS = 240.0
POLL_SECONDS = 0.5
WAITING = "firsttoken_sizings_waiting"
SAMPLE_SECONDS = 5.0
CHURN_SECONDS = 60.0
CHURN_SHARE = 0.01
"""Share of the resources that is deleted and made again each time."""
LEAST_SAMPLES = 3


def restart(rig: Rig, ours: Ours, factor: float) -> Restart:
    """Kill the operator, multiply the load at that instant, and start it again at once."""
    awaited = [workload for workload in rig.workloads if workload.fault is None]
    written, sizes = len(rig.writes), dict(rig.replicas)
    since = datetime.now(UTC)
    began = ours.kill()
    instants = rig.tell(factor=factor, spread=0.0)
    ours.start()

    def elapsed(holds: Callable[[], bool]) -> float | None:
        left = began + RESTART_SECONDS - time.monotonic()
        try:
            wait_until(holds, left, "the restart", poll_seconds=POLL_SECONDS)
        except TimeoutError:
            return None
        return round(time.monotonic() - began, 1)

    listening = elapsed(lambda: answers(f"{ours.url}/healthz"))
    decided = elapsed(ours.is_ready)
    sized = elapsed(lambda: _waiting(ours) == 0)
    elapsed(lambda: len(first_raises(rig.writes[written:], sizes)) >= len(awaited))
    changes = rig.writes[written:]
    return Restart(
        listening_seconds=listening,
        decided_seconds=decided,
        sized_seconds=sized,
        writes=delays_of(awaited, first_raises(changes, sizes), instants),
        lowered=len({name for _, name, replicas in changes if replicas < sizes[name]}),
        flipped=_flipped(rig, since),
    )


def soak(rig: Rig, ours: Ours, minutes: float, tick_seconds: float, shipped_tick_seconds: float) -> Soak:
    """Run noisy traffic, resources that come and go, and ticks that follow each other faster than is shipped.

    A tick is worth the interval that is shipped: the slope of memory is told for an hour of such ticks.
    """
    rig.programs[OPERATOR].stop()
    ours.start(tickSeconds=tick_seconds)
    wait_until(ours.is_ready, RESTART_SECONDS, "the operator ready", poll_seconds=POLL_SECONDS)
    rig.tell(noisy=True)
    began, ticks = time.monotonic(), ours.ticks(rig.snapshot().pages[OPERATOR])
    samples: list[tuple[float, float]] = []
    rounds = 0
    while (elapsed := time.monotonic() - began) < 60 * minutes:
        samples.append((round(elapsed, 1), round(resident_megabytes(rig.programs[OPERATOR].pid), 1)))
        if elapsed > (rounds + 1) * CHURN_SECONDS:
            _churn(rig, ours, rounds)
            rounds += 1
            report(f"soak: {elapsed / 60:.0f} of {minutes:g} minutes, {samples[-1][1]:.0f} MB")
        time.sleep(SAMPLE_SECONDS)
    done = ours.ticks(rig.snapshot().pages[OPERATOR]) - ticks
    hours = done * shipped_tick_seconds / 3600
    return Soak(done, round(hours, 2), samples, slope_per_hour(samples, hours))


def slope_per_hour(samples: list[tuple[float, float]], hours: float) -> float | None:
    """MB an hour over the second half of these samples, all of which together stand for so many hours."""
    late = samples[len(samples) // 2 :]
    if len(late) < LEAST_SAMPLES or hours <= 0:
        return None
    seconds, megabytes = np.array(late).T
    slope = float(np.polyfit(seconds, megabytes, 1)[0])
    return round(slope * samples[-1][0] / hours, 2)


def _churn(rig: Rig, ours: Ours, rounds: int) -> None:
    count = max(1, round(CHURN_SHARE * len(rig.workloads)))
    for number in range(rounds * count, (rounds + 1) * count):
        workload = rig.workloads[number % len(rig.workloads)]
        ours.withdraw(workload)
        ours.declare_one(workload)


def _flipped(rig: Rig, since: datetime) -> dict[str, int]:
    """Conditions whose status changed since then."""
    flipped: Counter[str] = Counter()
    for each in rig.api.get(f"{RESOURCES}?resourceVersion=0")["items"]:
        conditions = each.get("status", {}).get("conditions", [])
        flipped.update(c["type"] for c in conditions if datetime.fromisoformat(c["lastTransitionTime"]) > since)
    return dict(sorted(flipped.items()))


def _waiting(ours: Ours) -> float | None:
    """Resources that wait for a size; None where the operator does not answer."""
    with suppress(OSError):
        return MetricsPage(read_text(f"{ours.url}/metrics")).sum(WAITING)
    return None
