"""How fast the replicas really are: the requests inside them tell, at any load, within minutes.

By Little's law a replica holds `rate x time in it` requests. Where every step takes `s` times as long as the model
says, a replica at rate x is the modeled one at rate x*s with all its times stretched by s, so that it holds

    rate * s * (TTFT(x*s) + (output tokens - 1) * ITL(x*s))

requests. The `s` at which that is what was counted is the replicas' slowness; 1 / s is what is kept. It says nothing of
the tail of TTFT: that is `capacity`'s.
"""

from __future__ import annotations

import math
from dataclasses import replace

from firsttoken_operator.domain import Metrics, Target, Value
from firsttoken_operator.estimate.memory import DOUBTED_TICKS, MODEL_ERROR, Calibration
from firsttoken_sizing.performance.table import CapacityTable

LOWEST_SPEED, HIGHEST_SPEED = 0.4, 2.5
"""What is measured outside of these is an outlier: metrics that do not belong together, no replica of that kind."""
FEWEST_REQUESTS = 8.0
"""Requests in all replicas: fewer are a matter of chance."""
QUEUED_SHARE = 0.1
"""More waiting requests than this share of the running ones are an overload, to which Little's law does not apply."""
MEMORY_TICKS = 240.0
"""An hour of ticks is remembered."""
_HALVINGS = 10


def measured_speed(metrics: Metrics, target: Target, cost: float, table: CapacityTable) -> float | None:
    """Speed of a replica as a multiple of the modeled one; None where this tick does not say it.

    `cost`: replica-seconds of a live request in those of a declared one.
    """
    running, waiting, arrivals = metrics.running, metrics.waiting, metrics.arrivals
    # NB: never a gateway's rate: one that counts retries would make the replicas look fast.
    if not (isinstance(running, Value) and isinstance(waiting, Value) and isinstance(arrivals, Value)):
        return None
    if (
        not arrivals.value
        or running.value < FEWEST_REQUESTS
        or waiting.value > QUEUED_SHARE * running.value
        or table.work is None
    ):
        return None
    inside = (running.value + waiting.value) / target.ready
    output = metrics.output_tokens.value if isinstance(metrics.output_tokens, Value) else table.work.output_tokens
    rate = arrivals.value / target.ready
    like = rate * cost

    def held(slowness: float) -> float:
        ttft, itl = table.means_at(like * slowness, target.ready)
        if ttft is None or itl is None:
            return math.nan
        return rate * slowness * (ttft + max(output - 1, 0.0) * itl) / 1000

    low, high = 1 / HIGHEST_SPEED, 1 / LOWEST_SPEED
    if not held(low) < inside < held(high):  # NB: also where a mean is not known, which is NaN here
        return None
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if held(middle) < inside else (low, middle)
    return 1 / math.sqrt(low * high)


def with_speed(known: Calibration, speed: float) -> Calibration:
    """The average of the logarithms of what was measured: of all of it at first, later of about the last hour."""
    ticks = min(known.speed_ticks + 1, MEMORY_TICKS)
    log_speed = known.log_speed + (math.log(speed) - known.log_speed) / ticks
    return replace(known, log_speed=log_speed, speed_ticks=ticks)


def with_known_speed(known: Calibration, speed: float) -> Calibration:
    """A calibration that believes in `speed` as after an hour of measuring it; 1 is nothing measured."""
    if speed == 1:
        return replace(known, log_speed=0.0, speed_ticks=0.0)
    measured = math.copysign(abs(math.log(speed)) + MODEL_ERROR, math.log(speed))
    return replace(known, log_speed=measured * (1 + DOUBTED_TICKS / MEMORY_TICKS), speed_ticks=MEMORY_TICKS)
