"""`size`: the cheapest configuration that meets the SLA, how many replicas of it, and why not another."""

from __future__ import annotations

from firsttoken_sizing.band import Band
from firsttoken_sizing.optimize.alternatives import alternatives, infeasible_alternatives
from firsttoken_sizing.optimize.cost import cost_of
from firsttoken_sizing.optimize.engine import engine_settings
from firsttoken_sizing.optimize.evaluate import table_of
from firsttoken_sizing.optimize.evaluation import Evaluation, InfeasibleCandidate
from firsttoken_sizing.optimize.fleet import replicas_together
from firsttoken_sizing.optimize.job import job_of
from firsttoken_sizing.optimize.plan import Plan, replicas_between
from firsttoken_sizing.optimize.question import Question, check
from firsttoken_sizing.optimize.search import search
from firsttoken_sizing.optimize.warnings import warnings_of
from firsttoken_sizing.performance.table import CapacityTable
from firsttoken_sizing.request import Alternative, Infeasible, Sizing, SizingRequest
from firsttoken_sizing.step import Knowledge
from firsttoken_sizing.step.bands import MEAN_OF, Banded
from firsttoken_sizing.workload import Percentile, Routing, Sla


def size(request: SizingRequest, knowledge: Knowledge | None = None, *, pools_apart: bool = True) -> Sizing:
    """Answer one sizing question, by `knowledge` of step times (None: what is shipped).

    An SLA that no size meets is an answer (`feasible=False` with its cause), and so is a configuration without
    measurements (`Basis.EXTRAPOLATED`). `pools_apart`: also look for pools of their own for prefill and decode, which
    are one of the alternatives and change nothing else. Raises `InvalidInput` for a field that cannot be sized, among
    them `UnknownModel` and `UnknownGPU`.
    """
    question = check(request, knowledge)
    if (sentence := _context_exceeded(question)) is not None:
        return _infeasible(question, Infeasible.CONTEXT_WINDOW_EXCEEDED, sentence)
    outcome = search(question)
    if outcome.plans:
        return _feasible(outcome.plans[0], alternatives(question, outcome, pools_apart=pools_apart))
    nearest = min(outcome.infeasible, key=lambda c: c.shortfall)
    return _infeasible(question, nearest.cause, nearest.sentence, nearest, infeasible_alternatives(outcome.infeasible))


def _context_exceeded(question: Question) -> str | None:
    model, (input_tokens, output_tokens) = question.model, question.longest
    if model.holds(input_tokens, output_tokens):
        return None
    return (
        f"{input_tokens:g} input and {output_tokens:g} output tokens exceed the context window of {model.name},"
        f" {model.max_context_tokens} tokens; shorten the request"
        " (traffic.inputTokens, traffic.outputTokens) or choose a model with a longer window"
    )


def _feasible(best: Plan, others: tuple[Alternative, ...]) -> Sizing:
    question, evaluation = best.question, best.evaluation
    request = question.request
    point, workload = evaluation.point, request.workload
    table = table_of(evaluation, question, best.replicas)
    average = workload.average_requests_per_second
    for_average = _replicas_at(question, evaluation, table, average) if average and _holds_below(request) else None
    low, high = replicas_between(best)
    pricing, cost = request.pricing.get(evaluation.key.gpu), None
    if pricing is not None:
        cost = cost_of(
            pricing,
            workload,
            best.bill,
            peak_requests_per_second=best.peak_requests_per_second,
            requests_per_second_per_server=best.requests_per_second_per_server,
            gpus_for_average=min(best.replicas, for_average) * evaluation.key.gpus_per_replica if for_average else None,
            gpus_per_server=request.hardware.gpus_per_server,
        )
    job = None
    if best.job is not None and workload.offline is not None:
        job = job_of(best.job, workload.offline, cost.per_hour if cost else None)
    return Sizing(
        request=request,
        feasible=True,
        reason=_why(best, evaluation),
        cause=None,
        configuration=evaluation.key,
        arrivals=question.arrivals,
        table=table,
        replicas=best.replicas,
        replicas_low=low,
        replicas_high=high,
        replicas_for_average=for_average,
        gpus=best.bill.gpus,
        servers=best.bill.servers,
        peak_requests_per_second=best.peak_requests_per_second,
        requests_per_second_per_replica=evaluation.capacity,
        requests_per_second_per_server=best.requests_per_second_per_server,
        concurrency_per_replica=point.concurrency or 0.0,
        ttft=point.ttft,
        itl=point.itl,
        end_to_end=point.end_to_end,
        binding_constraint=evaluation.binding,
        basis=evaluation.basis,
        band=evaluation.band,
        latency_bands=_latency_bands(evaluation, request.sla),
        utilization_cap_percent=min(100.0, 100 * evaluation.capacity / evaluation.saturation_requests_per_second),
        memory=evaluation.bound.memory,
        batching=evaluation.bound.candidate.batching,
        cached_input_percent=question.lengths.cached_input_percent,
        engine_settings=engine_settings(
            request.engine,
            evaluation,
            request.declared_settings,
            prefix_caching=workload.cached_input_percent > 0,
        ),
        cost=cost,
        job=job,
        warnings=warnings_of(question, evaluation),
        alternatives=others,
    )


def _latency_bands(evaluation: Evaluation, sla: Sla) -> dict[str, Band]:
    """Bands of the statistics that the limits are about, of the means without one."""
    declared = {
        "ttft": (sla.time_to_first_token, Banded.TTFT_TAIL),
        "itl": (sla.inter_token_latency, Banded.ITL_TAIL),
        "end_to_end": (sla.end_to_end, Banded.END_TO_END_TAIL),
    }
    return {
        name: evaluation.times_of(tail if limit and limit.percentile is not Percentile.MEAN else MEAN_OF[tail])
        for name, (limit, tail) in declared.items()
    }


def _holds_below(request: SizingRequest) -> bool:
    """Tell whether a replica carries as much where there are fewer: each may then find less in its prefix cache."""
    load = request.workload
    shared = load.prefixes_in_use is not None and load.routing is Routing.PREFIX_AWARE
    return request.fewest_replicas is not None or not shared


def _replicas_at(question: Question, evaluation: Evaluation, table: CapacityTable, rate: float) -> int:
    """Replicas for another load than the declared peak; fewer of them share their arrivals with less."""
    if evaluation.alone is not None:
        # NB: the table would say so too, a little carefully: it knows the fleet of the peak, and one replica alone.
        return replicas_together(question, evaluation.alone, rate)
    return max(1, table.replicas_for(rate))


def _why(best: Plan, evaluation: Evaluation) -> str:
    key = evaluation.key
    if best.job is not None:
        return (
            f"the job takes {best.replicas} replicas of {key.gpus_per_replica} x {key.gpu} ({key.precision}) and is"
            f" done after {best.job.finish_seconds / 3600:.3g} hours: one completes {evaluation.capacity:.4g}"
            f" requests/s with its batch full, bound by {evaluation.binding} ({evaluation.source})"
        )
    low, high = replicas_between(best)
    between = f" ({low} to {high})" if low < high else ""
    return (
        f"{best.peak_requests_per_second:.4g} requests/s need {best.replicas}{between} replicas of"
        f" {key.gpus_per_replica} x {key.gpu} ({key.precision}): one carries {evaluation.capacity:.4g} requests/s"
        f" inside the SLA, bound by {evaluation.binding} ({evaluation.source})"
    )


def _infeasible(
    question: Question,
    cause: Infeasible,
    sentence: str,
    nearest: InfeasibleCandidate | None = None,
    others: tuple[Alternative, ...] = (),
) -> Sizing:
    request = question.request
    return Sizing(
        request=request,
        feasible=False,
        reason=f"{cause.value}: {sentence}",
        cause=cause,
        configuration=nearest.candidate.key if nearest else None,
        arrivals=question.arrivals,
        peak_requests_per_second=request.workload.peak_requests_per_second or 0.0,
        binding_constraint=cause.value,
        batching=nearest.candidate.batching if nearest else None,
        memory=nearest.memory if nearest else None,
        alternatives=others,
    )
