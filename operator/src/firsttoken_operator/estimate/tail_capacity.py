"""Tail capacity: the miss rate of full replicas corrects what one of them carries, never the replica count directly.

The capacity is right where about the set-point of the error budget is late on full replicas. So full replicas with
hardly a violation carry more than was sized, and full replicas with too many carry less. The factor on the sized
capacity follows that by small steps (stochastic approximation; Robbins and Monro 1951), faster in the first hours than
later. What keeps it honest is in docs/design/control.md ("What is learned").

Worked, for an SLA of P99 and a budget gain of 1; full replicas are at their corrected capacity:

| what is seen | slow correction | fast correction | factor |
|---|---|---|---|
| the first hour, replicas full: none late | 1.22 | 1.00 | 1.22 |
| three hours more | 1.49 | 1.00 | 1.49 |
| a quiet night, replicas half full | 1.49 | 1.00 | 1.49 |
| a bad hour, replicas full, 5 % late: its first minute | 1.49 | 0.98 | 1.46 |
| ten minutes | 1.48 | 0.75 | 1.11 |
| all of it | 0.93 | 0.75 | 0.70 |
| an hour at 0.9 of the capacity, none late | 0.93 | 0.84 | 0.78 |
| another | 0.93 | 0.94 | 0.87 |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_operator.estimate.config import TailCapacityConfig

_SECONDS_AN_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class TailCapacity:
    """Two corrections of the capacity of a replica, beside its speed."""

    slow_correction: float = 1.0
    """Correction that goes on for hours."""
    fast_correction: float = 1.0
    """Correction on top of it for now, at most 1: what jumps and bad hours take, and quiet ones give back."""
    hours: float = 0.0
    """Hours of replicas near their capacity that both stand on."""


@dataclass(frozen=True, slots=True)
class TailSample:
    """Sample that one tick of a settled fleet gives."""

    error_signal: float
    """1 without a violation, 0 at the set-point, negative beyond it (`error_signal`)."""
    budget_gain: float
    is_clear: bool
    """True where so many are late that even replicas with room carry less."""
    utilization: float
    """Offered load as a share of the corrected capacity."""
    violating_windows: float
    """Rate windows in a row above the set-point."""
    most_factor: float
    """Factor that the model allows at most, whatever is learned, at the modeled speed."""
    interval_seconds: float
    window_seconds: float


def error_signal(
    miss_rate: float,
    irreducible_share: float,
    idle_share: float,
    held_at: float,
    allowed_share: float,
    config: TailCapacityConfig,
) -> float:
    """Distance of the miss rate below the one to hold full replicas at, in multiples of that.

    `irreducible_share`: all that is irreducible; `idle_share`: the part of it that idle replicas showed.
    """
    signal = min(1 - (miss_rate - irreducible_share) / held_at, config.most_error_signal)
    if miss_rate - idle_share > allowed_share:
        # What the SLA forbids says of no replica that it carries more, whatever the prompts foretell.
        signal = min(signal, 0.0)
    return signal


def update(state: TailCapacity, sample: TailSample, speed: float, config: TailCapacityConfig) -> TailCapacity:
    """The corrections after one tick, of replicas of this speed."""
    weight = _weight(state, sample, config)
    if weight == 0 or sample.utilization > config.overload_utilization:
        return state
    hours = sample.interval_seconds / _SECONDS_AN_HOUR
    gain = max(config.least_gain_per_hour, config.first_gain_per_hour / (1 + state.hours))
    gain *= max(sample.budget_gain, 1.0) if sample.error_signal > 0 else 1.0
    is_first = sample.violating_windows < config.first_windows
    largest = config.first_step_down if is_first else config.later_step_down
    step = max(gain * hours * weight * sample.error_signal, -largest * sample.interval_seconds / sample.window_seconds)
    return _stepped(state, step, sample.most_factor * max(speed, 1.0), speed, state.hours + weight * hours, config)


def factor(state: TailCapacity, speed: float, config: TailCapacityConfig) -> float:
    """The corrected capacity as a share of the sized one; 1 is as sized."""
    return min(max(state.slow_correction * state.fast_correction * speed, config.least_factor), config.most_factor)


def restored(known_factor: float, speed: float, config: TailCapacityConfig) -> TailCapacity:
    """The state of which `factor` says `known_factor`, which moves as slowly as one that stands on many hours.

    NB: all of it counts as slow correction, though some may have been a fast one: that would come back sooner.
    """
    hours = config.first_gain_per_hour / config.least_gain_per_hour - 1
    return TailCapacity(slow_correction=max(config.least_factor, known_factor) / speed, hours=hours)


def _weight(state: TailCapacity, sample: TailSample, config: TailCapacityConfig) -> float:
    """Weigh what the sample says of the capacity, 0..1: the fuller the replicas, the more."""
    if sample.is_clear:
        return 1.0
    grows = sample.error_signal > 0 and state.fast_correction >= 1 and state.slow_correction >= 1
    start, full = (
        (config.growth_least_utilization, config.growth_full_utilization)
        if grows
        else (config.least_utilization, config.full_utilization)
    )
    return min(max((sample.utilization - start) / (full - start), 0.0), 1.0)


def _stepped(
    state: TailCapacity, step: float, most: float, speed: float, hours: float, config: TailCapacityConfig
) -> TailCapacity:
    """The corrections after one step (logarithm): the fast one moves freely, the slow one only beyond it.

    An hour of jumps is no reason to take replicas for half as large for a day, nor is a quiet one to take them for half
    as large again: the next jump then finds no room at all.
    """
    fast = min(max(state.fast_correction * math.exp(step), config.least_fast_correction), 1.0)
    beyond = step - math.log(fast / state.fast_correction)
    share = max(config.slow_share, 1 / (1 + state.hours))
    beside, before = speed * fast, state.slow_correction
    # NB: replicas so slow that they are below the least as they are must not be taken for better ones by a bad hour.
    least = min(before, config.least_factor / beside)
    slow = min(max(before * math.exp(share * beyond), least), most / beside)
    return TailCapacity(slow, fast, hours)
