"""Witnesses: how large a fleet may become before a second signal has asked for it too.

One absurd sample of a counter stays in a rate for a whole window. So within a window a fleet grows to twice its size on
one signal's word (or by four replicas), and beyond that only as far as a second witness asks for as much:

- an earlier window that shares no sample with this one;
- a gateway beside the engines;
- the histogram of TTFT: where a tenth of the first tokens is late, the fleet is too small, and a tick may double it.

What a process asked for before a restart is not known, but from which size it grew, and whether that was cut short:
then its window is a witness to any size. A restart is no reason for fewer replicas.

Nothing older than two windows counts: a first hour, a bad hour and a quiet night leave no trace here.

Worked, replicas at each tick. 12 of them, at most 60, serve 5 requests/s each; 50 requests/s become 250:

| seconds | one absurd sample of a counter | no witness | first tokens are late | a gateway counts 250 too |
|---|---|---|---|---|
| 0 | 24 | 24 | 24 | 24 |
| 15 | 24 | 24 | 48 | 48 |
| 30 | 24 | 24 | 60 | 50 |
| 45 | 24 | 24 | 60 | 50 |
| 60 | 24 | 48 | 60 | 50 |
| 75 | 24 | 50 | 60 | 50 |
"""

from __future__ import annotations

import math

from firsttoken_operator.domain import Value
from firsttoken_operator.estimate import miss_rate
from firsttoken_operator.estimate.config import WitnessConfig
from firsttoken_operator.estimate.demand import Demand, LoadSample, recent
from firsttoken_operator.estimate.situation import Situation

UNKNOWN_REQUESTS_PER_SECOND = math.inf
"""Asked for by a process before this one: more than it was given."""


def update(asked: tuple[LoadSample, ...], now: LoadSample, window_seconds: float) -> tuple[LoadSample, ...]:
    """Keep what was asked within two windows, this tick included."""
    return (*recent(asked, now.at_seconds, 2 * window_seconds), now)


def most_replicas(at: Situation, demand: Demand) -> int:
    """The largest size that this tick may go to."""
    law, asked, step = at.config.witnesses, at.memory.asked, most_at_once(at)
    late = miss_rate.measured(at.metrics.ttft, at.config.miss_rate)
    if late is not None and late >= law.late_share:
        return step
    # NB: ticks come early by milliseconds; so much earlier a window shares a sample with this one, and no increase.
    disjoint = at.tick.clock_seconds - at.metrics.window_seconds + law.early_share * at.tick.interval_seconds
    earlier = max((each.requests_per_second for each in asked if each.at_seconds <= disjoint), default=0.0)
    if earlier == UNKNOWN_REQUESTS_PER_SECOND:
        return step
    engines, gateway = at.metrics.arrivals, at.metrics.gateway_arrivals
    both = min(engines.value, gateway.value) if isinstance(engines, Value) and isinstance(gateway, Value) else 0.0
    agreed = at.sized.table.replicas_for(max(earlier, both * demand.request_cost), at.capacity_factor)
    least = min((each.replicas for each in asked if each.at_seconds > disjoint), default=at.target.replicas)
    return min(step, max(grown(least, law), agreed + at.target.stuck))


def most_at_once(at: Situation) -> int:
    """The largest size of one step: from the smallest that it had at the ticks of this step."""
    begun = at.tick.clock_seconds - at.config.witnesses.step_share * at.tick.interval_seconds
    sizes = [each.replicas for each in at.memory.asked if each.at_seconds > begun]
    return grown(min(sizes, default=at.target.replicas), at.config.witnesses)


def grown(replicas: int, law: WitnessConfig) -> int:
    """Count the replicas that a fleet may become at one step."""
    return replicas + max(law.scale_up_replicas, math.ceil(replicas * law.scale_up_percent / 100))
