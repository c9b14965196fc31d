"""One candidate from its step model: the largest load inside the SLA, under the arrivals asked for.

Where no points were measured at these lengths, or where they do not reach.
"""

from __future__ import annotations

from functools import cache, partial

from firsttoken_sizing.optimize.error_band import capacity_band, judged_sla, times_band
from firsttoken_sizing.optimize.evaluation import CandidateBound, Evaluation, InfeasibleCandidate
from firsttoken_sizing.optimize.infeasible import infeasible_by_latency
from firsttoken_sizing.optimize.load_model import load_model_of
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.performance.limits import meets
from firsttoken_sizing.step import Origin, basis_of
from firsttoken_sizing.workload import Arrivals


def from_model(question: Question, bound: CandidateBound) -> Evaluation | InfeasibleCandidate:
    """Evaluate a candidate by its step model."""
    sla, lengths = question.request.sla, question.lengths
    load_model = load_model_of(bound, lengths, question.arrivals)
    alone = load_model.alone()
    if meets(alone, sla) is False:
        return infeasible_by_latency(bound.candidate, alone, sla, bound.memory)
    open_load, strict = question.arrivals is Arrivals.POISSON, judged_sla(question)
    largest = load_model.largest(lambda p: meets(p, strict) is True)
    binding = largest.binding(sla) or ("Utilization" if open_load else _slots(bound))
    return Evaluation(
        bound=bound,
        point=largest.point,
        basis=basis_of(bound.fitted, lengths.input_tokens, lengths.output_tokens),
        band_of=cache(partial(capacity_band, question, bound, load_model, largest.point, binding)),
        curve=load_model.curve,
        times_of=lambda quantity: times_band(question, bound, quantity, largest.point),
        binding=binding,
        saturation_requests_per_second=bound.most_requests_per_second,
        source=bound.fitted.source,
        by_physics=bound.fitted.origin is Origin.PRIOR,
    )


def _slots(bound: CandidateBound) -> str:
    """Limit of the requests that run at once."""
    return "KV cache" if bound.limited_by_memory else "Batch size"
