"""Error budget: the SLO violations of about the last day, against those that the SLA allows.

The SLA allows a share of late first tokens (1 % for P99). A part of that, less what is irreducible, is the set-point.
Consumption is what the last day violated in multiples of the set-point: 1 is on target, and near 1 while little was
counted. Three things follow from it: how hard full replicas are judged (`gain`), what of their capacity is left free
(`utilization_limit`), and how long a size is kept (`window_multiplier`).

Worked, for an SLA of P99 (set-point 0.38 % late) and 10 requests/s:

| what is seen | consumption | gain | capacity used | stabilization windows |
|---|---|---|---|---|
| nothing yet | 1.00 | 1.00 | 100 % | 1.0 |
| the first hour: 0.2 % late | 0.54 | 3.00 | 100 % | 1.0 |
| a bad hour: 5 % late | 7.01 | 0.25 | 70 % | 2.3 |
| a quiet night: eight hours without requests | 6.93 | 0.25 | 70 % | 2.3 |
| twelve hours at the set-point | 1.27 | 0.25 | 99 % | 1.0 |
| twelve more | 1.07 | 0.63 | 100 % | 1.0 |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_operator.estimate.config import ErrorBudgetConfig


@dataclass(frozen=True, slots=True)
class ErrorBudget:
    """Counts that are forgotten exponentially."""

    violations: float = 0.0
    """Late first tokens, less what idle replicas show. What long prompts foretell is not excused here: a share of all
    requests is promised."""
    requests: float = 0.0
    """All first tokens of that time."""


def update(
    state: ErrorBudget,
    miss_rate: float | None,
    irreducible_share: float,
    requests: float,
    interval_seconds: float,
    config: ErrorBudgetConfig,
) -> ErrorBudget:
    """The counts after one tick: they fade with time, whether or not anything was measured."""
    kept = math.exp(-interval_seconds / config.memory_seconds)
    violations, judged = kept * state.violations, kept * state.requests
    if miss_rate is None:
        return ErrorBudget(violations, judged)
    # NB: not cut off at 0: chance must not count one way only.
    return ErrorBudget(violations + (miss_rate - irreducible_share) * requests, judged + requests)


def set_point(irreducible_share: float, allowed_share: float, config: ErrorBudgetConfig) -> float:
    """Miss rate to aim at, 0..1, beyond the irreducible one."""
    return config.set_point_share * max(allowed_share - irreducible_share, config.least_reducible_share * allowed_share)


def consumption(state: ErrorBudget, aimed_at: float, config: ErrorBudgetConfig) -> float:
    """Violations of about the last day as a multiple of those aimed at."""
    violations = max(state.violations, 0.0)
    return (violations + aimed_at * config.prior_requests) / (state.requests + config.prior_requests) / aimed_at


def gain(consumed: float, config: ErrorBudgetConfig) -> float:
    """Multiple of the set-point at which full replicas are held: what growth consumed is saved there."""
    return min(max(1 + config.gain_slope * (1 - consumed), config.least_gain), config.most_gain)


def window_multiplier(consumed: float, config: ErrorBudgetConfig) -> float:
    """Count the stabilization windows that a size is kept: more where far too many requests were late."""
    return min(max(consumed / config.longer_hold_budgets, 1.0), config.most_window_multiplier)


def utilization_limit(consumed: float, config: ErrorBudgetConfig) -> float:
    """Share of the corrected capacity to use, 0..1: less where the day has consumed too much, whatever on.

    Load that jumps makes requests late before anything can start. What is left free then is all that helps.
    """
    return max(1 - config.reserve_per_budget * max(consumed - 1, 0.0), 1 - config.most_reserve)


def restored(consumed: float, requests: float, aimed_at: float, config: ErrorBudgetConfig) -> ErrorBudget:
    """Counts of which `consumption` says `consumed` (1 or more), of so many requests."""
    violations = aimed_at * (consumed * (requests + config.prior_requests) - config.prior_requests)
    return ErrorBudget(violations, requests)
