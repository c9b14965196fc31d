"""The step model: what one iteration of the engine costs, fitted to measurements. Knows nothing of arrivals or SLAs."""

from firsttoken_sizing.step.fit import FittedStep, Range
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.select import EXTRAPOLATED_BAND_PERCENT, basis_of, fitted_step, no_benchmark, step_model
from firsttoken_sizing.step.shipped import repeat_error_percent, shipped_keys, shipped_step, speed_key

__all__ = [
    "EXTRAPOLATED_BAND_PERCENT",
    "FittedStep",
    "Range",
    "StepModel",
    "basis_of",
    "fitted_step",
    "no_benchmark",
    "repeat_error_percent",
    "shipped_keys",
    "shipped_step",
    "speed_key",
    "step_model",
]
