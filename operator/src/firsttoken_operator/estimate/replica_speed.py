"""Replica speed: the requests inside replicas tell how fast these really are, at any load, within minutes.

By Little's law a replica holds `rate x time in it` requests. Where every step takes `s` times as long as the model
says, a replica at rate x is the modeled one at rate x*s with all its times stretched by s, so that it holds

    rate * s * (TTFT(x*s) + (output tokens - 1) * ITL(x*s))

requests. The `s` at which that is what was counted is the replicas' slowness; 1 / s is what is kept. It says nothing of
the tail of TTFT: that is `tail_capacity`'s.

Worked, with a measurement every 15 s:

| what is seen | seconds of measurements | speed |
|---|---|---|
| the first one: 0.80 of the modeled speed | 15 | 1.00 |
| five minutes of them | 300 | 0.99 |
| the first hour: all of it but the uncertainty bound | 3600 | 0.90 |
| a bad hour: GPUs that are throttled to 0.50 | 3600 | 0.68 |
| a quiet night: fewer than 8 requests inside, nothing is measured | 3600 | 0.68 |
| replicas as modeled again: 15 minutes | 3600 | 0.76 |
| two hours | 3600 | 1.00 |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_operator.domain import Metrics, Target, Value
from firsttoken_operator.estimate.config import ReplicaSpeedConfig
from firsttoken_sizing.performance.table import CapacityTable


@dataclass(frozen=True, slots=True)
class ReplicaSpeed:
    """Measurements of the speed, averaged."""

    log_speed: float = 0.0
    """Natural logarithm of the speed as a multiple of the modeled one, averaged."""
    seconds: float = 0.0
    """Time that the measurements it stands on are of."""


def update(
    state: ReplicaSpeed, measured_speed: float, elapsed_seconds: float, config: ReplicaSpeedConfig
) -> ReplicaSpeed:
    """The average of the logarithms of what was measured: of all of it at first, later of about the last hour.

    A measurement counts for the time since the one before.
    """
    seconds = min(state.seconds + elapsed_seconds, config.memory_seconds)
    weight = min(elapsed_seconds / seconds, 1.0) if seconds else 0.0
    return ReplicaSpeed(state.log_speed + (math.log(measured_speed) - state.log_speed) * weight, seconds)


def speed(state: ReplicaSpeed, config: ReplicaSpeedConfig) -> float:
    """Speed of a replica as a multiple of the modeled one, drawn towards that while little was measured.

    What lies within the model's own error is no other speed.
    """
    drawn = state.log_speed * state.seconds / (state.seconds + config.prior_seconds)
    return math.exp(math.copysign(max(abs(drawn) - config.model_error, 0.0), drawn))


def is_known(state: ReplicaSpeed, config: ReplicaSpeedConfig) -> bool:
    """Tell whether more was measured than the modeled speed counts for."""
    return state.seconds >= config.prior_seconds


def restored(known_speed: float, config: ReplicaSpeedConfig) -> ReplicaSpeed:
    """The state of which `speed` says `known_speed`, as after an hour of measuring it; 1 is nothing measured."""
    if known_speed == 1:
        return ReplicaSpeed()
    log_speed = math.copysign(abs(math.log(known_speed)) + config.model_error, math.log(known_speed))
    return ReplicaSpeed(log_speed * (1 + config.prior_seconds / config.memory_seconds), config.memory_seconds)


def measured(
    metrics: Metrics, target: Target, token_cost: float, table: CapacityTable, config: ReplicaSpeedConfig
) -> float | None:
    """Speed of a replica as a multiple of the modeled one; None where this tick does not say it.

    `token_cost`: replica-seconds of a live request in those of a declared one.
    """
    running, waiting, arrivals = metrics.running, metrics.waiting, metrics.arrivals
    # NB: never a gateway's rate: one that counts retries would make the replicas look fast.
    if not (isinstance(running, Value) and isinstance(waiting, Value) and isinstance(arrivals, Value)):
        return None
    if (
        not arrivals.value
        or running.value < config.least_requests
        or waiting.value > config.most_queued_share * running.value
        or table.work is None
    ):
        return None
    inside = (running.value + waiting.value) / target.ready
    output = metrics.output_tokens.value if isinstance(metrics.output_tokens, Value) else table.work.output_tokens
    rate = arrivals.value / target.ready
    like = rate * token_cost

    def held(slowness: float) -> float:
        ttft, itl = table.means_at(like * slowness, target.ready)
        if ttft is None or itl is None:
            return math.nan
        return rate * slowness * (ttft + max(output - 1, 0.0) * itl) / 1000

    low, high = 1 / config.most_speed, 1 / config.least_speed
    if not held(low) < inside < held(high):  # NB: also where a mean is not known, which is NaN here
        return None
    for _ in range(config.bisections):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if held(middle) < inside else (low, middle)
    return 1 / math.sqrt(low * high)
