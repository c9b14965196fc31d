"""Pruning of candidates that cannot win, without sizing them: their fleets must cost more than the best plan so far.

Two bounds. Cheap: what a replica carries with every slot taken and no limit on latency. And one look at the load at
which the candidate would draw level, as more load is never faster. A candidate is pruned only where both the whole
fleet and each request cost more: the second decides whether a less known plan's saving is in doubt
(`plan.saving_in_doubt`), so that pruning never changes an answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from firsttoken_sizing.optimize.cost import Bill, bill
from firsttoken_sizing.optimize.error_band import judged_sla
from firsttoken_sizing.optimize.evaluation import Candidate, CandidateBound
from firsttoken_sizing.optimize.load_model import arriving, in_flight, load_model_of, whole_replicas
from firsttoken_sizing.optimize.plan import Plan, cost_of_capacity
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.limits import meets
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.workload import Arrivals, Routing

_CAREFUL = 0.999
"""The largest rate is found by bisection, a little below where it is."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """A candidate that cannot win, and what it needs at least."""

    candidate: Candidate
    bill: Bill


def pruned(question: Question, bound: CandidateBound, best: Plan, *, priced: bool) -> Pruned | None:
    """Prune the candidate; None where it may win, or breaks the SLA at any load (`InfeasibleCandidate` says more)."""
    request, key = question.request, bound.candidate.key
    least = _fewest_replicas(request, bound)
    # The rate of one replica at which a request costs as much as on the best plan.
    level = bill(key, 1, request).of_one_replica(priced=priced) / cost_of_capacity(best, priced=priced)

    def dearer(replicas: int) -> bool:
        return bill(key, replicas, request).compared(priced=priced) > best.bill.compared(priced=priced)

    if not dearer(least) or level <= bound.most_requests_per_second:
        least_that_lose = _too_slow(question, bound, level, dearer)
        if least_that_lose is None:
            return None
        least = max(least, least_that_lose)
    return Pruned(bound.candidate, bill(key, least, request))


def least_cost_of_capacity(request: SizingRequest, bound: CandidateBound, *, priced: bool) -> float:
    """Cost of one request a second, without any limit on latency: money a year where `priced`, else GPUs."""
    return bill(bound.candidate.key, 1, request).of_one_replica(priced=priced) / bound.most_requests_per_second


def _too_slow(question: Question, bound: CandidateBound, level: float, dearer: Callable[[int], bool]) -> int | None:
    """Replicas that are too few, if the candidate draws level with the best plan neither by fleet nor by request."""
    request, peak = question.request, question.request.workload.peak_requests_per_second
    if peak is None or _keeps(question, bound, level, 1, Routing.RANDOM):
        return None
    # Most replicas whose fleet costs no more than the best plan's; 0 where not even one does.
    too_many = next(n for n in (2**i for i in count()) if dearer(n))
    affordable = bisect_left(range(too_many), True, too_many // 2, key=dearer) - 1
    if affordable and _keeps(question, bound, peak / affordable, affordable, request.workload.routing):
        return None
    alone = load_model_of(bound, question.lengths, question.arrivals).alone()
    return affordable + 1 if meets(alone, request.sla) is True else None


def _keeps(question: Question, bound: CandidateBound, rate: float, replicas: int, routing: Routing) -> bool:
    """Tell whether one of so many replicas keeps the SLA at this rate of its own."""
    careful = rate * _CAREFUL
    if question.arrivals is Arrivals.CLOSED_LOOP:
        point = in_flight(bound, question.lengths).lightest(careful)
        return point is not None and ((point.concurrency or 0.0) <= 1 or meets(point, judged_sla(question)) is True)
    if rate > PARAMETERS.capacity.max_utilization * bound.most_requests_per_second:
        return False
    load_model = arriving(bound, question.lengths, replicas, routing)
    return meets(load_model.at(careful), judged_sla(question)) is True


def _fewest_replicas(request: SizingRequest, bound: CandidateBound) -> int:
    """Fewer cannot carry the load, whatever the latency may be."""
    workload, most = request.workload, bound.most_requests_per_second
    if workload.offline is not None:
        return whole_replicas(workload.offline.requests / (workload.offline.deadline_hours * 3600) / most)
    return whole_replicas(workload.peak_requests_per_second / most) if workload.peak_requests_per_second else 1
