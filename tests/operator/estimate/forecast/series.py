"""Series of counted requests for the tests of the forecast, as the operator sees them: each 15 s over the last 60 s."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from firsttoken_operator.estimate import DEFAULT, forecast
from firsttoken_operator.estimate.forecast import Forecast, ForecastState, Observation, season

MONDAY = 1_704_067_200.0
"""2024-01-01 00:00 UTC."""
TICK_SECONDS = 15.0
WINDOW_SECONDS = 60.0
HORIZON_SECONDS = 195.0


observe = partial(forecast.observe, config=DEFAULT.forecast)
predict = partial(forecast.predict, config=DEFAULT.forecast)
learn = partial(forecast.learn, config=DEFAULT.forecast)
ratio = partial(season.ratio, config=DEFAULT.forecast.season)
rise = partial(season.rise, config=DEFAULT.forecast.season)


def counted(rates: Iterable[float], seed: int = 0, dispersion: float = 1.0) -> list[float]:
    """Counts of a true rate per tick: Poisson, or negative binomial of that variance-to-mean ratio."""
    random = np.random.default_rng(seed)
    mean = np.fromiter(rates, float) * TICK_SECONDS
    if dispersion > 1.0:
        mean = random.gamma(mean / (dispersion - 1.0)) * (dispersion - 1.0)
    sums = np.concatenate([np.zeros(1), np.cumsum(random.poisson(mean))])
    seen: list[float] = ((sums[4:] - sums[:-4]) / WINDOW_SECONDS).tolist()
    return seen


def constant(rate: float, hours: float, seed: int = 0, dispersion: float = 1.0) -> list[float]:
    """Hours of a rate that does not change."""
    return counted([rate] * int(hours * 3600.0 / TICK_SECONDS), seed, dispersion)


def by_time(rate_at: Callable[[float], float], days: float, seed: int = 0) -> list[float]:
    """Days of a rate that depends on the seconds since Monday 00:00 UTC."""
    return counted((rate_at(tick * TICK_SECONDS) for tick in range(int(days * 86400.0 / TICK_SECONDS))), seed)


def follow(
    rates: Iterable[float],
    state: ForecastState | None = None,
    start: float = MONDAY,
    horizon_seconds: float = HORIZON_SECONDS,
) -> ForecastState:
    """The state after these observations, one a tick."""
    for tick, rate in enumerate(rates):
        state = observe(state, Observation(start + tick * TICK_SECONDS, rate, WINDOW_SECONDS, horizon_seconds))
    return state or ForecastState()


def observed(points: Iterable[tuple[float, float]]) -> ForecastState:
    """The state after these (epoch_seconds, rate), in their order."""
    state: ForecastState | None = None
    for at, rate in points:
        state = observe(state, Observation(at, rate, WINDOW_SECONDS, HORIZON_SECONDS))
    return state or ForecastState()


def said(
    rates: Iterable[float], state: ForecastState | None = None, horizon_seconds: float = HORIZON_SECONDS
) -> list[Forecast]:
    """Forecasts after each of these observations."""
    answers = []
    for tick, rate in enumerate(rates):
        now = MONDAY + tick * TICK_SECONDS
        state = observe(state, Observation(now, rate, WINDOW_SECONDS, horizon_seconds))
        answers.append(predict(state, now, horizon_seconds))
    return answers
