"""Tell counting noise from real movement, online and without assuming Poisson.

The squared difference of two window means is twice the counting noise, whatever the lag, plus what the rate itself
moved, which grows with the lag (the empirical variogram: its nugget is the noise, its slope the movement; Matheron,
Economic Geology 58, 1963, and Cressie, Statistics for Spatial Data, 1993, ch. 2). Two lags give both:

    E[D(lag)] = 2 * dispersion * rate / window + movement * rate**2 * (lag - window / 3)

for a random walk whose variance grows by `movement * rate**2` a second. Only disjoint windows are compared: windows
that overlap share arrivals, and their difference says nothing about the counting noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from firsttoken_operator.estimate.forecast_config import NoiseConfig


@dataclass(frozen=True, slots=True)
class NoiseState:
    """Exponentially forgotten sums over pairs of disjoint windows, each divided by the rate at the time."""

    weight: float
    rate: float
    """Sum of the rates, requests a second."""
    near: float
    """Sum of squared differences between neighbouring windows, over the rate."""
    far: float
    """The same between windows `far_lag_windows` apart."""
    blocks: tuple[float, ...] = ()
    """Rates of the last disjoint windows, oldest first; emptied where the series is broken."""
    block_seconds: float = 0.0
    """Time when the last of them ended."""


def begin(rate: float, window_seconds: float, config: NoiseConfig) -> NoiseState:
    """Assume the noise of a series that was never seen, at `rate` requests a second."""
    scale = max(rate, 1.0 / window_seconds)
    assumed = config.prior_dispersion, config.prior_movement_per_second
    return _assumed(config.prior_windows, config.prior_windows * scale, *assumed, window_seconds, config)


def in_windows_of(noise: NoiseState, before_seconds: float, window_seconds: float, config: NoiseConfig) -> NoiseState:
    """The same knowledge where windows are now `window_seconds` long instead of `before_seconds`."""
    dispersion, movement = estimate(noise, before_seconds, config)
    return _assumed(noise.weight, noise.rate, dispersion, movement, window_seconds, config)


def estimate(noise: NoiseState, window_seconds: float, config: NoiseConfig) -> tuple[float, float]:
    """Dispersion (variance-to-mean ratio of a window's count) and movement (relative variance a second)."""
    span = noise.rate * window_seconds
    movement = max((noise.far - noise.near) / (span * (config.far_lag_windows - 1)), 0.0)
    dispersion = (noise.near - movement * span * 2.0 / 3.0) * window_seconds / (2.0 * noise.weight)
    least, most = config.least_movement_per_second, config.most_movement_per_second
    dispersion = min(max(dispersion, config.least_dispersion), config.most_dispersion)
    return dispersion, min(max(movement, least), most)


def add(
    noise: NoiseState, at_seconds: float, rate: float, level: float, window_seconds: float, config: NoiseConfig
) -> NoiseState:
    """Compare one window with those before it, once a window; `level` scales the difference.

    A series that is observed less often than every 1.5 windows starts again at each point and updates nothing here.
    """
    elapsed = at_seconds - noise.block_seconds
    if noise.blocks and elapsed < config.least_step_windows * window_seconds:
        return noise
    if not noise.blocks or elapsed > config.most_step_windows * window_seconds:
        return NoiseState(noise.weight, noise.rate, noise.near, noise.far, (rate,), at_seconds)
    blocks = (*noise.blocks[-config.far_lag_windows :], rate)
    if len(blocks) <= config.far_lag_windows:
        return NoiseState(noise.weight, noise.rate, noise.near, noise.far, blocks, at_seconds)
    scale = max(level, 1.0 / window_seconds)
    expected, keep = config.outlier_variances / noise.weight, exp(-1.0 / config.memory_windows)
    near = min((rate - blocks[-2]) ** 2 / scale, expected * noise.near)
    far = min((rate - blocks[0]) ** 2 / scale, expected * noise.far)
    return NoiseState(
        keep * noise.weight + 1.0,
        keep * noise.rate + scale,
        keep * noise.near + near,
        keep * noise.far + far,
        blocks,
        at_seconds,
    )


def cut(noise: NoiseState) -> NoiseState:
    """The same knowledge, with the series broken: what comes is not compared with what was."""
    return NoiseState(noise.weight, noise.rate, noise.near, noise.far)


def _assumed(
    weight: float, rate: float, dispersion: float, movement: float, window_seconds: float, config: NoiseConfig
) -> NoiseState:
    """Sums that `estimate` turns into this dispersion and movement."""
    moved = movement * rate * window_seconds
    near = 2.0 * dispersion * weight / window_seconds + moved * 2.0 / 3.0
    return NoiseState(weight, rate, near, near + moved * (config.far_lag_windows - 1))
