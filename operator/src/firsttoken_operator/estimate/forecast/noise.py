"""Tell counting noise from real movement, online and without assuming Poisson.

The squared difference of two window means is twice the counting noise, whatever the lag, plus what the rate itself
moved, which grows with the lag (the empirical variogram: its nugget is the noise, its slope the movement; Matheron,
Economic Geology 58, 1963, and Cressie, Statistics for Spatial Data, 1993, ch. 2). Two lags give both:

    E[D(lag)] = 2 * dispersion * rate / window + movement * rate**2 * (lag - window / 3)

for a random walk whose variance grows by `movement * rate**2` a second. Only disjoint windows are compared: windows
that overlap share arrivals, and their difference says nothing about the counting noise.
"""

from __future__ import annotations

from math import exp

from firsttoken_operator.estimate.forecast.state import NoiseState

FAR = 5
"""The longer lag, windows."""
MEMORY_WINDOWS = 360.0
"""Windows after which a pair counts 1/e: 6 h at 60 s, long enough to see a thousandth of a rate move."""
KEEP = exp(-1.0 / MEMORY_WINDOWS)
PRIOR_WEIGHT = 10.0
"""Windows that the assumptions below are worth."""
PRIOR_DISPERSION = 1.0
PRIOR_MOVEMENT = 0.02**2 / 60.0
"""Relative variance a second: 2 % in a minute, 15 % in an hour."""
DISPERSION_BOUNDS = (0.1, 1000.0)
MOVEMENT_BOUNDS = (0.01**2 / 60.0, 0.2**2 / 60.0)
OUTLIER = 16.0
"""A squared difference counts at most this many times what was expected (4 standard deviations)."""


def begin(rate: float, window_seconds: float) -> NoiseState:
    """What is assumed of a series that was never seen, at `rate` requests a second."""
    scale = max(rate, 1.0 / window_seconds)
    return _assumed(PRIOR_WEIGHT, PRIOR_WEIGHT * scale, PRIOR_DISPERSION, PRIOR_MOVEMENT, window_seconds)


def in_windows_of(noise: NoiseState, before_seconds: float, window_seconds: float) -> NoiseState:
    """The same knowledge where windows are now `window_seconds` long instead of `before_seconds`."""
    dispersion, movement = estimate(noise, before_seconds)
    return _assumed(noise.weight, noise.rate, dispersion, movement, window_seconds)


def estimate(noise: NoiseState, window_seconds: float) -> tuple[float, float]:
    """Dispersion (variance-to-mean ratio of a window's count) and movement (relative variance a second)."""
    span = noise.rate * window_seconds
    movement = max((noise.far - noise.near) / (span * (FAR - 1)), 0.0)
    dispersion = (noise.near - movement * span * 2.0 / 3.0) * window_seconds / (2.0 * noise.weight)
    low, high = DISPERSION_BOUNDS
    least, most = MOVEMENT_BOUNDS
    return min(max(dispersion, low), high), min(max(movement, least), most)


def add(noise: NoiseState, at_seconds: float, rate: float, level: float, window_seconds: float) -> NoiseState:
    """Compare one window with those before it, once a window; `level` scales the difference.

    A series that is observed less often than every 1.5 windows starts again at each point and teaches nothing here.
    """
    elapsed = at_seconds - noise.block_seconds
    if noise.blocks and elapsed < window_seconds * 0.999:
        return noise
    if not noise.blocks or elapsed > 1.5 * window_seconds:
        return NoiseState(noise.weight, noise.rate, noise.near, noise.far, (rate,), at_seconds)
    blocks = (*noise.blocks[-FAR:], rate)
    if len(blocks) <= FAR:
        return NoiseState(noise.weight, noise.rate, noise.near, noise.far, blocks, at_seconds)
    scale = max(level, 1.0 / window_seconds)
    expected = OUTLIER / noise.weight
    near = min((rate - blocks[-2]) ** 2 / scale, expected * noise.near)
    far = min((rate - blocks[0]) ** 2 / scale, expected * noise.far)
    return NoiseState(
        KEEP * noise.weight + 1.0,
        KEEP * noise.rate + scale,
        KEEP * noise.near + near,
        KEEP * noise.far + far,
        blocks,
        at_seconds,
    )


def cut(noise: NoiseState) -> NoiseState:
    """The same knowledge, with the series broken: what comes is not compared with what was."""
    return NoiseState(noise.weight, noise.rate, noise.near, noise.far)


def _assumed(weight: float, rate: float, dispersion: float, movement: float, window_seconds: float) -> NoiseState:
    """Sums that `estimate` turns into this dispersion and movement."""
    moved = movement * rate * window_seconds
    near = 2.0 * dispersion * weight / window_seconds + moved * 2.0 / 3.0
    return NoiseState(weight, rate, near, near + moved * (FAR - 1))
