"""The clairvoyant: the cheapest schedule of replicas for a load that is known beforehand. A reference, not a bound.

A dynamic programme on a grid of minutes, planned, replayed and corrected in turns: see docs/replay.md. State: serving
replicas; cost: replica-seconds, those of starting and draining included, plus `price` x late requests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from firsttoken_lab.replay.late import Counts, Floats, late_by_minute, learned_lateness
from firsttoken_lab.replay.play import Played, Stage, play
from firsttoken_lab.replay.policies.schedule import SLOT_SECONDS, Schedule
from firsttoken_lab.replay.replicas import ColdStart
from firsttoken_sizing.simulation.requests import Requests
from firsttoken_sizing.workload import Sla

NAME = "clairvoyant"
DRAIN_SECONDS = 15.0
_CHEAPEST, _DEAREST = 1e-3, 1e9
_BISECTIONS = 24
_MOST_REPLAYS = 8
_CLOSE_ENOUGH = 0.9
"""Misses of at least this share of those that are allowed: not worth another replay by themselves."""
_WORTHWHILE = 0.002
"""A replay that saves less than this share of the GPU time is the last one."""
_TRIED = 0.001
"""Share of untried minutes below which a replay shows nothing new."""


def clairvoyant(
    requests: Requests,
    stage: Stage,
    needed: Floats,
    sla: Sla,
    target_percent: float,
    least_replicas: int,
    most_replicas: int,
    progress: Callable[[str], None],
) -> Played:
    """The clairvoyant's play. `needed`: replicas (a fraction) for the load of every minute.

    Where even the dearest schedule misses the target, the play with the best attainment.
    """
    start, minutes = stage.cold_start.seconds, len(needed)
    stage = replace(stage, cold_start=ColdStart(start, 0.0), metric_outages=((0.0, math.inf),))
    lateness = learned_lateness(requests, stage, needed, sla, most_replicas, lambda text: progress(f"{NAME}: {text}"))
    allowed = (1 - target_percent / 100) * len(requests)
    aim = allowed
    best: tuple[float, Played] | None = None
    known: set[bytes] = set()
    while len(known) < _MOST_REPLAYS:
        expected = lateness.expected()
        schedule = _cheapest_inside(expected, aim, start, least_replicas)
        if schedule.tobytes() in known:
            break
        known.add(schedule.tobytes())
        played = play(Schedule(NAME, schedule, start), requests, stage)
        late = late_by_minute(played, sla, minutes)
        missed, is_old = float(late.sum()), lateness.untried_share(schedule) <= _TRIED
        lateness.learn(schedule, late)
        # What a plan leaves out is what one minute passes on to the next: it promises too much, by about as much again.
        aim = allowed * min(1.0, float(expected[np.arange(minutes), schedule - 1].sum()) / max(missed, 1.0))
        attained = 100 * (1 - missed / len(requests))
        progress(f"{NAME}: {attained:.2f} % with {played.replica_seconds / 3600:.1f} replica-hours")
        gained = _gain(missed, played, best, allowed)
        if gained > 0:
            best = missed, played
        if _CLOSE_ENOUGH * allowed <= missed <= allowed and (is_old or gained < _WORTHWHILE):
            break
    assert best is not None, "there is always a first replay"
    return best[1]


def plan(late: Floats, price: float, start_seconds: float, least_replicas: int = 1) -> Counts:
    """The cheapest schedule (replicas of every minute) for late requests at a price in replica-seconds."""
    # NB: imported here, because compiling needs numba and that takes longer to import than all the rest.
    from firsttoken_lab.replay.cheapest import cheapest_path

    serving = SLOT_SECONDS * np.arange(least_replicas, late.shape[1] + 1.0)
    costs = serving + price * late[:, least_replicas - 1 :]
    return cheapest_path(costs, start_seconds, DRAIN_SECONDS) + least_replicas


def _cheapest_inside(late: Floats, allowed: float, start_seconds: float, least_replicas: int) -> Counts:
    """The plan at the smallest price at which no more than so many are expected to be late; else at the highest."""
    low, high = math.log(_CHEAPEST), math.log(_DEAREST)
    minutes, best = np.arange(len(late)), plan(late, _DEAREST, start_seconds, least_replicas)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        schedule = plan(late, math.exp(middle), start_seconds, least_replicas)
        if late[minutes, schedule - 1].sum() <= allowed:
            high, best = middle, schedule
        else:
            low = middle
    return best


def _gain(missed: float, played: Played, best: tuple[float, Played] | None, allowed: float) -> float:
    """Share of the GPU time that a play saves over the best so far; 1 where it is the better one by what it misses."""
    if best is None:
        return 1.0
    best_missed, best_played = best
    if missed > allowed or best_missed > allowed:
        return 1.0 if missed < best_missed else 0.0
    return 1 - played.replica_seconds / best_played.replica_seconds
