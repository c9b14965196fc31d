"""Certainty of an answer: its basis, and the half-width of its error band in percent of requests a second of a replica.

The bands are those of `step.bands`, checked for coverage on held-out points (`benchmarks/evaluation/bands.py`). Here
only which one applies, and how hard the answer is: how far fits without one of the workloads each lie apart at this
very load.
"""

from __future__ import annotations

import math
from dataclasses import replace

from firsttoken_sizing.catalog import BYTES_PER_PARAMETER
from firsttoken_sizing.optimize.evaluation import Candidate, CandidateBound
from firsttoken_sizing.optimize.optimizations import is_as_installed
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.closed_loop import throughput
from firsttoken_sizing.profile import Point
from firsttoken_sizing.request import Basis
from firsttoken_sizing.step import Origin, StepModel, basis_of
from firsttoken_sizing.step.bands import Regime, band_percent, prior_regime, spread_percent
from firsttoken_sizing.workload import Arrivals


def basis_and_band(question: Question, bound: CandidateBound, point: Point) -> tuple[Basis, float]:
    """Basis and band of an answer by the step model of a candidate at an operating point, under these arrivals."""
    lengths, fitted = question.lengths, bound.fitted
    basis = basis_of(fitted, lengths.input_tokens, lengths.output_tokens)
    band = band_percent(
        _regime(question, bound, basis),
        _difficulty_percent(question, bound, point),
        is_collected=fitted.is_collected,
        mixture_of_experts=question.model.experts is not None,
    )
    if fitted.origin is Origin.PROFILES and fitted.points < PARAMETERS.bands.least_points:
        band = max(band, PARAMETERS.bands.one_point_percent / math.sqrt(fitted.points))
    return basis, math.hypot(band, PARAMETERS.bands.poisson_percent) if question.arrivals is Arrivals.POISSON else band


def _difficulty_percent(question: Question, bound: CandidateBound, point: Point) -> float:
    """Spread of the fits in what a closed loop with the point's requests in flight carries; 0 for physics."""
    fitted, running = bound.fitted, max(1.0, point.concurrency or 0.0)
    if fitted.origin is Origin.PRIOR:
        return 0.0

    def rate(step: StepModel) -> float:
        return throughput(replace(step, max_batch=bound.step.max_batch), question.lengths, running)

    return spread_percent(rate(fitted.model), [rate(step) for step in fitted.without_one()])


def _regime(question: Question, bound: CandidateBound, basis: Basis) -> Regime:
    fitted = bound.fitted
    if basis is Basis.FITTED:
        return Regime.FITTED
    if fitted.origin is not Origin.PRIOR:
        return Regime.ONE_WORKLOAD if fitted.is_of_one_workload else Regime.EXTRAPOLATED
    known = tuple(question.knowledge.configurations(question.request.engine))
    ours = question.model.architecture, bound.candidate.key.gpu
    return prior_regime(
        knows_both=_is_like_measured(question, bound.candidate) and any((k.model, k.gpu) == ours for k in known),
        knows_one=any(k.model == ours[0] or k.gpu == ours[1] for k in known),
    )


def _is_like_measured(question: Question, candidate: Candidate) -> bool:
    """Tell whether the candidate differs from measured ones in TP and precision only, as the band of siblings was made.

    No pipeline, no replica of several servers, no optimization and no format that the GPU does not compute in was ever
    measured, so for these the constants know less than the model and the GPU would say.
    """
    key, request = candidate.key, question.request
    computed = key.precision in question.gpus[key.gpu].dense_tflops and BYTES_PER_PARAMETER[key.precision] >= 1
    one_server = key.pipeline_parallel == 1 and key.tensor_parallel <= request.hardware.gpus_per_server
    return computed and one_server and is_as_installed(request, candidate)
