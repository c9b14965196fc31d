"""How sure an answer is: its basis, and the half-width of its error band in percent of requests a second of a replica.

The bands are those of `step.bands`, checked for coverage on held-out points. Here only which one applies. Where a fit
brings its own held-out error, the wider of the two counts: the regime says what fits are like, the fit what it is like.
"""

from __future__ import annotations

import math

from firsttoken_sizing.optimize.evaluation import Prospect
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.request import Basis
from firsttoken_sizing.step import Origin, basis_of, shipped_keys
from firsttoken_sizing.step.bands import Regime, band_percent, prior_regime
from firsttoken_sizing.workload import Arrivals

POISSON_MODEL_ERROR_PERCENT = 10.0
"""What the Poisson model adds to the error of the fit: it lies within 10 % of the discrete-event simulation in TTFT P95
(tests/sizing/performance/test_poisson_agrees_with_simulation.py)."""


def measured_band_percent() -> float:
    """Of a point that was measured at this load: how well it can be repeated, not what the next release gives."""
    return band_percent(Regime.MEASURED)


def basis_and_band(question: Question, prospect: Prospect) -> tuple[Basis, float]:
    """Of an answer by the step model of a prospect, in the reading that was asked for."""
    lengths, fitted = question.lengths, prospect.fitted
    basis, of_fit = basis_of(fitted, lengths.input_tokens, lengths.output_tokens)
    experts = question.model.experts is not None
    band = band_percent(_regime(question, prospect, basis), None, mixture_of_experts=experts)
    if fitted.origin is not Origin.PRIOR:
        band = max(band, of_fit)
    return basis, math.hypot(band, POISSON_MODEL_ERROR_PERCENT) if question.arrivals is Arrivals.POISSON else band


def _regime(question: Question, prospect: Prospect, basis: Basis) -> Regime:
    if prospect.fitted.origin is not Origin.PRIOR:
        return Regime.FITTED if basis is Basis.FITTED else Regime.EXTRAPOLATED
    key, known = prospect.candidate.key, shipped_keys(question.request.engine)
    # NB: no pipeline was ever measured, so for one the constants know less than the model and the GPU would say.
    return prior_regime(
        knows_both=key.pipeline_parallel == 1 and any((k.model, k.gpu) == (key.model, key.gpu) for k in known),
        knows_one=any(k.model == key.model or k.gpu == key.gpu for k in known),
    )
