"""Demand: what arrived, not what was served, counted by what it costs, plus what drains the backlog in time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_operator.domain import Idle, Metrics, Reason, ScalingPolicy, Value
from firsttoken_operator.estimate.memory import DemandSample
from firsttoken_sizing.performance.table import CapacityTable

MOST_WORK_RATIO = 8.0
"""Requests that count for more than so many declared ones, or for less than that part of one, are an accident."""

LONG_PROMPTS = 0.4
"""Exponent of the prompt's length by which a replica carries less beyond what its prompts cost: they hold up those
behind them for longer, and the limit stays as it is. Replicas of the simulator that fill up with prompts 1.4 and 2
times as long as declared keep an SLA of P99 up to 0.86 and 0.76 of the declared fill."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests a second to be served now: arrivals, and the share that works off the backlog.

    `work_ratio` is what one of them costs in requests of the declared lengths.
    """

    arrivals_per_second: float
    backlog_requests: float
    backlog_per_second: float
    work_ratio: float = 1.0

    @property
    def arriving_load(self) -> float:
        """Arrivals, counted in requests of the declared lengths, a second."""
        return self.arrivals_per_second * self.work_ratio

    @property
    def total_per_second(self) -> float:
        """What the replicas have to serve, in requests of the declared lengths a second."""
        return (self.arrivals_per_second + self.backlog_per_second) * self.work_ratio


def demand(metrics: Metrics, policy: ScalingPolicy, work_ratio: float = 1.0) -> Demand | None:
    """The demand that the metrics prove, or None where they prove nothing (which is not zero).

    Where a gateway counts requests too, the larger of the two: one of its pods that is not scraped goes unnoticed.
    """
    arrivals, started = metrics.arrivals, metrics.gateway_arrivals
    if not metrics.may_raise:
        # What a gateway counts may still ask for more; that the pods say nothing forbids to give anything back.
        if isinstance(started, Value) and started.value > 0:
            return Demand(started.value, 0.0, 0.0, work_ratio)
        return None
    if isinstance(started, Value) and started.value > (arrivals.value if isinstance(arrivals, Value) else 0.0):
        arrivals = started
    elif metrics.health is Reason.IDLE or isinstance(arrivals, Idle):
        return Demand(0.0, 0.0, 0.0)
    if not isinstance(arrivals, Value):
        return None
    waiting = metrics.waiting.value if isinstance(metrics.waiting, Value) else 0.0
    return Demand(arrivals.value, waiting, waiting / policy.backlog_drain_seconds, work_ratio)


def can_wake_up(metrics: Metrics) -> bool:
    """Whether a gateway would tell of requests that come while there is no replica."""
    return isinstance(metrics.gateway_arrivals, Value | Idle)


def live_cost(metrics: Metrics, table: CapacityTable) -> float | None:
    """Replica-seconds of a live request in those of a declared one, by the mean tokens of the window; None: unknown."""
    found = _cost_and_prompt(metrics, table)
    return None if found is None else found[0]


def live_work_ratio(metrics: Metrics, table: CapacityTable) -> float | None:
    """For how many declared requests a live one counts: what it costs, and the waits behind prompts that are longer."""
    found = _cost_and_prompt(metrics, table)
    if found is None:
        return None
    cost, prompt = found
    return min(max(cost * float(max(prompt, 1.0) ** LONG_PROMPTS), 1 / MOST_WORK_RATIO), MOST_WORK_RATIO)


def _cost_and_prompt(metrics: Metrics, table: CapacityTable) -> tuple[float, float] | None:
    """Cost and length of the prompt of a live request, both in those of a declared one."""
    prompt, output = metrics.input_tokens, metrics.output_tokens
    if table.work is None or not (isinstance(prompt, Value) and isinstance(output, Value)):
        return None
    cost = float(table.work.relative(prompt.value, output.value))
    return (cost, prompt.value / table.work.input_tokens) if math.isfinite(cost) else None


def window_maximum(samples: tuple[DemandSample, ...]) -> float:
    """Largest raw demand of the samples, requests a second (0 without samples)."""
    return max((s.requests_per_second for s in samples), default=0.0)


def recent(samples: tuple[DemandSample, ...], clock_seconds: float, window_seconds: float) -> tuple[DemandSample, ...]:
    """The samples of the last `window_seconds`."""
    return tuple(s for s in samples if s.at_seconds >= clock_seconds - window_seconds)
