"""Late requests of a minute with so many replicas, as far as replays of the traffic tell.

First from the late shares of a fleet whose load rises slowly, over and over; then from each schedule that is replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from firsttoken_lab.replay.play import Played, Stage, play
from firsttoken_lab.replay.policies.schedule import SLOT_SECONDS, Schedule
from firsttoken_lab.replay.replicas import ColdStart
from firsttoken_lab.replay.score import inside_sla
from firsttoken_sizing.simulation.requests import Requests
from firsttoken_sizing.workload import Sla

_LEAST_LOAD, _MOST_LOAD = 0.3, 1.5
"""Load per replica of the schedules that late shares are learned from."""
_LUCKY_SHARE = 0.01
"""Share that is on time at the highest of these loads."""
_RAMP_MINUTES, _RECOVERY_MINUTES = 45, 5
"""Load rises slowly, because a replica takes in what it cannot serve for a while before it shows; what is left of the
overload at the end of a ramp is not counted as the low load's."""
_MINUTES_TO_LEARN_FROM = 3000
_MOST_RUNS = 10
_MINUTES_A_CURVE = 200
"""A curve of late shares takes in neighboring fleet sizes until it stands on so many minutes."""
_LEAST_SCALE, _MOST_SCALE = 0.1, 10.0
"""Factors by which the learned shares may be off. NB: below a tenth hardly anything would be left to keep a schedule
from trying sizes that were not tried."""

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
LateShare = Callable[[Floats], Floats]
"""Share of the requests that are late, 0..1, at each of these loads per replica."""


class ExpectedMisses:
    """Late requests to expect, by minute and by number of replicas."""

    def __init__(self, requests: Counts, learned: Floats) -> None:
        """`requests`: of every minute. `learned`: (minutes, replicas), late requests with 1, 2... replicas."""
        self._requests, self._learned = requests[:, np.newaxis], learned
        self._minutes = np.arange(len(requests))
        self._seen = np.full_like(learned, np.nan)
        self._scale = 1.0

    def expected(self) -> Floats:
        """(minutes, replicas): what was seen; elsewhere what was learned, between what fewer and what more showed."""
        seen, is_seen = self._seen, ~np.isnan(self._seen)
        guess = np.minimum(self._learned * self._scale, self._requests)
        of_fewer = np.minimum.accumulate(np.where(is_seen, seen, np.inf), axis=1)
        of_more = np.maximum.accumulate(np.where(is_seen, seen, 0.0)[:, ::-1], axis=1)[:, ::-1]
        return np.where(is_seen, seen, np.maximum(np.minimum(guess, of_fewer), of_more))

    def untried_share(self, schedule: Counts) -> float:
        """Share of the minutes in which the schedule's number of replicas was not tried yet."""
        return float(np.isnan(self._seen[self._minutes, schedule - 1]).mean())

    def learn(self, schedule: Counts, late: Floats) -> None:
        """Learn what a replay of this schedule showed: `late` requests of every minute.

        What is learned is scaled by how much of it came true in the minutes that showed something new. Curves that
        stand on overloads of whole minutes promise several times the late requests that a good schedule has.
        """
        at = self._minutes, schedule - 1
        fresh = np.isnan(self._seen[at])
        foretold = float(self.expected()[at][fresh].sum())
        if foretold > 0:
            came_true = float(late[fresh].sum()) / foretold
            self._scale = float(np.clip(self._scale * came_true, _LEAST_SCALE, _MOST_SCALE))
        # What a minute shows depends on the minutes before it, too, which another schedule changes.
        self._seen[at] = np.where(fresh, late, (self._seen[at] + late) / 2)


def late_by_minute(played: Played, sla: Sla, minutes: int) -> Floats:
    """Requests that came in each minute and were late, or never answered."""
    minute = (played.arrival_seconds // SLOT_SECONDS).astype(np.int64)
    return np.bincount(minute, weights=~inside_sla(played, sla), minlength=minutes).astype(np.float64)


def learned_lateness(
    requests: Requests, stage: Stage, needed: Floats, sla: Sla, most: int, progress: Callable[[str], None]
) -> ExpectedMisses:
    """Learn the late shares with up to `most` replicas. `needed`: replicas (a fraction) for each minute's load."""
    arrived = arrivals_a_minute(requests, len(needed))
    shares = learned_shares(requests, stage, needed, sla, most, progress)
    expected = np.stack([arrived * share(needed / size) for size, share in enumerate(shares, 1)], axis=1)
    return ExpectedMisses(arrived, expected)


def arrivals_a_minute(requests: Requests, minutes: int) -> Counts:
    """Count the requests that came in each minute."""
    return np.bincount((requests.arrival_s // SLOT_SECONDS).astype(np.int64), minlength=minutes)


def learned_shares(
    requests: Requests, stage: Stage, needed: Floats, sla: Sla, most: int, progress: Callable[[str], None]
) -> tuple[LateShare, ...]:
    """Late share by load per replica, of fleets of 1 to `most` replicas. `needed`: as for `learned_lateness`."""
    minutes = len(needed)
    rng = np.random.default_rng(stage.seed)
    runs = min(_MOST_RUNS, -(-_MINUTES_TO_LEARN_FROM // minutes))
    instant = replace(stage, cold_start=ColdStart(0.0, 0.0))
    arrived = arrivals_a_minute(requests, minutes)
    seen: list[tuple[Counts, Floats, Counts]] = []
    for run in range(runs):
        progress(f"learns what is late, {run + 1} of {runs}")
        step = (np.arange(minutes) + rng.integers(_RAMP_MINUTES)) % _RAMP_MINUTES
        load = _LEAST_LOAD + (_MOST_LOAD - _LEAST_LOAD) * step / _RAMP_MINUTES
        schedule = np.clip(np.rint(needed / load), 1, most).astype(np.int64)
        played = play(Schedule("ramps", schedule, 0.0), requests, instant)
        counted = np.where(step < _RECOVERY_MINUTES, 0, arrived).astype(np.int64)
        seen.append((schedule, late_by_minute(played, sla, minutes), counted))
    replicas, late, counts = (np.concatenate([columns[i] for columns in seen]) for i in range(3))
    loads = np.tile(needed, runs) / replicas
    return tuple(_late_share(size, loads, replicas, late, counts) for size in range(1, most + 1))


def _late_share(size: int, loads: Floats, replicas: Counts, late: Floats, counts: Counts) -> LateShare:
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
