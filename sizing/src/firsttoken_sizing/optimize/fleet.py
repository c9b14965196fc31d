"""Replicas that share their arrivals: behind a router that evens them out, each of many carries more than one alone.

The load model of one replica gives the size of a fleet of independent ones (`Random` routing). Behind `RoundRobin` and
`LeastLoaded` the capacity of a replica depends on how many there are, so the size is searched for: the fewest replicas
that keep the SLA at their share of the load. More replicas have less each and even out more, so that is a bisection.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace

from firsttoken_sizing.optimize.evaluation import Evaluation
from firsttoken_sizing.optimize.load_model import Rate, arriving, whole_replicas
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.limits import meets
from firsttoken_sizing.profile import Point
from firsttoken_sizing.workload import Arrivals, Batching

_BELOW = 1 - 1e-6


def shares_arrivals(question: Question, evaluation: Evaluation) -> bool:
    """Tell whether the routing changes what a replica carries.

    Not in a closed loop, which has no arrivals, not for static batches, whose waits are of another kind, and not for
    measured points, which say what they say.
    """
    return (
        question.arrivals is Arrivals.POISSON
        and question.request.workload.routing.evens_out
        and evaluation.bound.candidate.batching is not Batching.STATIC
        and not evaluation.from_points
    )


def replicas_together(question: Question, alone: Evaluation, rate: float) -> int:
    """Fewest replicas that carry `rate` (requests a second of all) inside the SLA, behind the declared routing.

    `alone`: the evaluation of a replica by itself; that many of those as `rate` needs are always enough.
    """
    highest = PARAMETERS.capacity.max_utilization * alone.saturation_requests_per_second
    low, high = whole_replicas(rate / highest), whole_replicas(rate / alone.capacity)

    def enough(replicas: int) -> bool:
        return _keeps(question, _load_model(question, alone, replicas).at(rate / replicas))

    return bisect_left(range(high), True, low, high, key=enough)


def in_fleet(question: Question, alone: Evaluation, replicas: int, rate: float) -> Evaluation:
    """The evaluation of one of `replicas` that are known to carry `rate` (requests a second of all) together.

    That of a replica by itself where only this one is known to.
    """
    load_model, share = _load_model(question, alone, replicas), rate / replicas
    if replicas == whole_replicas(rate / alone.capacity) and not _keeps(question, load_model.at(share)):
        return alone
    largest = load_model.largest(lambda point: _keeps(question, point))
    point = largest.point
    if point.requests_per_second < share:
        # The bisection ends a little below the largest rate: what is known to be carried must not fall out of it.
        point = load_model.at(share)
    most = max(share, _BELOW * _too_much(alone.capacity, replicas, rate))
    if point.requests_per_second > most:
        # Sampled latencies have noise: it must not say that one replica fewer, which was found too few, would do.
        point = load_model.at(most)
        point = point if _keeps(question, point) else load_model.at(share)
    binding = largest.binding(question.request.sla) or "Utilization"
    return replace(alone, point=point, binding=binding, curve=load_model.curve, alone=alone)


def _too_much(alone: float, replicas: int, rate: float) -> float:
    """The capacity (requests a second) of one of `replicas` at which the table would serve `rate` with one fewer.

    `alone`: the capacity of one by itself. The inverse of `CapacityTable.capacity_of_one_among`.
    """
    fewer = replicas - 1
    if fewer < 1:
        return math.inf
    gained = (1 - 1 / fewer) / (1 - 1 / replicas)
    return alone + (rate / fewer - alone) / gained if gained > 0 else math.inf


def _load_model(question: Question, alone: Evaluation, replicas: int) -> Rate:
    return arriving(alone.bound, question.lengths, replicas, question.request.workload.routing)


def _keeps(question: Question, point: Point) -> bool:
    return meets(point, question.request.sla) is True
