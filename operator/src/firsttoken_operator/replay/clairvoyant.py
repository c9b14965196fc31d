"""The clairvoyant: the cheapest schedule of replicas for a load that is known beforehand. A reference, not a bound.

A dynamic programme on a grid of minutes. State: serving replicas; cost: replica-seconds, those of starting and draining
included, plus `price` x late requests. How many would be late is learned from the same simulator and traffic, under
schedules that raise the load of a replica slowly, over and over: the late share by load and by number of replicas.
`price` is the smallest at which the schedule, replayed, reaches the attainment that the SLA asks for. Its starts take
the mean of the cold start exactly: who knows the future knows those, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from firsttoken_operator.replay.play import Played, Stage, play
from firsttoken_operator.replay.policies.schedule import SLOT_SECONDS, Schedule
from firsttoken_operator.replay.replicas import ColdStart
from firsttoken_operator.replay.score import inside_sla
from firsttoken_sizing.simulation.requests import Requests
from firsttoken_sizing.workload import Sla

NAME = "clairvoyant"
DRAIN_SECONDS = 15.0
_LEAST_LOAD, _MOST_LOAD = 0.3, 1.5
"""Load per replica of the schedules that late shares are learned from."""
_LUCKY_SHARE = 0.01
"""Who is on time at the highest of these loads."""
_RAMP_MINUTES, _RECOVERY_MINUTES = 45, 5
"""Load rises slowly, because a replica takes in what it cannot serve for a while before it shows; what is left of the
overload at the end of a ramp is not counted as the low load's."""
_MINUTES_TO_LEARN_FROM = 3000
_MOST_RUNS = 10
_MINUTES_A_CURVE = 200
"""A curve of late shares takes in neighboring fleet sizes until it stands on so many minutes."""
_CHEAPEST, _DEAREST = 1e-3, 1e9
_BISECTIONS = 14
_MOST_REPLAYS = 8
_CLOSEST_PRICES = 1.02
"""Two prices with this ratio make the same schedule, or nearly."""
_CLOSE_ENOUGH = 0.9
"""Misses of at least this share of those that are allowed: not worth another replay."""

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Prospect:
    """What the clairvoyant knows: requests a minute, the replicas that each needs, and what would be late."""

    requests: Counts
    late: Floats
    """(minutes, replicas): expected late requests with 1, 2... replicas."""


def clairvoyant(
    requests: Requests,
    stage: Stage,
    needed: Floats,
    sla: Sla,
    target_percent: float,
    most_replicas: int,
    progress: Callable[[str], None],
) -> Played:
    """The clairvoyant's play. `needed`: replicas (a fraction) for the load of every minute.

    Where even the dearest schedule misses the target, the play with the best attainment.
    """
    stage = replace(stage, cold_start=ColdStart(stage.cold_start.seconds, 0.0))
    prospect = _prospect(requests, stage, needed, sla, most_replicas, progress)
    allowed = 1 - target_percent / 100
    start = stage.cold_start.seconds
    low, high, best, best_missed = 0.0, np.inf, None, np.inf
    price = _price_for(prospect, start, allowed)
    known: dict[bytes, float] = {}
    while len(known) < _MOST_REPLAYS and high > low * _CLOSEST_PRICES:
        schedule = plan(prospect.late, price, start)
        missed = known.get(schedule.tobytes())
        if missed is None:
            played = play(Schedule(NAME, schedule, start), requests, stage)
            missed = known[schedule.tobytes()] = 1 - float(inside_sla(played, sla).mean())
            progress(f"{NAME}: {100 * (1 - missed):.2f} % with {played.replica_seconds / 3600:.1f} replica-hours")
            if best is None or _is_better(missed, played, best_missed, best, allowed):
                best, best_missed = played, missed
        reaches = missed <= allowed
        low, high = (low, price) if reaches else (price, high)
        if (reaches and (missed >= _CLOSE_ENOUGH * allowed or price <= _CHEAPEST)) or low >= _DEAREST:
            break
        price = _next_price(price, missed / allowed, low, high)
    assert best is not None, "there is always a first replay"
    return best


def plan(late: Floats, price: float, start_seconds: float) -> Counts:
    """The cheapest schedule (replicas of every minute) for late requests at a price in replica-seconds."""
    minutes, most = late.shape
    sizes = np.arange(1.0, most + 1)
    stay = sizes * SLOT_SECONDS
    costs = np.empty((minutes, most))
    costs[0] = stay + price * late[0]
    for t in range(1, minutes):
        before = costs[t - 1]
        grown = np.minimum.accumulate(before - start_seconds * sizes) + start_seconds * sizes
        shrunk = np.minimum.accumulate((before + DRAIN_SECONDS * sizes)[::-1])[::-1] - DRAIN_SECONDS * sizes
        costs[t] = np.minimum(grown, shrunk) + stay + price * late[t]
    schedule = np.empty(minutes, np.int64)
    schedule[-1] = int(costs[-1].argmin())
    for t in range(minutes - 2, -1, -1):
        change = schedule[t + 1] - np.arange(most)
        schedule[t] = int((costs[t] + np.where(change > 0, start_seconds * change, -DRAIN_SECONDS * change)).argmin())
    return schedule + 1


def _prospect(
    requests: Requests, stage: Stage, needed: Floats, sla: Sla, most: int, progress: Callable[[str], None]
) -> Prospect:
    """Learn the late shares, and say what they mean for every minute."""
    minutes = len(needed)
    rng = np.random.default_rng(stage.seed)
    runs = min(_MOST_RUNS, -(-_MINUTES_TO_LEARN_FROM // minutes))
    instant = replace(stage, cold_start=ColdStart(0.0, 0.0))
    arrived = np.bincount((requests.arrival_s // SLOT_SECONDS).astype(np.int64), minlength=minutes)
    seen: list[tuple[Counts, Floats, Counts]] = []
    for run in range(runs):
        progress(f"{NAME}: learns what is late, {run + 1} of {runs}")
        step = (np.arange(minutes) + rng.integers(_RAMP_MINUTES)) % _RAMP_MINUTES
        load = _LEAST_LOAD + (_MOST_LOAD - _LEAST_LOAD) * step / _RAMP_MINUTES
        schedule = np.clip(np.rint(needed / load), 1, most).astype(np.int64)
        played = play(Schedule(NAME, schedule, 0.0), requests, instant)
        minute = (played.arrival_seconds // SLOT_SECONDS).astype(np.int64)
        late_requests = np.bincount(minute, weights=~inside_sla(played, sla), minlength=minutes)
        counted = np.where(step < _RECOVERY_MINUTES, 0, arrived).astype(np.int64)
        seen.append((schedule, late_requests.astype(np.float64), counted))
    replicas, late, counts = (np.concatenate([columns[i] for columns in seen]) for i in range(3))
    loads = np.tile(needed, runs) / replicas
    expected = np.empty((minutes, most))
    for size in range(1, most + 1):
        share = _late_share(size, loads, replicas, late, counts)
        expected[:, size - 1] = arrived * share(needed / size)
    return Prospect(arrived, expected)


def _late_share(size: int, loads: Floats, replicas: Counts, late: Floats, counts: Counts) -> Callable[[Floats], Floats]:
    """Late share by load per replica, never falling, of fleets of about this size."""
    from scipy.optimize import isotonic_regression  # NB: imported here, it takes longer than the rest of the command

    distance = np.abs(np.log(replicas / size))
    useful = (counts > 0) & (loads <= _MOST_LOAD)
    if not useful.any():  # the largest fleet is overloaded all the time
        return _overloaded
    reach = np.sort(distance[useful])[min(int(useful.sum()), _MINUTES_A_CURVE) - 1]
    used = np.flatnonzero(useful & (distance <= reach + 1e-9))
    used = used[np.argsort(loads[used], kind="stable")]
    share = isotonic_regression(late[used] / counts[used], weights=counts[used].astype(np.float64)).x
    known = loads[used]

    def at(load: Floats) -> Floats:
        return np.where(load > _MOST_LOAD, _overloaded(load), np.interp(load, known, share))

    return at


def _overloaded(load: Floats) -> Floats:
    """Nearly all are late; fewer with less load, so that a fleet that cannot keep up is still as large as it may be."""
    late: Floats = 1 - _LUCKY_SHARE * _MOST_LOAD / np.maximum(load, _MOST_LOAD)
    return late


def _price_for(prospect: Prospect, start_seconds: float, allowed: float) -> float:
    """The smallest price at which no more than the allowed share is expected to be late."""
    low, high = np.log(_CHEAPEST), np.log(_DEAREST)
    minutes, total = np.arange(len(prospect.requests)), prospect.requests.sum()
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        schedule = plan(prospect.late, float(np.exp(middle)), start_seconds)
        reaches = prospect.late[minutes, schedule - 1].sum() <= allowed * total
        low, high = (low, middle) if reaches else (middle, high)
    return float(np.exp(high))


def _next_price(price: float, misses: float, low: float, high: float) -> float:
    """`misses`: of those allowed. Near the optimum the late requests fall about as one over the price."""
    guess = price * float(np.clip(misses, 0.25, 4.0))
    if low > 0 and np.isfinite(high):
        return guess if low * _CLOSEST_PRICES < guess < high / _CLOSEST_PRICES else float(np.sqrt(low * high))
    return float(np.clip(guess, _CHEAPEST, _DEAREST))


def _is_better(missed: float, played: Played, best_missed: float, best: Played, allowed: float) -> bool:
    """Whether a play beats the best so far: the target first, then the GPU time."""
    if (missed <= allowed) != (best_missed <= allowed):
        return missed <= allowed
    if missed <= allowed:
        return played.replica_seconds < best.replica_seconds
    return missed < best_missed
