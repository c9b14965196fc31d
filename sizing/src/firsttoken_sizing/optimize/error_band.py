"""Certainty of an answer: its basis, and between which rates the capacity of a replica lies.

How much longer or shorter than the model says times may be is that of `step.bands`, checked for coverage on what was
left out (`benchmarks/evaluation/bands.py`). Here which band applies, how hard the answer is, and what that leaves of
the capacity: all times `f` times as long is every limit `f` times as tight and every rate `f` times as low. So where a
latency hardly rises with load, a small error of time is a large one of capacity.
"""

from __future__ import annotations

import math
from dataclasses import replace

from firsttoken_sizing.band import Band
from firsttoken_sizing.declared import AS_INSTALLED
from firsttoken_sizing.optimize.evaluation import Candidate, CandidateBound
from firsttoken_sizing.optimize.load_model import LoadModel
from firsttoken_sizing.optimize.measured_with import is_alike
from firsttoken_sizing.optimize.optimizations import is_plain
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.closed_loop import throughput
from firsttoken_sizing.performance.limits import bounds, meets
from firsttoken_sizing.profile import Point
from firsttoken_sizing.step import Origin, StepModel, speed_key
from firsttoken_sizing.step.bands import AnswerKind, Banded, Regime, difficulty_of_fit, prior_regime, spread, times_of
from firsttoken_sizing.workload import Arrivals, Sla

_TTFT = "TTFT"
_AS_MEASURED = AnswerKind(Regime.MEASURED)


def capacity_band(question: Question, bound: CandidateBound, load_model: LoadModel, point: Point, binding: str) -> Band:
    """Band of the capacity that the step model gives: `point`, which `binding` stops, with the question's limits."""
    quantity = quantity_of(binding, point, question.request.sla)
    times = times_band(question, bound, quantity, point)
    capacity, sla = point.requests_per_second, judged_sla(question)
    low, high = (capacity_if(load_model, sla, factor) / capacity for factor in (times.high, times.low))
    return Band(min(1.0, max(low, PARAMETERS.bands.least_share)), max(1.0, high))


def quantity_of(binding: str, point: Point, sla: Sla) -> Banded:
    """The band of a capacity at this point, where `binding` stops it.

    A TTFT rises so steeply near the end of a replica that one inside its limit there may stop it a little earlier.
    """
    stops = {bound.name: bound for bound in bounds(point, sla)}
    if binding in stops:
        return Banded.CAPACITY_IN_TTFT if stops[binding].metric == _TTFT else Banded.CAPACITY
    near = any(b.metric == _TTFT and (b.share or 0.0) > PARAMETERS.bands.near_limit for b in stops.values())
    return Banded.CAPACITY_IN_TTFT if near else Banded.CAPACITY


def capacity_if(load_model: LoadModel, sla: Sla, factor: float) -> float:
    """Largest rate inside the SLA (requests a second) if all times are `factor` times what the model says.

    That of the lightest load where the limits leave not even one request alone.
    """
    strict = tightened(sla, 1 / factor)
    largest = load_model.largest(lambda point: meets(point, strict) is True).point
    return largest.requests_per_second / factor


def times_band(question: Question, bound: CandidateBound, quantity: Banded, point: Point) -> Band:
    """Band of a time by the step model at a point, at as many requests in flight; of the capacity as times."""
    fitted = bound.fitted
    times = times_of(kind_of(question, bound), quantity, difficulty_of(question, bound, point))
    if fitted.origin is Origin.PROFILES and fitted.points < PARAMETERS.bands.least_points:
        times = times.at_least(1 + PARAMETERS.bands.one_point_percent / 100 / math.sqrt(fitted.points))
    poisson = 1 + PARAMETERS.bands.poisson_percent / 100
    return times.widened(poisson) if question.arrivals is Arrivals.POISSON else times


def measured_times(quantity: Banded) -> Band:
    """Band of what was measured at this very load: the repeatability of that benchmark."""
    return times_of(_AS_MEASURED, quantity)


def measured_band() -> Band:
    """The same of the capacity."""
    return measured_times(Banded.CAPACITY).inverse


def judged_sla(question: Question) -> Sla:
    """The limits that a load by the model must keep: in a closed loop less a margin (`latency_margin`)."""
    sla = question.request.sla
    return sla if question.arrivals is Arrivals.POISSON else tightened(sla, 1 - PARAMETERS.capacity.latency_margin)


def tightened(sla: Sla, factor: float) -> Sla:
    """The same with every limit multiplied by `factor`."""
    limits = {name: getattr(sla, name) for name in ("time_to_first_token", "inter_token_latency", "end_to_end")}
    return replace(
        sla,
        **{name: limit and replace(limit, milliseconds=limit.milliseconds * factor) for name, limit in limits.items()},
    )


def difficulty_of(question: Question, bound: CandidateBound, point: Point) -> float:
    """Difficulty of an answer at a point: of a fit see `difficulty_of_fit`, of physics 1.

    The spread is that in what a closed loop with the point's requests in flight carries.
    """
    fitted, running = bound.fitted, max(1.0, point.concurrency or 0.0)
    if fitted.origin is Origin.PRIOR:
        return 1.0

    def rate(step: StepModel) -> float:
        return throughput(replace(step, max_batch=bound.step.max_batch), question.lengths, running)

    apart = spread(rate(fitted.model), [rate(step) for step in fitted.without_one()])
    return difficulty_of_fit(fitted.median_error_percent, apart)


def kind_of(question: Question, bound: CandidateBound) -> AnswerKind:
    """Answers that share the band of this one: by what is known."""
    return AnswerKind(_regime(question, bound), bound.fitted.is_collected, question.model.experts is not None)


def _regime(question: Question, bound: CandidateBound) -> Regime:
    fitted, engine = bound.fitted, question.request.engine
    if fitted.origin is not Origin.PRIOR:
        return Regime.OWN
    known = tuple(question.knowledge.configurations(engine))
    ours = question.model.architecture, bound.candidate.key.gpu
    return prior_regime(
        calibrated=question.knowledge.is_calibrated(engine, fitted.release),
        like_measured=_is_like_measured(question, bound.candidate),
        knows_both=any((k.model, k.gpu) == ours for k in known),
        knows_model=any(k.model == ours[0] for k in known),
        knows_gpu=any(k.gpu == ours[1] for k in known),
    )


def _is_like_measured(question: Question, candidate: Candidate) -> bool:
    """Tell whether the candidate differs from measured ones in TP and precision only, as the band of siblings was made.

    No pipeline, no attention data parallelism, no replica of several servers and no optimization was ever measured, nor
    every format with every engine, so for these the constants know less than the model and the GPU would say.
    """
    key, request = candidate.key, question.request
    speed = speed_key(key).precision
    known = any(k.precision == speed for k in question.knowledge.configurations(request.engine))
    one_server = (
        key.pipeline_parallel == key.attention_data_parallel == 1
        and key.tensor_parallel <= request.hardware.gpus_per_server
    )
    usual = is_plain(question, candidate) and is_alike(question, key.precision, AS_INSTALLED)
    return known and one_server and usual
