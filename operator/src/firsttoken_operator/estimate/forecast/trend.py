"""Damped trend of the level.

The trend of Holt (1957; International Journal of Forecasting 20, 2004) on the logarithm of the filtered level, damped
as by Gardner and McKenzie (Management Science 31, 1985): growth does not go on for ever, and damped trends win
forecasting competitions against undamped ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

from firsttoken_operator.estimate.forecast.level import LevelState
from firsttoken_operator.estimate.forecast_config import TrendConfig


@dataclass(frozen=True, slots=True)
class TrendState:
    """Damped trends of the level, relative to it, a second."""

    slope: float = 0.0
    """Slope of the level."""
    beyond_season: float = 0.0
    """Slope of the level divided by the season."""


def follow(
    trend: TrendState, before: LevelState, after: LevelState, seasonal: float, config: TrendConfig
) -> TrendState:
    """The slopes after the level went from `before` to `after`; `seasonal` is the log ratio of the season between."""
    floor = 1.0 / after.window_seconds
    elapsed = after.at_seconds - before.at_seconds
    moved = log(max(after.rate, floor) / max(before.rate, floor))
    gain = 1.0 - exp(-elapsed / config.memory_seconds)
    return TrendState(
        trend.slope + gain * (moved / elapsed - trend.slope),
        trend.beyond_season + gain * ((moved - seasonal) / elapsed - trend.beyond_season),
    )


def growth(slope: float, horizon_seconds: float, config: TrendConfig) -> float:
    """Log ratio that a damped slope adds until the horizon."""
    return slope * config.damping_seconds * (1.0 - exp(-horizon_seconds / config.damping_seconds))
