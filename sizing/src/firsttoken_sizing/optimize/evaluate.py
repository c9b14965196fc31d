"""One configuration under one workload: does it fit, what does a replica carry inside the SLA, on what basis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from firsttoken_sizing.catalog.memory import replica_memory
from firsttoken_sizing.errors import NoBenchmark
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.performance import closed_loop, curve, measured, poisson
from firsttoken_sizing.performance.limits import Bound, bounds, meets, tightest
from firsttoken_sizing.performance.table import CapacityTable
from firsttoken_sizing.profile import ConfigurationKey, Load, Point
from firsttoken_sizing.request import Basis, Infeasible, Memory
from firsttoken_sizing.step import (
    EXTRAPOLATED_BAND_PERCENT,
    FittedStep,
    StepModel,
    basis_of,
    fitted_step,
    no_benchmark,
    repeat_error_percent,
)
from firsttoken_sizing.step.fit import usable_samples
from firsttoken_sizing.step.scheduler import Scheduler
from firsttoken_sizing.workload import Arrivals, Sla

POISSON_MODEL_ERROR_PERCENT = 10.0
"""What the Poisson model adds to the error of the fit: it lies within 10 % of the discrete-event simulation in TTFT P95
(tests/sizing/performance/test_poisson_agrees_with_simulation.py)."""
_CAUSES = {
    "TTFT": Infeasible.SINGLE_REQUEST_TTFT,
    "ITL": Infeasible.ITL_AT_BATCH_1,
    "E2E": Infeasible.END_TO_END_INCONSISTENT,
}
_LIGHT_LOAD = 1e-3
"""Share of the stable rate at which a Poisson request is practically alone."""
_FULL = 0.999


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a configuration cannot serve this workload at any size. `shortfall` ranks refusals: less is nearer."""

    key: ConfigurationKey
    cause: Infeasible
    sentence: str
    shortfall: float
    memory: Memory | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one replica of a configuration does inside the SLA.

    `point` holds measured statistics only where `basis` is Measured (and the mean of E2E that follows from them).
    `curve` are all operating points about which the SLA can be judged, with what was filled in; `step` is the model
    behind it (None: measured only).
    """

    key: ConfigurationKey
    point: Point
    basis: Basis
    error_band_percent: float
    binding: str
    saturation_requests_per_second: float
    memory: Memory
    curve: tuple[Point, ...]
    step: StepModel | None
    source: str

    @property
    def capacity(self) -> float:
        """Largest rate of one replica inside the SLA, requests a second."""
        return self.point.requests_per_second


def evaluate(question: Question, key: ConfigurationKey) -> Evaluation | Refusal:
    """Evaluate one candidate. Raises `NoBenchmark` where nothing is known about its step times."""
    request, lengths = question.request, question.lengths
    memory = replica_memory(
        question.model,
        question.gpus[key.gpu],
        precision=key.precision,
        tensor_parallel=key.tensor_parallel,
        pipeline_parallel=key.pipeline_parallel,
        input_tokens=lengths.input_tokens,
        output_tokens=lengths.output_tokens,
    )
    if refusal := _memory_refusal(key, memory):
        return refusal
    memory = replace(memory, measured_concurrency=_measured_concurrency(question, key))
    fitted = fitted_step(key, question.profiles, (lengths.input_tokens, lengths.output_tokens))
    slots = max(memory.max_concurrency, memory.measured_concurrency or 0)
    step = replace(fitted.model, max_batch=min(fitted.model.max_batch, slots)) if fitted else None
    load = Load.CLOSED_LOOP if question.arrivals is Arrivals.CLOSED_LOOP else Load.POISSON
    points = measured.matching_points(question.profiles, key, load, lengths.input_tokens, lengths.output_tokens)
    # A fill without a fit behind it is trusted as little as lengths that nobody measured.
    fill_band = fitted.band_percent if fitted else EXTRAPOLATED_BAND_PERCENT
    if points and not request.workload.cached_input_percent:
        answer = _from_points(question, key, memory, points, step, fill_band)
        if answer is not None:
            return answer
    if fitted is None or step is None:
        raise no_benchmark(key)
    return _from_model(question, key, memory, fitted, step)


def table_of(evaluation: Evaluation, question: Question) -> CapacityTable:
    """The monotone table of an evaluation."""
    if evaluation.curve:
        points: Sequence[Point] = measured.interpolate(evaluation.curve)
    elif evaluation.step is not None and question.arrivals is Arrivals.POISSON:
        points = curve.poisson_points(evaluation.step, question.lengths, evaluation.capacity)
    elif evaluation.step is not None:
        points = (*curve.closed_loop_points(evaluation.step, question.lengths), evaluation.point)
    else:
        points = (evaluation.point,)
    return curve.capacity_table(
        points,
        capacity=evaluation.capacity,
        saturation=evaluation.saturation_requests_per_second,
        lengths=question.lengths,
        kv_cache_tokens=evaluation.memory.kv_cache_tokens,
    )


def _memory_refusal(key: ConfigurationKey, memory: Memory) -> Refusal | None:
    where = f"{key.gpus_per_replica} x {key.gpu}"
    if memory.kv_cache_tokens <= 0:
        missing = memory.weights_gib + memory.other_gib - memory.total_gib
        sentence = (
            f"{key.precision} weights take {memory.weights_gib:.1f} GiB a GPU on {where} of {memory.total_gib:.1f} GiB"
            " and leave no room for the KV cache; use more GPUs a replica (hardware.tensorParallel), a smaller"
            " precision or a larger GPU"
        )
        return Refusal(key, Infeasible.MODEL_DOES_NOT_FIT, sentence, 1e9 + missing, memory)
    if memory.max_concurrency < 1:
        sentence = (
            f"the KV cache of {where} holds {memory.kv_cache_tokens} tokens, fewer than one request; use more GPUs a"
            " replica (hardware.tensorParallel), a smaller precision or shorter lengths"
        )
        return Refusal(key, Infeasible.KV_CACHE_TOO_SMALL, sentence, 1e6, memory)
    return None


def _measured_concurrency(question: Question, key: ConfigurationKey) -> int | None:
    """Most requests that were measured running at once at these lengths: so many do fit, whatever is reserved.

    Where the TTFT alone is known to compare with, all of a concurrency without a queue; else those that were decoding,
    by Little's law over the decode time, `X * ITL * (OSL - 1)`.
    """
    lengths = question.lengths
    same = measured.same_lengths(question.profiles, key, Load.CLOSED_LOOP, lengths.input_tokens, lengths.output_tokens)
    running: list[float] = []
    for profile in same:
        samples = usable_samples((profile,))
        queue_would_show = any(s.concurrency == 1 and s.ttft_ms is not None for s in samples)
        for s in samples:
            if queue_would_show and s.ttft_ms is not None:
                running.append(s.concurrency)
            elif s.itl_ms is not None:
                running.append(min(s.concurrency, s.requests_per_second * s.itl_ms * (s.output_tokens - 1) / 1000))
    return int(max(running)) if running else None


def _from_points(
    question: Question,
    key: ConfigurationKey,
    memory: Memory,
    points: tuple[Point, ...],
    step: StepModel | None,
    fill_band_percent: float,
) -> Evaluation | Refusal | None:
    """Answer from measured points; None where only the step model can say more.

    `fill_band_percent`: error band of an answer that stands on a statistic that was filled in.
    """
    sla = question.request.sla
    judged = [p for p in points if measured.can_be_judged(p, sla)]
    if not judged:
        if step is None:
            raise _percentile_unknown(key, points, sla)
        return None

    def shape(point: Point) -> Point | None:
        if step is None or point.concurrency is None:
            return None
        wide = replace(step, max_batch=max(step.max_batch, math.ceil(point.concurrency)))
        return closed_loop.predict(wide, question.lengths, max(1, round(point.concurrency)), Scheduler())

    known = measured.operating_point(judged, sla)
    filled = measured.fill_percentiles(judged, shape)
    chosen, basis, band = known, Basis.MEASURED, repeat_error_percent()
    if measured.has_better_unknown(judged, sla, known):
        # NB: not those that their own mean rules out: a filled percentile must not bring them back.
        possible = [(p, f) for p, f in zip(judged, filled, strict=True) if meets(p, sla) is not False]
        best = measured.operating_point([f for _, f in possible], sla)
        if best is not None and (known is None or best.requests_per_second > known.requests_per_second):
            before = next(p for p, f in possible if f is best)
            basis = Basis.INTERPOLATED if measured.is_between(judged, before, sla) else Basis.FITTED
            chosen, band = best, max(band, fill_band_percent)
        elif best is None and any(meets(p, sla) is None for p in filled):
            raise _percentile_unknown(key, filled, sla)
    lowest = min(judged, key=lambda p: p.concurrency or math.inf)
    if chosen is None:
        alone = lowest.concurrency is not None and lowest.concurrency <= 1.5
        if not alone and step is not None:
            return None
        return _latency_refusal(key, min(filled, key=lambda p: p.concurrency or math.inf), sla, memory)
    fastest = max(p.requests_per_second for p in points)
    return Evaluation(
        key=key,
        point=chosen,
        basis=basis,
        error_band_percent=band,
        memory=memory,
        curve=filled,
        step=step,
        binding=_binding_of_points(filled, chosen, sla, fastest),
        saturation_requests_per_second=fastest,
        source="measured points of " + ", ".join(_profile_names(question, key)),
    )


def _from_model(
    question: Question, key: ConfigurationKey, memory: Memory, fitted: FittedStep, step: StepModel
) -> Evaluation | Refusal:
    request, lengths = question.request, question.lengths
    sla = request.sla
    basis, band = basis_of(fitted, lengths.input_tokens, lengths.output_tokens)
    saturation = poisson.saturation_rate(step, lengths)
    if question.arrivals is Arrivals.POISSON:
        band = math.hypot(band, POISSON_MODEL_ERROR_PERCENT)
        alone = poisson.predict(step, lengths, _LIGHT_LOAD * saturation)
        if meets(alone, sla) is False:
            return _latency_refusal(key, alone, sla, memory)
        capacity = poisson.capacity(step, lengths, lambda p: meets(p, sla) is True)
        point = poisson.predict(step, lengths, capacity)
        beyond = poisson.predict(step, lengths, capacity * 1.02)
        full = capacity >= _FULL * poisson.MAX_UTILIZATION * saturation
    else:
        alone = closed_loop.predict(step, lengths, 1, Scheduler())
        if meets(alone, sla) is False:
            return _latency_refusal(key, alone, sla, memory)
        concurrency = _largest_concurrency(step, question)
        point = closed_loop.predict(step, lengths, concurrency, Scheduler())
        beyond = closed_loop.predict(step, lengths, concurrency + 1, Scheduler())
        full = concurrency >= step.max_batch
    limit = tightest(beyond, sla)
    if not full and limit is not None:
        binding = limit.name
    elif question.arrivals is Arrivals.POISSON:
        binding = "Utilization"
    else:
        binding = "Batch size" if step.max_batch == fitted.model.max_batch else "KV cache"
    return Evaluation(
        key=key,
        point=point,
        basis=basis,
        error_band_percent=band,
        memory=memory,
        curve=(),
        step=step,
        binding=binding,
        saturation_requests_per_second=saturation,
        source=fitted.source,
    )


def _largest_concurrency(step: StepModel, question: Question) -> int:
    """Largest whole concurrency inside the SLA; concurrency 1 is known to be."""
    low, high = 1, step.max_batch + 1
    while high - low > 1:
        middle = (low + high) // 2
        point = closed_loop.predict(step, question.lengths, middle, Scheduler())
        if meets(point, question.request.sla):
            low = middle
        else:
            high = middle
    return low


def _latency_refusal(key: ConfigurationKey, alone: Point, sla: Sla, memory: Memory) -> Refusal:
    broken = [b for b in bounds(alone, sla) if b.kept is False]
    worst = max(broken, key=lambda b: b.share or (b.mean_milliseconds or 0.0) / b.limit.milliseconds)
    value = worst.value_milliseconds if worst.value_milliseconds is not None else worst.mean_milliseconds or 0.0
    load = "one request alone" if (alone.concurrency or 0.0) <= 1.5 else f"concurrency {alone.concurrency:g}"
    sentence = (
        f"{worst.name} of {load} is {value:.1f} ms on {key.gpus_per_replica} x {key.gpu} {key.precision}, above the"
        f" limit of {worst.limit.milliseconds:g} ms, and no number of replicas changes that; raise the limit to at"
        f" least {math.ceil(value)} ms, or use a faster GPU, more GPUs a replica or a smaller model"
    )
    return Refusal(key, _CAUSES[worst.metric], sentence, value / worst.limit.milliseconds, memory)


def _binding_of_points(points: Sequence[Point], chosen: Point, sla: Sla, fastest: float) -> str:
    """What stops the replica at `chosen`; `fastest` is the largest throughput that was measured, in the SLA or not."""
    if chosen.requests_per_second >= fastest:
        return "Throughput"
    faster = [p for p in points if p.requests_per_second > chosen.requests_per_second]
    following = min(faster, key=lambda p: p.requests_per_second, default=chosen)
    broken = [b for b in bounds(following, sla) if b.kept is False]
    limit: Bound | None = max(broken, key=lambda b: b.share or 0.0, default=tightest(chosen, sla))
    return limit.name if limit else "Throughput"


def _percentile_unknown(key: ConfigurationKey, points: Sequence[Point], sla: Sla) -> NoBenchmark:
    unknown = next(b for p in points for b in bounds(p, sla) if b.kept is None)
    return NoBenchmark(
        "sla",
        f"the measured points of {key.model} on {key.gpu} do not report {unknown.name}, and they are too few to fit it",
        f"use percentile Mean, or import a benchmark that reports {unknown.limit.percentile.value}",
    )


def _profile_names(question: Question, key: ConfigurationKey) -> list[str]:
    return sorted(p.name for p in question.profiles if p.key == key)
