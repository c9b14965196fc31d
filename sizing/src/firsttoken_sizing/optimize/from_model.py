"""One candidate from its step model: the largest load inside the SLA, in the reading that was asked for.

Where no points were measured at these lengths, or where they do not reach.
"""

from __future__ import annotations

from dataclasses import replace

from firsttoken_sizing.optimize.error_band import basis_and_band
from firsttoken_sizing.optimize.evaluation import Evaluation, Prospect, Refusal
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.optimize.reading import reading_of
from firsttoken_sizing.optimize.refusal import latency_refusal
from firsttoken_sizing.performance import closed_loop
from firsttoken_sizing.performance.limits import meets
from firsttoken_sizing.step import Origin
from firsttoken_sizing.workload import Arrivals, Limit, Sla


def from_model(question: Question, prospect: Prospect) -> Evaluation | Refusal:
    """The evaluation of a prospect by its step model."""
    sla, lengths = question.request.sla, question.lengths
    reading = reading_of(prospect, lengths, question.arrivals)
    alone = reading.alone()
    if meets(alone, sla) is False:
        return latency_refusal(prospect.candidate, alone, sla, prospect.memory)
    open_load, strict = question.arrivals is Arrivals.POISSON, judged_sla(question)
    largest = reading.largest(lambda p: meets(p, strict) is True)
    basis, band = basis_and_band(question, prospect, largest.point)
    return Evaluation(
        candidate=prospect.candidate,
        point=largest.point,
        basis=basis,
        error_band_percent=band,
        memory=prospect.memory,
        curve=reading.curve,
        step=prospect.step,
        scheduler=prospect.scheduler,
        binding=largest.binding(sla) or ("Utilization" if open_load else _slots(prospect)),
        saturation_requests_per_second=prospect.most_requests_per_second,
        source=prospect.fitted.source,
        by_physics=prospect.fitted.origin is Origin.PRIOR,
    )


def _slots(prospect: Prospect) -> str:
    """What limits the requests that run at once."""
    return "KV cache" if prospect.limited_by_memory else "Batch size"


def judged_sla(question: Question) -> Sla:
    """The limits that a load by the model must keep: in a closed loop less a margin (`closed_loop.LATENCY_MARGIN`)."""
    sla = question.request.sla
    if question.arrivals is Arrivals.POISSON:
        return sla

    def less(limit: Limit | None) -> Limit | None:
        return limit and replace(limit, milliseconds=limit.milliseconds * (1 - closed_loop.LATENCY_MARGIN))

    return replace(
        sla,
        time_to_first_token=less(sla.time_to_first_token),
        inter_token_latency=less(sla.inter_token_latency),
        end_to_end=less(sla.end_to_end),
    )
