"""How long a step takes, and a run of decode steps: the step model in the form that compiled code knows."""

from __future__ import annotations

import math

from firsttoken_sizing.simulation.compiled import compiled
from firsttoken_sizing.simulation.state import Coefficients, Replica, Rules


@compiled
def decode_seconds(step: Coefficients, sequences: int, context: float) -> float:
    """`StepModel.decode_seconds`."""
    seconds: float = step.batch[sequences] + step.context[sequences] * context
    return seconds


@compiled
def prefill_seconds(step: Coefficients, tokens: int, cached: int) -> float:
    """`StepModel.prefill_seconds`."""
    return step.prefill * tokens + step.prefill_squared * tokens * (tokens + 2.0 * cached)


@compiled
def series_seconds(first: float, growth: float, steps: int) -> float:
    """Duration of so many decode steps."""
    return steps * (first + growth * (steps - 1) / 2)


@compiled
def steps_begun(replica: Replica, now: float) -> int:
    """How many steps of a block of decode steps begin before `now` (at least one): the next one may admit somebody."""
    first, growth, elapsed = replica.first_step, replica.growth, now - replica.began
    # n steps take first*n + growth*n*(n-1)/2; solved for n, then put right where rounding was not exact.
    half = first - growth / 2
    steps = max(1, min(int(2 * elapsed / (half + math.sqrt(half * half + 2 * growth * elapsed))), replica.steps))
    while steps < replica.steps and series_seconds(first, growth, steps) < elapsed:
        steps += 1
    while steps > 1 and series_seconds(first, growth, steps - 1) >= elapsed:
        steps -= 1
    return steps


@compiled
def count_time(rules: Rules, replica: Replica) -> bool:
    """Add the block that ends now to the busy time, and to the time that requests spent in a batch.

    Returns whether the block lies in the window in which that is counted, at least in part.
    """
    seconds = min(replica.ends, rules.count_until) - max(replica.began, rules.count_from)
    if seconds <= 0.0:
        return False
    replica.busy += seconds
    replica.batch_seconds += seconds * replica.present
    return True
