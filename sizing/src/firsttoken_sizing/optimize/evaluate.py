"""One candidate under one workload, in two steps, between which the search may drop it.

First what is cheap to know: does it fit, and what could it carry at most. Then what a replica carries inside the SLA.
"""

from __future__ import annotations

from dataclasses import replace

from firsttoken_sizing.engines.memory import replica_memory
from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.engines.spec import CURRENT
from firsttoken_sizing.optimize.engine import most_sequences, ranks_of, scheduler_for
from firsttoken_sizing.optimize.evaluation import Candidate, CandidateBound, Evaluation, InfeasibleCandidate
from firsttoken_sizing.optimize.from_model import from_model
from firsttoken_sizing.optimize.from_points import from_points, measured_concurrency
from firsttoken_sizing.optimize.infeasible import infeasible_by_memory
from firsttoken_sizing.optimize.measured_with import holding, left_out, matching, telling_steps
from firsttoken_sizing.optimize.optimizations import is_plain, optimized, weight_share
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.performance import curve, poisson, static_batch
from firsttoken_sizing.performance.closed_loop import CLIENTS
from firsttoken_sizing.performance.offline import full_throughput
from firsttoken_sizing.performance.pipeline import Placement, pipelined
from firsttoken_sizing.performance.table import CapacityTable
from firsttoken_sizing.performance.work import work_of
from firsttoken_sizing.profile import ConfigurationKey, Point
from firsttoken_sizing.request import Basis
from firsttoken_sizing.step import FittedStep, Origin, StepModel, basis_of, speed_key, step_for
from firsttoken_sizing.workload import Arrivals, Batching


def bound_of(question: Question, candidate: Candidate) -> CandidateBound | InfeasibleCandidate:
    """Bound a candidate without sizing it; infeasible where it does not fit into memory."""
    request, lengths, key = question.request, question.lengths, candidate.key
    memory = replica_memory(
        question.model,
        question.gpus[key.gpu],
        precision=key.precision,
        tensor_parallel=key.tensor_parallel,
        pipeline_parallel=key.pipeline_parallel,
        attention_data_parallel=key.attention_data_parallel,
        input_tokens=lengths.input_tokens,
        output_tokens=lengths.output_tokens,
        engine=request.engine,
        weight_share=weight_share(question, key.precision),
        declared=request.declared_settings,
    )
    if infeasible := infeasible_by_memory(candidate, memory, sum(question.longest)):
        return infeasible
    memory = replace(memory, measured_concurrency=measured_concurrency(question, key))
    fitted = _step(question, key)
    release = request.engine.spec.release(fitted.release)
    ranks, declared = ranks_of(request.engine, key), request.declared_settings
    scheduler = scheduler_for(release, candidate.batching, declared, ranks)
    offline = request.has_offline_batch
    most = most_sequences(request.engine, release, candidate.batching, declared, ranks=ranks, offline=offline)
    fitted = optimized(question, candidate, fitted, scheduler)
    slots = max(memory.max_concurrency, memory.measured_concurrency or 0)
    step = replace(fitted.model, max_batch=min(most, slots))
    points = _points(question, candidate, step.max_batch)
    return CandidateBound(
        candidate=candidate,
        memory=memory,
        fitted=fitted,
        step=step,
        scheduler=scheduler,
        clients=release.varied_clients or CLIENTS,
        points=points,
        basis=Basis.MEASURED if points else basis_of(fitted, lengths.input_tokens, lengths.output_tokens),
        limited_by_memory=slots < most,
        most_requests_per_second=_most(question, candidate, step, scheduler),
    )


def evaluate(question: Question, bound: CandidateBound) -> Evaluation | InfeasibleCandidate:
    """Rate that one replica carries inside the SLA: by the measured points where they reach, else by the step model."""
    if bound.points and (answer := from_points(question, bound)) is not None:
        return answer
    return from_model(question, bound)


def points_left_out(question: Question) -> int:
    """Measured points of this workload that were measured with other settings of the engine than it has."""
    found = {
        (speed_key(candidate.key), *of_settings)
        for candidate in question.candidates
        if is_plain(question, candidate)
        for of_settings in left_out(question, candidate, _most_at_once(question, candidate))
    }
    return len(found)


def table_of(evaluation: Evaluation, question: Question, replicas: int) -> CapacityTable:
    """The monotone table of an evaluation, of one of so many replicas."""
    table = curve.capacity_table(
        evaluation.curve(evaluation.point),
        capacity=evaluation.capacity,
        saturation=evaluation.saturation_requests_per_second,
        lengths=question.lengths,
        kv_cache_tokens=evaluation.bound.memory.kv_cache_tokens,
    )
    work = work_of(evaluation.bound.step, question.lengths, evaluation.point.concurrency or 1.0)
    table = replace(table, work=work)
    if evaluation.alone is None:
        return table
    return replace(table, capacity_alone_requests_per_second=evaluation.alone.capacity, sized_replicas=replicas)


def _most(question: Question, candidate: Candidate, step: StepModel, scheduler: Scheduler) -> float:
    """Throughput of one replica with every batch slot taken, under the arrivals asked for."""
    if candidate.batching is Batching.STATIC:
        return static_batch.static_saturation_rate(step, question.lengths, step.max_batch)
    if question.arrivals is Arrivals.CLOSED_LOOP:
        # NB: not that of the largest batch: a measured shape need not rise up to it.
        return full_throughput(step, question.lengths).requests_per_second
    return poisson.saturation_rate(step, question.lengths, scheduler)


def _most_at_once(question: Question, candidate: Candidate) -> int:
    """Sequences that the engine runs at once, whatever its memory holds."""
    request = question.request
    ranks, offline = ranks_of(request.engine, candidate.key), request.has_offline_batch
    release = request.engine.spec.release(question.engine_release or CURRENT)
    declared = request.declared_settings
    return most_sequences(request.engine, release, candidate.batching, declared, ranks=ranks, offline=offline)


def _points(question: Question, candidate: Candidate, most: int) -> tuple[Point, ...]:
    """The points that were measured under this workload with these settings, of which `most` requests run at once.

    Benchmarks are run without cached prompts, and at fixed lengths: a spread is not in their latencies. The closed loop
    reads the mean lengths whatever the spread, as the course does.
    """
    workload, lengths = question.request.workload, question.lengths
    if workload.cached_input_percent or not is_plain(question, candidate):
        return ()
    if question.arrivals is Arrivals.POISSON and not lengths.is_fixed:
        return ()
    return matching(question, candidate.key, holding(question, candidate, most))


def _step(question: Question, key: ConfigurationKey) -> FittedStep:
    """The step model of a configuration; of a pipeline that was not measured, from its tensor-parallel group."""
    request, lengths, gpu = question.request, question.lengths, question.gpus[key.gpu]

    def step_of(key: ConfigurationKey) -> FittedStep:
        return step_for(
            model=question.model,
            gpu=gpu,
            key=key,
            engine=request.engine,
            profiles=telling_steps(question, key),
            lengths=(lengths.input_tokens, lengths.output_tokens),
            release=question.engine_release,
            knowledge=question.knowledge,
        )

    fitted = step_of(key)
    if key.pipeline_parallel == 1 or fitted.origin is not Origin.PRIOR:
        return fitted
    group = step_of(replace(key, pipeline_parallel=1))
    placement = Placement(key.tensor_parallel, key.pipeline_parallel, request.hardware.gpus_per_server)
    return replace(
        group,
        model=pipelined(group.model, question.model, gpu, placement),
        origin=Origin.PRIOR,
        source=f"{group.source}, and physics for {key.pipeline_parallel} pipeline stages",
    )
