"""Load models of one replica: requests in flight (closed loop) or a rate (Poisson), and how it batches them.

One small set of questions for all four, so that the search asks them and knows no performance model.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.optimize.evaluation import CandidateBound
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance import closed_loop, poisson, static_batch
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.limits import tightest
from firsttoken_sizing.performance.offline import full_throughput
from firsttoken_sizing.profile import Point
from firsttoken_sizing.rounding import ceiling
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Arrivals, Batching, Routing, Sla

Meets = Callable[[Point], bool]
_LIGHT_LOAD = 1e-3
"""Share of the stable rate at which a Poisson request is practically alone."""
_FULL = 0.999
_BEYOND = 1.02
"""A little more load than the largest, to see which limit breaks first."""
_LOADS, _RATES = 24, 16
_HIGHEST_SHARE = 0.98
"""Share of the stable rate: above it Poisson latencies have no useful scale."""


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest load of one replica inside the SLA. `full`: nothing but the replica's own end stops it there."""

    point: Point
    beyond: Point
    full: bool

    def binding(self, sla: Sla) -> str | None:
        """The limit that breaks first beyond it; None where the replica's own end comes before any limit."""
        limit = None if self.full else tightest(self.beyond, sla)
        return limit.name if limit else None


@dataclass(frozen=True, slots=True)
class InFlightRequests:
    """Loads are whole numbers of requests that are always outstanding."""

    at: Callable[[int], Point]
    rate: Callable[[int], float]
    """Throughput, which is cheaper to know than the whole point."""
    most: int

    def lightest(self, rate: float) -> Point | None:
        """The point of the fewest in flight that complete `rate` requests a second; None where none do."""
        fewest = bisect_left(range(1, self.most + 1), rate, key=self.rate) + 1
        return self.at(fewest) if fewest <= self.most else None

    def alone(self) -> Point:
        """One request by itself: concurrency 1."""
        return self.at(1)

    def largest(self, meets: Meets) -> Largest:
        """The largest load whose point `meets` the SLA, by bisection; that of one request alone is known to."""
        low, high = (self.most, self.most + 1) if meets(self.at(self.most)) else (1, self.most)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if meets(self.at(middle)) else (low, middle)
        return Largest(self.at(low), self.at(low + 1), low >= self.most)

    def curve(self, largest: Point) -> tuple[Point, ...]:
        """Points from light to heavy load, evenly in log concurrency, with `largest` among them."""
        grid = np.unique(np.round(np.geomspace(1, self.most, _LOADS)).astype(int))
        return _through((self.at(int(c)) for c in grid), largest)


@dataclass(frozen=True, slots=True)
class Rate:
    """Loads are requests a second that arrive at random."""

    at: Callable[[float], Point]
    capacity: Callable[[Meets], float]
    stable: float
    """Largest stable rate."""
    utilization: float
    """Largest share of it that a replica is sized for."""

    def alone(self) -> Point:
        """One request by itself: a rate so low that it finds the replica idle."""
        return self.at(_LIGHT_LOAD * self.stable)

    def largest(self, meets: Meets) -> Largest:
        """The largest rate whose point `meets` the SLA, at most the largest utilization."""
        # NB: a search by halves knows nothing of the lightest load, and may find no rate at all where little more is
        # inside the SLA.
        rate = max(self.capacity(meets), _LIGHT_LOAD * self.stable)
        return Largest(self.at(rate), self.at(rate * _BEYOND), rate >= _FULL * self.utilization * self.stable)

    def curve(self, largest: Point) -> tuple[Point, ...]:
        """Points up to nearly the stable rate, and `largest`. Evenly in 1 - rho: latencies grow as its inverse."""
        shares = 1 - np.geomspace(1, 1 - _HIGHEST_SHARE, _RATES)[1:]
        return _through((self.at(float(rate)) for rate in self.stable * shares), largest)


LoadModel = InFlightRequests | Rate


def _through(points: Iterable[Point], largest: Point) -> tuple[Point, ...]:
    """The points and `largest`, and none at less load with a longer latency than that one has.

    Sampled latencies have noise, and the table is their running maximum: a lighter load must not lift it above a limit
    that the largest load keeps.
    """
    return (
        *(p.combined([largest], _least) if p.requests_per_second < largest.requests_per_second else p for p in points),
        largest,
    )


def _least(values: Iterable[float | None]) -> float | None:
    return min((v for v in values if v is not None), default=None)


def load_model_of(bound: CandidateBound, lengths: Lengths, arrivals: Arrivals) -> LoadModel:
    """Load model of a replica of this candidate that is by itself, under this kind of load."""
    return in_flight(bound, lengths) if arrivals is Arrivals.CLOSED_LOOP else arriving(bound, lengths)


def in_flight(bound: CandidateBound, lengths: Lengths) -> InFlightRequests:
    """A replica of this candidate in a closed loop."""
    step, scheduler, clients = bound.step, bound.scheduler, bound.clients
    if bound.candidate.batching is Batching.STATIC:
        return InFlightRequests(
            at=cache(lambda b: static_batch.predict_static(step, lengths, b)),
            rate=lambda b: static_batch.static_saturation_rate(step, lengths, b),
            most=step.max_batch,
        )
    return InFlightRequests(
        at=cache(lambda c: closed_loop.predict(step, lengths, c, scheduler, clients)),
        rate=lambda c: closed_loop.throughput(step, lengths, c),
        # More in flight than the batch with the most throughput add latency only.
        most=full_throughput(step, lengths).batch,
    )


def arriving(bound: CandidateBound, lengths: Lengths, replicas: int = 1, routing: Routing = Routing.RANDOM) -> Rate:
    """One of so many replicas of this candidate under Poisson arrivals. Static batches wait alike behind any router."""
    if bound.candidate.batching is Batching.STATIC:
        return _static_rate(bound, lengths)
    stable = bound.most_requests_per_second
    return rate_of(bound.step, bound.scheduler, lengths, stable=stable, replicas=replicas, routing=routing)


def rate_of(
    step: StepModel,
    scheduler: Scheduler,
    lengths: Lengths,
    *,
    stable: float,
    replicas: int,
    routing: Routing,
) -> Rate:
    """One of so many replicas behind a router, under Poisson arrivals at all of them; rates are of the one."""
    return Rate(
        at=lambda rate: poisson.predict(step, lengths, rate, scheduler, replicas, routing),
        capacity=lambda meets: poisson.capacity(step, lengths, meets, scheduler, replicas, routing),
        stable=stable,
        utilization=PARAMETERS.capacity.max_utilization,
    )


def whole_replicas(share: float) -> int:
    """Whole replicas for a load of `share` times what one carries; at least one."""
    return max(1, ceiling(share))


def _static_rate(bound: CandidateBound, lengths: Lengths) -> Rate:
    step, batch = bound.step, bound.step.max_batch
    stable = static_batch.static_saturation_rate(step, lengths, batch)

    return Rate(
        at=lambda rate: static_batch.predict_static_poisson(step, lengths, batch, rate),
        capacity=lambda meets: static_batch.static_capacity(step, lengths, batch, meets),
        stable=stable,
        utilization=PARAMETERS.capacity.max_utilization,
    )
