"""Demand: what arrived, not what was served, counted by what it costs, plus what drains the backlog in time.

A request counts for its token-weighted cost: replica-seconds of one of the live mean lengths in those of a declared
one, and more where prompts are longer than declared. The cost is smoothed over a rate window.

Worked, for 50 requests/s that were declared with 3000 input and 201 output tokens, and a backlog drained in 60 s:

| what is seen | request cost | demand, declared requests/s |
|---|---|---|
| the first hour: lengths as declared | 1.00 | 50.0 |
| outputs grow until a request costs twice as much: one tick later | 1.22 | 61.1 |
| one minute later | 1.63 | 81.6 |
| five minutes later | 1.99 | 99.7 |
| a bad hour: 600 requests wait at each tick | 2.00 | 120.0 |
| a quiet night: every pod is idle | 2.00 | 0.0 |
| the metrics are lost: unknown is not 0 | 2.00 | unknown |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_operator.domain import Idle, Metrics, Reason, ScalingPolicy, Value
from firsttoken_operator.estimate.config import DemandConfig
from firsttoken_operator.estimate.smoothing import weight_of
from firsttoken_sizing.performance.table import CapacityTable


@dataclass(frozen=True, slots=True)
class DemandState:
    """Memory of the estimate of the demand."""

    measured_cost: float | None = None
    """Cost of a live request in declared ones, smoothed; None: no lengths were seen yet."""

    @property
    def request_cost(self) -> float:
        """Cost of a live request in declared ones; one where lengths are not measured."""
        return 1.0 if self.measured_cost is None else self.measured_cost


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests a second to be served now: arrivals, and the share that works off the backlog.

    `request_cost` is what one of them costs in requests of the declared lengths.
    """

    arrivals_per_second: float
    backlog_requests: float
    backlog_per_second: float
    request_cost: float = 1.0

    @property
    def offered_load(self) -> float:
        """Arrivals, counted in requests of the declared lengths, a second."""
        return self.arrivals_per_second * self.request_cost

    @property
    def total_per_second(self) -> float:
        """Rate that the replicas have to serve, in requests of the declared lengths a second."""
        return (self.arrivals_per_second + self.backlog_per_second) * self.request_cost


@dataclass(frozen=True, slots=True)
class LoadSample:
    """The target load of one tick, in declared requests a second, and of how many replicas it was asked."""

    at_seconds: float
    requests_per_second: float
    replicas: int


def update(
    state: DemandState, metrics: Metrics, table: CapacityTable, interval_seconds: float, config: DemandConfig
) -> DemandState:
    """The cost of a request after this tick; lengths that are not measured leave it as it is."""
    live = _request_cost(metrics, table, config)
    if live is None:
        return state
    before = live if state.measured_cost is None else state.measured_cost
    weight = weight_of(interval_seconds, config.smoothing_windows * metrics.window_seconds)
    return DemandState(before + weight * (live - before))


def demand(state: DemandState, metrics: Metrics, policy: ScalingPolicy) -> Demand | None:
    """The demand that the metrics prove, or None where they prove nothing (which is not zero).

    Where a gateway counts requests too, the larger of the two: one of its pods that is not scraped goes unnoticed.
    """
    arrivals, started = metrics.arrivals, metrics.gateway_arrivals
    if not metrics.may_raise:
        # What a gateway counts may still ask for more; that the pods say nothing forbids to give anything back.
        if isinstance(started, Value) and started.value > 0:
            return Demand(started.value, 0.0, 0.0, state.request_cost)
        return None
    if isinstance(started, Value) and started.value > (arrivals.value if isinstance(arrivals, Value) else 0.0):
        arrivals = started
    elif metrics.health is Reason.IDLE or isinstance(arrivals, Idle):
        return Demand(0.0, 0.0, 0.0)
    if not isinstance(arrivals, Value):
        return None
    waiting = metrics.waiting.value if isinstance(metrics.waiting, Value) else 0.0
    return Demand(arrivals.value, waiting, waiting / policy.backlog_drain_seconds, state.request_cost)


def can_wake_up(metrics: Metrics) -> bool:
    """Tell whether a gateway would tell of requests that come while there is no replica."""
    return isinstance(metrics.gateway_arrivals, Value | Idle)


def token_cost(metrics: Metrics, table: CapacityTable) -> float | None:
    """Replica-seconds of a live request in those of a declared one, by the mean tokens of the window; None: unknown."""
    prompt, output = metrics.input_tokens, metrics.output_tokens
    if table.work is None or not (isinstance(prompt, Value) and isinstance(output, Value)):
        return None
    cost = float(table.work.relative(prompt.value, output.value))
    return cost if math.isfinite(cost) else None


def _request_cost(metrics: Metrics, table: CapacityTable, config: DemandConfig) -> float | None:
    """Count a live request in declared ones: its tokens, and the waits behind prompts that are longer."""
    cost, prompt, most = token_cost(metrics, table), metrics.input_tokens, config.most_request_cost
    if cost is None or table.work is None or not isinstance(prompt, Value):
        return None
    longer = max(prompt.value / table.work.input_tokens, 1.0)
    return min(max(cost * float(longer**config.long_prompt_exponent), 1 / most), most)


def window_maximum(samples: tuple[LoadSample, ...]) -> float:
    """Largest target load of the samples, requests a second (0 without samples)."""
    return max((s.requests_per_second for s in samples), default=0.0)


def recent(samples: tuple[LoadSample, ...], clock_seconds: float, window_seconds: float) -> tuple[LoadSample, ...]:
    """The samples of the last `window_seconds`."""
    return tuple(s for s in samples if s.at_seconds >= clock_seconds - window_seconds)
