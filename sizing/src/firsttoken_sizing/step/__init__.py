"""The step model: what one iteration of the engine costs, fitted to measurements or derived from physics.

Knows nothing of arrivals or SLAs.
"""

from firsttoken_sizing.step.calibration import Calibration
from firsttoken_sizing.step.fitted import FittedStep, Origin, Range
from firsttoken_sizing.step.knowledge import Knowledge, speed_key
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.prior import prior_step
from firsttoken_sizing.step.select import basis_of, step_for, step_model
from firsttoken_sizing.step.shipped import shipped, shipped_keys, shipped_step

__all__ = [
    "Calibration",
    "FittedStep",
    "Knowledge",
    "Origin",
    "Range",
    "StepModel",
    "basis_of",
    "prior_step",
    "shipped",
    "shipped_keys",
    "shipped_step",
    "speed_key",
    "step_for",
    "step_model",
]
