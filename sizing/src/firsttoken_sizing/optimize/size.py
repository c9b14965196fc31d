"""`size`: the cheapest configuration that meets the SLA, how many replicas of it, and why not another."""

from __future__ import annotations

from firsttoken_sizing.errors import NoBenchmark
from firsttoken_sizing.optimize.advice import alternatives, engine_settings, refused, warnings
from firsttoken_sizing.optimize.cost import cost_of
from firsttoken_sizing.optimize.evaluate import Evaluation, Refusal, evaluate, table_of
from firsttoken_sizing.optimize.plan import Plan, plan, prefer
from firsttoken_sizing.optimize.question import Question, check
from firsttoken_sizing.profile import ConfigurationKey, Latency
from firsttoken_sizing.request import Alternative, Infeasible, Memory, Sizing, SizingRequest

_MEMORY = (Infeasible.MODEL_DOES_NOT_FIT, Infeasible.KV_CACHE_TOO_SMALL)


def size(request: SizingRequest) -> Sizing:
    """Answer one sizing question.

    An SLA that no size meets is an answer (`feasible=False` with its cause). Raises `InvalidInput` for a field that
    cannot be sized: among them `UnknownModel`, `UnknownGPU`, and `NoBenchmark` where nothing is known about any
    configuration that the request allows.
    """
    question = check(request)
    workload, model = request.workload, question.model
    longest = (workload.input_tokens_p99 or 0.0, workload.output_tokens_p99 or 0.0)
    input_tokens = max(workload.input_tokens, longest[0])
    output_tokens = max(workload.output_tokens, longest[1])
    if not model.holds(input_tokens, output_tokens):
        sentence = (
            f"{input_tokens:g} input and {output_tokens:g} output tokens exceed the context window of {model.name},"
            f" {model.max_context_tokens} tokens; shorten the request or choose a model with a longer window"
        )
        return _infeasible(question, Infeasible.CONTEXT_WINDOW_EXCEEDED, sentence)

    plans: list[Plan] = []
    refusals: list[Refusal] = []
    unknown: list[tuple[ConfigurationKey, NoBenchmark]] = []
    for key in question.candidates:
        try:
            result = evaluate(question, key)
        except NoBenchmark as error:
            unknown.append((key, error))
            continue
        if isinstance(result, Refusal):
            refusals.append(result)
        else:
            plans.append(plan(result, request))
    if plans:
        plans = prefer(plans)
        return _feasible(question, plans[0], alternatives(plans, refusals, [key for key, _ in unknown]))
    if unknown:
        # A configuration that does not fit says nothing about those that would and have no measurements.
        informative = [r for r in refusals if r.cause not in _MEMORY]
        if not informative:
            raise unknown[0][1]
        refusals = informative
    nearest = min(refusals, key=lambda r: r.shortfall)
    return _infeasible(question, nearest.cause, nearest.sentence, nearest.key, nearest.memory, refused(refusals))


def _feasible(question: Question, best: Plan, others: tuple[Alternative, ...]) -> Sizing:
    request, evaluation = question.request, best.evaluation
    point, workload = evaluation.point, request.workload
    table = table_of(evaluation, question)
    average = workload.average_requests_per_second
    pricing = request.pricing.get(evaluation.key.gpu)
    return Sizing(
        feasible=True,
        reason=_why(best, evaluation),
        cause=None,
        configuration=evaluation.key,
        arrivals=question.arrivals,
        table=table,
        replicas=best.replicas,
        replicas_for_average=max(1, table.replicas_for(average)) if average else None,
        gpus=best.gpus,
        servers=best.servers,
        peak_requests_per_second=best.peak_requests_per_second,
        requests_per_second_per_replica=evaluation.capacity,
        requests_per_second_per_server=best.requests_per_second_per_server,
        concurrency_per_replica=point.concurrency or 0.0,
        ttft=point.ttft,
        itl=point.itl,
        end_to_end=point.end_to_end,
        binding_constraint=evaluation.binding,
        basis=evaluation.basis,
        error_band_percent=evaluation.error_band_percent,
        utilization_cap_percent=min(100.0, 100 * evaluation.capacity / evaluation.saturation_requests_per_second),
        sla=request.sla,
        memory=evaluation.memory,
        engine_settings=engine_settings(question, evaluation),
        cost=cost_of(
            pricing,
            workload,
            peak_requests_per_second=best.peak_requests_per_second,
            requests_per_second_per_server=best.requests_per_second_per_server,
            gpus=best.gpus,
            servers=best.servers,
            gpus_per_server=request.hardware.gpus_per_server,
        )
        if pricing
        else None,
        warnings=warnings(question, evaluation),
        alternatives=others,
    )


def _why(best: Plan, evaluation: Evaluation) -> str:
    key = evaluation.key
    return (
        f"{best.peak_requests_per_second:.4g} requests/s need {best.replicas} replicas of {key.gpus_per_replica} x"
        f" {key.gpu} ({key.precision}): one carries {evaluation.capacity:.4g} requests/s inside the SLA, bound by"
        f" {evaluation.binding} ({evaluation.source})"
    )


def _infeasible(
    question: Question,
    cause: Infeasible,
    sentence: str,
    key: ConfigurationKey | None = None,
    memory: Memory | None = None,
    others: tuple[Alternative, ...] = (),
) -> Sizing:
    request = question.request
    return Sizing(
        feasible=False,
        reason=f"{cause.value}: {sentence}",
        cause=cause,
        configuration=key,
        arrivals=question.arrivals,
        table=None,
        replicas=0,
        replicas_for_average=None,
        gpus=0,
        servers=0,
        peak_requests_per_second=request.workload.peak_requests_per_second or 0.0,
        requests_per_second_per_replica=0.0,
        requests_per_second_per_server=0.0,
        concurrency_per_replica=0.0,
        ttft=Latency(),
        itl=Latency(),
        end_to_end=Latency(),
        binding_constraint=cause.value,
        basis=None,
        error_band_percent=0.0,
        utilization_cap_percent=0.0,
        sla=request.sla,
        memory=memory,
        alternatives=others,
    )
