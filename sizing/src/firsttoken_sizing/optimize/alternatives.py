"""Alternatives: why every other candidate lost, one line each, the nearest to the answer first."""

from __future__ import annotations

from collections.abc import Iterable

from firsttoken_sizing.optimize.disaggregation import disaggregated
from firsttoken_sizing.optimize.evaluation import InfeasibleCandidate
from firsttoken_sizing.optimize.plan import Plan, is_inside_error, saving_in_doubt
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.optimize.search import SearchResult
from firsttoken_sizing.request import Alternative
from firsttoken_sizing.workload import GpuOrder

_SAME_COST = 1.005
"""Less of a difference reads as 0 % more."""
_TIMES_PERCENT = 900
_LATER = "comes later in hardware.gpus"


def alternatives(question: Question, outcome: SearchResult, *, pools_apart: bool) -> tuple[Alternative, ...]:
    """Every candidate but the best plan of the outcome, with the reason it lost; with `pools_apart` also two pools."""
    plans = outcome.plans
    lost = (
        Alternative(
            p.evaluation.key,
            True,
            p.bill.gpus,
            _why_lost(p, plans, outcome.priced, listed=_is_listed(question)),
            p.evaluation.bound.candidate.batching,
        )
        for p in plans[1:]
    )
    pools = disaggregated(plans[0].question, plans[0]) if pools_apart else None
    return (
        *lost,
        *([pools] if pools else []),
        *_pruned(outcome, listed=_is_listed(question)),
        *infeasible_alternatives(outcome.infeasible),
    )


def infeasible_alternatives(candidates: Iterable[InfeasibleCandidate]) -> tuple[Alternative, ...]:
    """Candidates that cannot serve the workload, with the reason."""
    return tuple(
        Alternative(c.candidate.key, False, None, f"{c.cause.value}: {c.sentence}", c.candidate.batching)
        for c in candidates
    )


def _is_listed(question: Question) -> bool:
    return question.request.hardware.gpu_order is GpuOrder.LISTED


def _pruned(outcome: SearchResult, *, listed: bool) -> Iterable[Alternative]:
    best, gpu = outcome.plans[0].bill, outcome.plans[0].evaluation.key.gpu
    for p in sorted(outcome.pruned, key=lambda p: p.bill.gpus):
        if listed and p.candidate.key.gpu != gpu:
            yield Alternative(p.candidate.key, True, None, _LATER, p.candidate.batching)
            continue
        reason = f"needs at least {p.bill.gpus} GPUs against {best.gpus}"
        more = _percent_more(p.bill.cost_per_year, best.cost_per_year) if outcome.priced else None
        if more is not None:
            reason = f"costs at least {more:.0f} % more ({p.bill.gpus} GPUs against {best.gpus})"
        yield Alternative(p.candidate.key, True, None, reason, p.candidate.batching)


def _why_lost(plan: Plan, plans: list[Plan], priced: bool, *, listed: bool) -> str:
    best, ours, evaluation = plans[0].bill, plan.bill, plan.evaluation
    if listed:
        if evaluation.key.gpu != plans[0].evaluation.key.gpu:
            return f"{_LATER} ({ours.gpus} GPUs against {best.gpus})"
        plans = [p for p in plans if p.evaluation.key.gpu == evaluation.key.gpu]
    if (more := _percent_more(ours.cost_per_year, best.cost_per_year)) is not None:
        how = f"{more:.0f} % more" if more < _TIMES_PERCENT else f"{1 + more / 100:.0f} times as much"
        return f"costs {how} ({ours.gpus} GPUs against {best.gpus})"
    if ours.gpus > best.gpus:
        return f"needs {ours.gpus} GPUs against {best.gpus}"
    if (saving := saving_in_doubt(plan, plans, priced=priced)) is not None:
        known = "physics alone" if evaluation.by_physics else evaluation.basis.value
        band = f"{known} ({evaluation.band.text})"
        if ours.gpus == best.gpus:
            return f"takes as many GPUs and is known less well: {band}"
        inside = is_inside_error(plan, saving)
        saved = f"a saving of {max(0.0, saving):.0f} % a request is"
        doubt = f"{saved} inside that error" if inside else f"{saved} no reason to leave what was measured"
        return f"{ours.gpus} GPUs against {best.gpus}, but {band}, and {doubt}; measure it to decide"
    return "as good, but later in the order of preference"


def _percent_more(cost: float | None, than: float | None) -> float | None:
    """Difference in cost, in percent; None where that is nothing, or no price is known."""
    if cost is None or not than or cost <= than * _SAME_COST:
        return None
    return 100 * (cost / than - 1)
