"""The rate now: a Kalman filter of a local level that smooths only as much as the counting noise demands.

Local level model (random walk plus noise; Harvey, Forecasting, Structural Time Series Models and the Kalman Filter,
1989, ch. 2; Durbin and Koopman, Time Series Analysis by State Space Methods, 2012, ch. 2) with both variances measured
online (`noise`). At 100 requests a second it follows within a window, at 1 it averages over minutes. A change that
noise cannot explain starts the level anew at the observed rate.

Windows overlap: at a tick of 15 s, four windows of 60 s in a row share arrivals. Each is weighted by the seconds that
it adds, `min(elapsed, window)`: four correlated windows then count as much as the one minute of arrivals they hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from firsttoken_operator.estimate.forecast import noise as noises
from firsttoken_operator.estimate.forecast.noise import NoiseState
from firsttoken_operator.estimate.forecast_config import ForecastConfig

ANSCOMBE = 3.0 / 8.0
"""Constant of the transform that makes the variance of counts one; mathematics, not to be tuned."""


@dataclass(frozen=True, slots=True)
class LevelState:
    """A local level: the filtered rate, its variance, and the noise that both rest on."""

    at_seconds: float
    since_seconds: float
    """Time when it was last started anew: at the first observation, after a gap, at a jump."""
    window_seconds: float
    rate: float
    variance: float
    """Variance of the error of `rate`, (requests a second) squared."""
    direction: int
    """+1 or -1 where the last innovation was suspiciously large, else 0."""
    noise: NoiseState


def follow(
    level: LevelState | None, at_seconds: float, rate: float, window_seconds: float, config: ForecastConfig
) -> LevelState:
    """The level after one observation later than the last; NB: the caller has refused what is not finite."""
    if level is None:
        return _anew(noises.begin(rate, window_seconds, config.noise), at_seconds, rate, window_seconds, 0, config)
    known = level.noise
    if window_seconds != level.window_seconds:
        known = noises.in_windows_of(known, level.window_seconds, window_seconds, config.noise)
    elapsed = at_seconds - level.at_seconds
    if elapsed > config.level.gap_windows * window_seconds:
        return _anew(noises.cut(known), at_seconds, rate, window_seconds, 0, config)
    dispersion, movement = noises.estimate(known, window_seconds, config.noise)
    scale = max(level.rate, 1.0 / window_seconds)
    variance = level.variance + movement * scale * scale * elapsed
    surprise = _surprise(rate, level.rate, variance, dispersion / window_seconds)
    direction = 0 if abs(surprise) < config.level.suspicious_deviations else 1 if surprise > 0.0 else -1
    if direction and (direction == level.direction or abs(surprise) >= config.level.certain_deviations):
        return _anew(noises.cut(known), at_seconds, rate, window_seconds, direction, config)
    gain = variance / (variance + dispersion * scale / min(elapsed, window_seconds))
    filtered = level.rate + gain * (rate - level.rate)
    noise = noises.add(known, at_seconds, rate, filtered, window_seconds, config.noise)
    return LevelState(
        at_seconds, level.since_seconds, window_seconds, filtered, (1.0 - gain) * variance, direction, noise
    )


def stands_for(before: LevelState | None, at_seconds: float, window_seconds: float, config: ForecastConfig) -> float:
    """Seconds that an observation speaks for: since the last one, or its own window after a gap."""
    elapsed = window_seconds if before is None else at_seconds - before.at_seconds
    return elapsed if elapsed <= config.level.gap_windows * window_seconds else window_seconds


def variance_at(level: LevelState, at_seconds: float, config: ForecastConfig) -> float:
    """Variance of the rate at `at_seconds` about the filtered level, (requests a second) squared."""
    _, movement = noises.estimate(level.noise, level.window_seconds, config.noise)
    scale = max(level.rate, 1.0 / level.window_seconds)
    return level.variance + movement * scale * scale * max(at_seconds - level.at_seconds, 0.0)


def moved(level: LevelState, at_seconds: float) -> LevelState:
    """The same level on a clock that was set to `at_seconds`."""
    return LevelState(
        at_seconds, at_seconds, level.window_seconds, level.rate, level.variance, 0, noises.cut(level.noise)
    )


def _anew(
    known: NoiseState, at_seconds: float, rate: float, window_seconds: float, direction: int, config: ForecastConfig
) -> LevelState:
    """A level at the observed rate, with what is known of the noise."""
    noise = noises.add(known, at_seconds, rate, rate, window_seconds, config.noise)
    dispersion, _ = noises.estimate(noise, window_seconds, config.noise)
    variance = dispersion * max(rate, 1.0 / window_seconds) / window_seconds
    return LevelState(at_seconds, at_seconds, window_seconds, rate, variance, direction, noise)


def _surprise(rate: float, level: float, variance: float, noise_per_rate: float) -> float:
    """The innovation in standard deviations, the smaller of two: plain, and of the square roots of counts.

    Small counts are skewed: on a quiet night many requests are less unlikely than the plain measure says, which the
    square root (Anscombe, Biometrika 35, 1948) corrects, but few are then more so.
    """
    unit = 1.0 / noise_per_rate
    count = level * unit + ANSCOMBE
    root = sqrt(count)
    spread = sqrt(1.0 + variance * unit * unit / count)
    of_roots = 2.0 * (sqrt(rate * unit + ANSCOMBE) - root)
    plain = (rate - level) * unit / root
    return (of_roots if rate > level else plain) / spread
