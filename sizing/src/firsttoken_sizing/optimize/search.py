"""The search over all candidates: the best known first, and nothing is computed that cannot win.

What a replica carries without any limit on latency is cheap to know. A candidate whose fleet would cost more than the
best one even then is dropped; so the costly part (latencies under load) is done for few. Dropping never changes the
answer: only candidates that are known no better than the best one are dropped, and those cast no doubt on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from firsttoken_sizing.optimize.candidates import over_servers
from firsttoken_sizing.optimize.evaluate import evaluate, prospect_of
from firsttoken_sizing.optimize.evaluation import Candidate, Prospect, Refusal
from firsttoken_sizing.optimize.from_model import from_model
from firsttoken_sizing.optimize.hopeless import Dropped, dropped, least_cost_of_capacity, price_of_one
from firsttoken_sizing.optimize.plan import (
    Plan,
    Trust,
    plan,
    prefer,
    saving_in_doubt,
    trust,
    trust_of,
)
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.optimize.refusal import MEMORY_CAUSES
from firsttoken_sizing.step import Origin

_WIDEST_BAND_PERCENT = 90.0
"""A band of 100 % or more says that nothing is known; steps that take ten times as long say as much."""


@dataclass(slots=True)
class Outcome:
    """How every candidate ended. `priced`: plans are compared by cost, since each has a price."""

    priced: bool
    plans: list[Plan] = field(default_factory=list)
    """From the best to the worst."""
    refusals: list[Refusal] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)


def search(question: Question) -> Outcome:
    """Size every candidate that could be the best."""
    request = question.request
    prospects, refusals = _prospects(question, question.candidates)
    if request.pinned is None:
        larger, more = _over_servers(question, prospects, refusals)
        prospects, refusals = prospects + larger, refusals + more
    # NB: where something is free, money compares nothing.
    priced = all(price_of_one(request, p) for p in prospects)
    outcome = Outcome(priced, refusals=refusals)
    for prospect in sorted(prospects, key=lambda p: (_trust(p), least_cost_of_capacity(request, p, priced=priced))):
        if outcome.plans and not prospect.points:
            loser = dropped(question, prospect, outcome.plans[0], priced=priced)
            if loser is not None:
                outcome.dropped.append(loser)
                continue
        result = evaluate(question, prospect)
        sized = result if isinstance(result, Refusal) else plan(result, question)
        if isinstance(sized, Refusal):
            outcome.refusals.append(sized)
        else:
            sized = _checked(question, prospect, sized, outcome)
            # NB: ties go to the order of the candidates, which is the user's, and not to that of the evaluation.
            plans = sorted([*outcome.plans, sized], key=lambda p: _place(question, p))
            outcome.plans = prefer(plans, priced=priced)
    return outcome


def _checked(question: Question, prospect: Prospect, sized: Plan, outcome: Outcome) -> Plan:
    """The plan, and where it would win over a better known one, also what it carries if its error goes against it."""
    evaluation = sized.evaluation
    rivals = [p for p in outcome.plans if trust_of(p) < trust_of(sized)]
    if evaluation.from_points or not rivals:
        return sized
    if saving_in_doubt(sized, rivals, priced=outcome.priced) is not None:
        return sized
    slower = 1 / (1 - min(evaluation.error_band_percent, _WIDEST_BAND_PERCENT) / 100)
    careful = from_model(question, prospect.slowed(slower))
    return replace(sized, careful_capacity=0.0 if isinstance(careful, Refusal) else careful.capacity)


def _place(question: Question, plan: Plan) -> int:
    candidate = plan.evaluation.candidate
    return question.candidates.index(candidate) if candidate in question.candidates else len(question.candidates)


def _prospects(question: Question, candidates: Iterable[Candidate]) -> tuple[list[Prospect], list[Refusal]]:
    prospects: list[Prospect] = []
    refusals: list[Refusal] = []
    for candidate in candidates:
        result = prospect_of(question, candidate)
        if isinstance(result, Refusal):
            refusals.append(result)
        else:
            prospects.append(result)
    return prospects, refusals


def _over_servers(
    question: Question, prospects: Iterable[Prospect], refusals: Iterable[Refusal]
) -> tuple[list[Prospect], list[Refusal]]:
    """Replicas of several servers for every GPU and precision that no single server holds: the smallest that do."""
    fit = {(p.candidate.key.gpu, p.candidate.key.precision) for p in prospects}
    too_large = [
        r.candidate
        for r in refusals
        if r.cause in MEMORY_CAUSES and (r.candidate.key.gpu, r.candidate.key.precision) not in fit
    ]
    found: list[Prospect] = []
    refused: list[Refusal] = []
    for candidate in over_servers(question.request, question.model, too_large):
        if (candidate.key.gpu, candidate.key.precision) in fit:
            continue
        result = prospect_of(question, candidate)
        if isinstance(result, Refusal):
            refused.append(result)
        else:
            found.append(result)
            fit.add((candidate.key.gpu, candidate.key.precision))
    return found, refused


def _trust(prospect: Prospect) -> Trust:
    return trust(prospect.basis, prospect.fitted.origin is Origin.PRIOR and not prospect.points, prospect.candidate.key)
