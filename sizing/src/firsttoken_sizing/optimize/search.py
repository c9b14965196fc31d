"""The search over all candidates: the best known first, and nothing is computed that cannot win.

What a replica carries without any limit on latency is cheap to know. A candidate whose fleet would cost more than the
best one even then is pruned; so the costly part (latencies under load) is done for few. Pruning never changes the
answer: only candidates that are known no better than the best one are pruned, and those cast no doubt on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from firsttoken_sizing.optimize.candidates import over_servers
from firsttoken_sizing.optimize.cost import bill
from firsttoken_sizing.optimize.evaluate import bound_of
from firsttoken_sizing.optimize.evaluation import Candidate, CandidateBound, InfeasibleCandidate
from firsttoken_sizing.optimize.infeasible import MEMORY_CAUSES
from firsttoken_sizing.optimize.plan import (
    Plan,
    Trust,
    plan,
    prefer,
    trust,
)
from firsttoken_sizing.optimize.prefix_hits import Hits, most_hits, with_hits
from firsttoken_sizing.optimize.pruning import Pruned, least_cost_of_capacity, pruned
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.step import Origin
from firsttoken_sizing.workload import GpuOrder


@dataclass(slots=True)
class SearchResult:
    """Outcome of every candidate. `priced`: plans are compared by cost, since each has a price."""

    priced: bool
    plans: list[Plan] = field(default_factory=list)
    """Plans from the best to the worst."""
    infeasible: list[InfeasibleCandidate] = field(default_factory=list)
    pruned: list[Pruned] = field(default_factory=list)


def search(question: Question) -> SearchResult:
    """Size every candidate that could be the best; where the GPUs are taken as listed, the best of each of them."""
    request = question.request
    found = [bound_of(question, candidate) for candidate in question.candidates]
    if request.pinned is None:
        found += _over_servers(question, tuple(found))
    bounds = [bound for bound in found if isinstance(bound, CandidateBound)]
    # NB: where something is free, money compares nothing.
    priced = all(bill(b.candidate.key, 1, request).cost_per_year_of_one_replica for b in bounds)
    outcome = SearchResult(priced, infeasible=[c for c in found if isinstance(c, InfeasibleCandidate)])
    listed = request.hardware.gpu_order is GpuOrder.LISTED
    groups = [[b for b in bounds if b.candidate.key.gpu == gpu] for gpu in question.gpus] if listed else [bounds]
    for group in groups:
        outcome.plans += _best_first(question, group, outcome)
    return outcome


def _best_first(question: Question, bounds: Sequence[CandidateBound], outcome: SearchResult) -> list[Plan]:
    """Plans of what is compared by its cost, from the best to the worst; what has none is added to the outcome."""
    request, priced, plans = question.request, outcome.priced, list[Plan]()
    starts = [most_hits(question, bound) for bound in bounds]

    def order(start: Hits) -> tuple[Trust, float]:
        return _trust(start.bound), least_cost_of_capacity(request, start.bound, priced=priced)

    def loses(most: Hits) -> bool:
        if not plans or most.bound.points:
            return False
        loser = pruned(most.question, most.bound, plans[0], priced=priced)
        if loser is not None:
            outcome.pruned.append(loser)
        return loser is not None

    for start in sorted(starts, key=order):
        hits = with_hits(question, start.bound, loses)
        if hits is None:
            continue
        result = hits.evaluated()
        sized = result if isinstance(result, InfeasibleCandidate) else plan(result, hits.question)
        if isinstance(sized, InfeasibleCandidate):
            outcome.infeasible.append(sized)
        else:
            # NB: ties go to the order of the candidates, which is the user's, and not to that of the evaluation.
            plans = prefer(sorted([*plans, sized], key=lambda p: _place(question, p)), priced=priced)
    return plans


def _place(question: Question, plan: Plan) -> int:
    candidate = plan.evaluation.bound.candidate
    return question.candidates.index(candidate) if candidate in question.candidates else len(question.candidates)


def _over_servers(
    question: Question, found: Iterable[CandidateBound | InfeasibleCandidate]
) -> Iterator[CandidateBound | InfeasibleCandidate]:
    """Replicas of several servers for every GPU and precision that no single server holds: the smallest that do."""
    fit = {_place_of(b.candidate) for b in found if isinstance(b, CandidateBound)}
    by_memory = [c.candidate for c in found if isinstance(c, InfeasibleCandidate) and c.cause in MEMORY_CAUSES]
    too_large = [candidate for candidate in by_memory if _place_of(candidate) not in fit]
    for candidate in over_servers(question.request, question.model, too_large):
        if _place_of(candidate) not in fit:
            bound = bound_of(question, candidate)
            if isinstance(bound, CandidateBound):
                fit.add(_place_of(candidate))
            yield bound


def _place_of(candidate: Candidate) -> tuple[str, str]:
    return candidate.key.gpu, candidate.key.precision


def _trust(bound: CandidateBound) -> Trust:
    is_measured = bool(bound.points)
    by_physics = bound.fitted.origin is Origin.PRIOR and not is_measured
    return trust(bound.basis, bound.candidate.key, by_physics=by_physics, from_points=is_measured)
