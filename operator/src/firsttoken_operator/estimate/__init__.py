"""Estimates of one resource from its live signals: demand, replica speed, tail capacity, error budget, forecast.

Pure, like `decide`, which reads these estimates: no clock, no randomness, no I/O. One module an estimator, with its
frozen state, `update`, and what it returns; `config` holds every constant. Other packages import from here only.
"""

from firsttoken_operator.estimate.calibration import (
    Calibration,
    budget_consumption,
    capacity_factor,
    irreducible_miss_rate,
    restored,
    speed_of,
)
from firsttoken_operator.estimate.config import DEFAULT, EstimatorConfig
from firsttoken_operator.estimate.demand import Demand, LoadSample, can_wake_up, window_maximum
from firsttoken_operator.estimate.estimates import Estimates, estimate, fresh, sizing_key
from firsttoken_operator.estimate.forecast import Forecast, ForecastState, Method, Observation, learn, observe, predict
from firsttoken_operator.estimate.memory import Decrease, Memory, ResourceMemory
from firsttoken_operator.estimate.situation import Situation
from firsttoken_operator.estimate.target_load import hold_seconds, raising_arrivals, with_deadband
from firsttoken_operator.estimate.witnesses import UNKNOWN_REQUESTS_PER_SECOND, most_at_once, most_replicas

__all__ = [
    "DEFAULT",
    "UNKNOWN_REQUESTS_PER_SECOND",
    "Calibration",
    "Decrease",
    "Demand",
    "Estimates",
    "EstimatorConfig",
    "Forecast",
    "ForecastState",
    "LoadSample",
    "Memory",
    "Method",
    "Observation",
    "ResourceMemory",
    "Situation",
    "budget_consumption",
    "can_wake_up",
    "capacity_factor",
    "estimate",
    "fresh",
    "hold_seconds",
    "irreducible_miss_rate",
    "learn",
    "most_at_once",
    "most_replicas",
    "observe",
    "predict",
    "raising_arrivals",
    "restored",
    "sizing_key",
    "speed_of",
    "window_maximum",
    "with_deadband",
]
