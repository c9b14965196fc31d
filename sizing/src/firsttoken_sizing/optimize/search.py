"""The search over all candidates: the best known first, and nothing is computed that cannot win.

What a replica carries without any limit on latency is cheap to know. A candidate whose fleet would cost more than the
best one even then is pruned; so the costly part (latencies under load) is done for few. Pruning never changes the
answer: only candidates that are known no better than the best one are pruned, and those cast no doubt on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from firsttoken_sizing.optimize.candidates import over_servers
from firsttoken_sizing.optimize.evaluate import bound_of, evaluate
from firsttoken_sizing.optimize.evaluation import Candidate, CandidateBound, InfeasibleCandidate
from firsttoken_sizing.optimize.from_model import from_model
from firsttoken_sizing.optimize.infeasible import MEMORY_CAUSES
from firsttoken_sizing.optimize.plan import (
    Plan,
    Trust,
    plan,
    prefer,
    saving_in_doubt,
    trust,
    trust_of,
)
from firsttoken_sizing.optimize.pruning import Pruned, least_cost_of_capacity, price_of_one, pruned
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.step import Origin

_WIDEST_BAND_PERCENT = 90.0
"""A band of 100 % or more says that nothing is known; steps that take ten times as long say as much."""


@dataclass(slots=True)
class SearchResult:
    """Outcome of every candidate. `priced`: plans are compared by cost, since each has a price."""

    priced: bool
    plans: list[Plan] = field(default_factory=list)
    """From the best to the worst."""
    infeasible: list[InfeasibleCandidate] = field(default_factory=list)
    pruned: list[Pruned] = field(default_factory=list)


def search(question: Question) -> SearchResult:
    """Size every candidate that could be the best."""
    request = question.request
    bounds, infeasible = _bounds(question, question.candidates)
    if request.pinned is None:
        larger, more = _over_servers(question, bounds, infeasible)
        bounds, infeasible = bounds + larger, infeasible + more
    # NB: where something is free, money compares nothing.
    priced = all(price_of_one(request, b) for b in bounds)
    outcome = SearchResult(priced, infeasible=infeasible)
    for bound in sorted(bounds, key=lambda b: (_trust(b), least_cost_of_capacity(request, b, priced=priced))):
        if outcome.plans and not bound.points:
            loser = pruned(question, bound, outcome.plans[0], priced=priced)
            if loser is not None:
                outcome.pruned.append(loser)
                continue
        result = evaluate(question, bound)
        sized = result if isinstance(result, InfeasibleCandidate) else plan(result, question)
        if isinstance(sized, InfeasibleCandidate):
            outcome.infeasible.append(sized)
        else:
            sized = _checked(question, bound, sized, outcome)
            # NB: ties go to the order of the candidates, which is the user's, and not to that of the evaluation.
            plans = sorted([*outcome.plans, sized], key=lambda p: _place(question, p))
            outcome.plans = prefer(plans, priced=priced)
    return outcome


def _checked(question: Question, bound: CandidateBound, sized: Plan, outcome: SearchResult) -> Plan:
    """The plan, and where it would win over a better known one, also what it carries if its error goes against it."""
    evaluation = sized.evaluation
    rivals = [p for p in outcome.plans if trust_of(p) < trust_of(sized)]
    if evaluation.from_points or not rivals:
        return sized
    if saving_in_doubt(sized, rivals, priced=outcome.priced) is not None:
        return sized
    slower = 1 / (1 - min(evaluation.error_band_percent, _WIDEST_BAND_PERCENT) / 100)
    careful = from_model(question, bound.slowed(slower))
    return replace(sized, careful_capacity=0.0 if isinstance(careful, InfeasibleCandidate) else careful.capacity)


def _place(question: Question, plan: Plan) -> int:
    candidate = plan.evaluation.candidate
    return question.candidates.index(candidate) if candidate in question.candidates else len(question.candidates)


def _bounds(
    question: Question, candidates: Iterable[Candidate]
) -> tuple[list[CandidateBound], list[InfeasibleCandidate]]:
    bounds: list[CandidateBound] = []
    infeasible: list[InfeasibleCandidate] = []
    for candidate in candidates:
        result = bound_of(question, candidate)
        if isinstance(result, InfeasibleCandidate):
            infeasible.append(result)
        else:
            bounds.append(result)
    return bounds, infeasible


def _over_servers(
    question: Question, bounds: Iterable[CandidateBound], infeasible: Iterable[InfeasibleCandidate]
) -> tuple[list[CandidateBound], list[InfeasibleCandidate]]:
    """Replicas of several servers for every GPU and precision that no single server holds: the smallest that do."""
    fit = {(b.candidate.key.gpu, b.candidate.key.precision) for b in bounds}
    too_large = [
        c.candidate
        for c in infeasible
        if c.cause in MEMORY_CAUSES and (c.candidate.key.gpu, c.candidate.key.precision) not in fit
    ]
    found: list[CandidateBound] = []
    still_infeasible: list[InfeasibleCandidate] = []
    for candidate in over_servers(question.request, question.model, too_large):
        if (candidate.key.gpu, candidate.key.precision) in fit:
            continue
        result = bound_of(question, candidate)
        if isinstance(result, InfeasibleCandidate):
            still_infeasible.append(result)
        else:
            found.append(result)
            fit.add((candidate.key.gpu, candidate.key.precision))
    return found, still_infeasible


def _trust(bound: CandidateBound) -> Trust:
    return trust(bound.basis, bound.fitted.origin is Origin.PRIOR and not bound.points, bound.candidate.key)
