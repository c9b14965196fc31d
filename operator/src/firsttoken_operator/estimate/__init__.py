"""What live signals say of one resource: demand, replica speed, tail capacity, error budget, forecast.

Pure, like `decide`, which reads these estimates: no clock, no randomness, no I/O. Other packages import from here only.
"""

from firsttoken_operator.estimate.demand import Demand, can_wake_up, window_maximum
from firsttoken_operator.estimate.forecast import Forecast, ForecastState, Method, Observation, learn, observe, predict
from firsttoken_operator.estimate.memory import (
    IDLE_FILL,
    MAXIMUM_FACTOR,
    MINIMUM_FACTOR,
    TAIL_REQUESTS,
    Calibration,
    Decrease,
    Memory,
    ResourceMemory,
)
from firsttoken_operator.estimate.remember import BRAKE_MEMORY_SECONDS, Remembered, fresh, remember, sizing_key
from firsttoken_operator.estimate.replica_speed import with_known_speed
from firsttoken_operator.estimate.tail_capacity import (
    FASTEST_GAIN_PER_HOUR,
    SLOWEST_GAIN_PER_HOUR,
    late_on_any_fleet,
    patience,
    reserve,
    spent_budgets,
    with_spent_budgets,
)
from firsttoken_operator.estimate.target_load import (
    hold_seconds,
    with_deadband,
)

__all__ = [
    "BRAKE_MEMORY_SECONDS",
    "FASTEST_GAIN_PER_HOUR",
    "IDLE_FILL",
    "MAXIMUM_FACTOR",
    "MINIMUM_FACTOR",
    "SLOWEST_GAIN_PER_HOUR",
    "TAIL_REQUESTS",
    "Calibration",
    "Decrease",
    "Demand",
    "Forecast",
    "ForecastState",
    "Memory",
    "Method",
    "Observation",
    "Remembered",
    "ResourceMemory",
    "can_wake_up",
    "fresh",
    "hold_seconds",
    "late_on_any_fleet",
    "learn",
    "observe",
    "patience",
    "predict",
    "remember",
    "reserve",
    "sizing_key",
    "spent_budgets",
    "window_maximum",
    "with_deadband",
    "with_known_speed",
    "with_spent_budgets",
]
