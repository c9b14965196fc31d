"""One candidate from its step model: the largest load inside the SLA, under the arrivals asked for.

Where no points were measured at these lengths, or where they do not reach.
"""

from __future__ import annotations

from dataclasses import replace

from firsttoken_sizing.optimize.error_band import basis_and_band
from firsttoken_sizing.optimize.evaluation import CandidateBound, Evaluation, InfeasibleCandidate
from firsttoken_sizing.optimize.infeasible import infeasible_by_latency
from firsttoken_sizing.optimize.load_model import load_model_of
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.limits import meets
from firsttoken_sizing.step import Origin
from firsttoken_sizing.workload import Arrivals, Limit, Sla


def from_model(question: Question, bound: CandidateBound) -> Evaluation | InfeasibleCandidate:
    """Evaluate a candidate by its step model."""
    sla, lengths = question.request.sla, question.lengths
    load_model = load_model_of(bound, lengths, question.arrivals)
    alone = load_model.alone()
    if meets(alone, sla) is False:
        return infeasible_by_latency(bound.candidate, alone, sla, bound.memory)
    open_load, strict = question.arrivals is Arrivals.POISSON, judged_sla(question)
    largest = load_model.largest(lambda p: meets(p, strict) is True)
    basis, band = basis_and_band(question, bound, largest.point)
    return Evaluation(
        bound=bound,
        point=largest.point,
        basis=basis,
        error_band_percent=band,
        curve=load_model.curve,
        binding=largest.binding(sla) or ("Utilization" if open_load else _slots(bound)),
        saturation_requests_per_second=bound.most_requests_per_second,
        source=bound.fitted.source,
        by_physics=bound.fitted.origin is Origin.PRIOR,
    )


def _slots(bound: CandidateBound) -> str:
    """Limit of the requests that run at once."""
    return "KV cache" if bound.limited_by_memory else "Batch size"


def judged_sla(question: Question) -> Sla:
    """The limits that a load by the model must keep: in a closed loop less a margin (`latency_margin`)."""
    sla = question.request.sla
    if question.arrivals is Arrivals.POISSON:
        return sla

    def less(limit: Limit | None) -> Limit | None:
        return limit and replace(limit, milliseconds=limit.milliseconds * (1 - PARAMETERS.capacity.latency_margin))

    return replace(
        sla,
        time_to_first_token=less(sla.time_to_first_token),
        inter_token_latency=less(sla.inter_token_latency),
        end_to_end=less(sla.end_to_end),
    )
