"""The causal bound: the cheapest fleet for one who knows the present exactly, and of the future only how load moves.

It knows the present rate and lengths (those that the requests are drawn from, where they are made), what a replica
carries, how long a start takes, and how load has moved on this trace so far. Every minute it takes the minutes of the
past that were most like this one, lets the load go on as it did after each of them, and asks for the size that is
cheapest over these scenarios: see docs/replay.md. What is between it and the clairvoyant is the price of not knowing
the future; what is between it and a policy is what the policy could still learn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from firsttoken_lab.replay.clairvoyant import DRAIN_SECONDS
from firsttoken_lab.replay.compare import Scene
from firsttoken_lab.replay.late import Counts, Floats, LateShare, arrivals_a_minute, late_by_minute, learned_shares
from firsttoken_lab.replay.load import costs
from firsttoken_lab.replay.play import Played, Stage, play
from firsttoken_lab.replay.policies.schedule import SLOT_SECONDS, Schedule
from firsttoken_lab.replay.replicas import ColdStart
from firsttoken_lab.replay.series import Series
from firsttoken_sizing.performance.work import Work, work_of
from firsttoken_sizing.simulation.requests import Requests
from firsttoken_sizing.workload import Sla

NAME = "causal-bound"
SPANS_MINUTES = (1, 5, 15, 60)
"""Moves of the last so many minutes by which minutes are compared."""
LEVEL_WEIGHT, HOUR_WEIGHT = 0.01, 0.0003
"""Weights of the level (squared logarithm) and of the hour of the day (squared hours) beside the moves."""
SCENARIOS = 64
AHEAD_STARTS, AHEAD_MINUTES = 3, 15
"""A scenario is followed for so many starts, and for so many minutes more."""
_STEPS = 240
"""Loads of the table of late shares."""
_CHEAPEST, _DEAREST = 1.0, 1e4
_BISECTIONS = 7
_MOST_REPLAYS = 7
_STEEPNESS = 0.8
"""Misses fall with about this power of the price, before two replays have said it."""
_NO_STEP = 1e-3
_CLOSE_ENOUGH = 0.96
"""Misses of at least this share of those that are allowed: the search for the price ends."""


@dataclass(frozen=True, slots=True)
class Moving:
    """Load of every minute, as far as it is known when the minute begins."""

    replicas: Floats
    """Replicas (a fraction) that it needs."""
    requests: Floats
    """Requests of a minute at this rate."""


def known_load(requests: Requests, cost: Floats, work: Work, series: Series | None) -> Moving:
    """The load that is known: of a series its rate and mean lengths at that second, else the work of the last minute.

    `cost`: replica-seconds of each request. `work`: the law that they were computed by.
    """
    minutes = int(requests.arrival_s[-1] // SLOT_SECONDS) + 1
    if series is None:
        minute = (requests.arrival_s // SLOT_SECONDS).astype(np.int64)
        done = np.bincount(minute, weights=cost, minlength=minutes) / SLOT_SECONDS
        count = arrivals_a_minute(requests, minutes).astype(np.float64)
        return Moving(*(np.maximum(np.concatenate((seen[:1], seen[:-1])), 1e-3) for seen in (done, count)))
    at = SLOT_SECONDS * np.arange(minutes)
    rate = np.interp(at, series.at_seconds, series.requests_per_second)
    prompt, output = (
        np.full(minutes, mean) if means is None else np.interp(at, series.at_seconds, means)
        for means, mean in (
            (series.mean_input_tokens, work.input_tokens),
            (series.mean_output_tokens, work.output_tokens),
        )
    )
    load = rate * work.seconds(prompt, work.uncached_share * prompt, output)
    # Lengths that scatter cost more than their mean, by about the same factor at all times.
    scatter = cost.sum() / SLOT_SECONDS / load.sum()
    return Moving(np.maximum(scatter * load, 1e-3), np.maximum(SLOT_SECONDS * rate, 1e-3))


def known_so_far(
    scene: Scene, progress: Callable[[str], None], asked_percent: float, judged_from_seconds: float
) -> Played:
    """The bound's play of a scene; `asked_percent` is to be attained from `judged_from_seconds` on."""
    setting, requests = scene.context.setting, scene.traffic.requests
    work = work_of(setting.subject.step, setting.subject.lengths, setting.largest_batch)
    return causal_bound(
        requests,
        replace(scene.stage, failures_per_day=0.0),
        known_load(requests, costs(work, requests), work, scene.traffic.series),
        scene.sla,
        asked_percent,
        scene.context.minimum,
        scene.most_replicas,
        judged_from_seconds,
        progress,
    )


def causal_bound(
    requests: Requests,
    stage: Stage,
    known: Moving,
    sla: Sla,
    target_percent: float,
    least_replicas: int,
    most_replicas: int,
    judged_from_seconds: float,
    progress: Callable[[str], None],
) -> Played:
    """The bound's play: at the lowest price of a late request at which the target is attained.

    Its starts take the mean exactly. Where no play attains the target, the one with the best attainment.
    """
    start = stage.cold_start.seconds
    stage = replace(stage, cold_start=ColdStart(start, 0.0), metric_outages=((0.0, math.inf),))
    shares = learned_shares(
        requests, stage, known.replicas, sla, most_replicas, lambda text: progress(f"{NAME}: {text}")
    )
    chooser = Chooser(known, shares, start, least_replicas)
    judged = arrivals_a_minute(requests, len(known.replicas))
    first = int(judged_from_seconds // SLOT_SECONDS)
    allowed = (1 - target_percent / 100) * float(judged[first:].sum())
    price, steepness = chooser.price_for(allowed, first), _STEEPNESS
    seen: list[tuple[float, float]] = []
    best, found = (math.inf, math.inf), None
    for _ in range(_MOST_REPLAYS):
        played = play(Schedule(NAME, chooser.at(price)[0], 0.0), requests, stage)
        missed = float(late_by_minute(played, sla, len(judged))[first:].sum())
        progress(f"{NAME}: {missed:.0f} late of {allowed:.0f}, {played.replica_seconds / 3600:.1f} replica-hours")
        rank = (max(missed, allowed), played.replica_seconds)
        if rank < best:
            best, found = rank, played
        if _CLOSE_ENOUGH * allowed <= missed <= allowed:
            break
        seen.append((math.log(price), math.log(max(missed, 1.0))))
        if len(seen) > 1 and abs(seen[-1][0] - seen[-2][0]) > _NO_STEP:
            slope = (seen[-1][1] - seen[-2][1]) / (seen[-1][0] - seen[-2][0])
            steepness = min(max(-slope, _STEEPNESS / 3), 3 * _STEEPNESS)
        aimed = (1 + _CLOSE_ENOUGH) / 2 * allowed
        price *= (max(missed, 1.0) / aimed) ** (1 / steepness)
    assert found is not None, "there is always a first replay"
    return found


class Chooser:
    """Chooses the sizes for a price of late requests."""

    def __init__(self, known: Moving, shares: tuple[LateShare, ...], start_seconds: float, least_replicas: int) -> None:
        """`shares`: the late share by load of 1, 2... replicas."""
        # NB: imported here, because compiling needs numba and that takes longer to import than all the rest.
        from firsttoken_lab.replay import moves

        self._known, self._least, self._moves = known, least_replicas, moves
        self._start_minutes = max(1, math.ceil(start_seconds / SLOT_SECONDS))
        self._ahead = AHEAD_STARTS * self._start_minutes + AHEAD_MINUTES
        self._log_load = np.log(known.replicas)
        self._found = moves.alike(
            self._log_load, np.array(SPANS_MINUTES), LEVEL_WEIGHT, HOUR_WEIGHT, self._ahead, SCENARIOS
        )
        grid = np.linspace(self._log_load.min() - 1.0, math.log(2.0 * len(shares)), _STEPS)
        self._log_least, self._log_step = float(grid[0]), float(grid[1] - grid[0])
        loads = np.exp(grid)
        self._late = np.stack([share(loads / size) for size, share in enumerate(shares, 1)], axis=1)

    def at(self, price: float) -> tuple[Counts, Floats]:
        """Replicas asked for at every minute, and the late requests to expect in it."""
        asked, serving = self._moves.sizes_asked(
            self._log_load, self._known.requests, self._found, self._late[:, self._least - 1 :], self._log_least,
            self._log_step, self._ahead, self._start_minutes, SLOT_SECONDS, DRAIN_SECONDS, price, self._least,
        )  # fmt: skip
        rows = np.clip(np.rint((self._log_load - self._log_least) / self._log_step), 0, _STEPS - 1).astype(np.int64)
        return asked, self._known.requests * self._late[rows, serving - 1]

    def price_for(self, allowed: float, first: int) -> float:
        """Lowest price at which no more than `allowed` are expected to be late from minute `first` on, about."""
        low, high = math.log(_CHEAPEST), math.log(_DEAREST)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if self.at(math.exp(middle))[1][first:].sum() <= allowed:
                high = middle
            else:
                low = middle
        return math.exp(high)
