"""Traffic as the status shows it: declared, live, expected, and how far the first two differ. Pure."""

from __future__ import annotations

import math

from firsttoken_operator.act.figures import HYSTERESIS, rounded, steady, two_digits
from firsttoken_operator.api.quantities import decimal_string, number
from firsttoken_operator.api.status import TrafficFigures, TrafficForecast, TrafficStatus
from firsttoken_operator.domain import Decision
from firsttoken_sizing.workload import Workload

DEVIATIONS = 3.0
"""Standard deviations that are no news: chance alone exceeds them in one of 370 windows."""


def shown(
    previous: TrafficStatus | None, decision: Decision, declared: Workload | None, window_seconds: float
) -> TrafficStatus:
    """Show the traffic that the status says now; a figure that moved less than chance moves it stays as it was."""
    before = previous or TrafficStatus()
    live = _live(before.live, decision, window_seconds)
    return TrafficStatus.remade(
        previous,
        declared=_declared(before.declared, declared),
        live=live,
        forecast=_forecast(before.forecast, decision, window_seconds),
        drift=_drift(declared, live),
    )


def _drift(workload: Workload | None, live: TrafficFigures | None) -> str | None:
    """Say what is shown as live against what is declared; it moves only with what is shown."""
    if workload is None or live is None:
        return None
    rates = {"peak": workload.peak_requests_per_second, "average": workload.average_requests_per_second}
    rate, said = number(live.requests_per_second) or 0.0, []
    shares = [f"{100 * rate / declared:.0f} % of the declared {name}" for name, declared in rates.items() if declared]
    if shares and live.requests_per_second is not None:
        said.append(f"live traffic is {' and '.join(shares)}")
    lengths = {
        "inputs": (live.input_tokens, workload.input_tokens),
        "outputs": (live.output_tokens, workload.output_tokens),
    }
    measured = {name: (tokens, declared) for name, (tokens, declared) in lengths.items() if tokens and declared}
    parts = [f"{name} are {100 * tokens / declared:.0f} %" for name, (tokens, declared) in measured.items()]
    if parts:
        said.append(f"{' and '.join(parts)} of the declared length")
    return "; ".join(said) or None


def _forecast(before: TrafficForecast | None, decision: Decision, window_seconds: float) -> TrafficForecast | None:
    rate, method = decision.forecast_requests_per_second, decision.forecast_method or None
    if rate is None:
        return None
    fresh = TrafficForecast(requests_per_second=decimal_string(two_digits(rate)), method=method)
    if before is None or before.method != method:
        return fresh
    return fresh if _is_moved(number(before.requests_per_second) or 0.0, rate, window_seconds) else before


def _declared(before: TrafficFigures | None, workload: Workload | None) -> TrafficFigures | None:
    if workload is None:
        return None
    average, peak = workload.average_requests_per_second, workload.peak_requests_per_second
    return TrafficFigures.remade(
        before,
        average_requests_per_second=decimal_string(average) if average is not None else None,
        peak_requests_per_second=decimal_string(peak) if peak is not None else None,
        input_tokens=round(workload.input_tokens),
        output_tokens=round(workload.output_tokens),
    )


def _live(told: TrafficFigures | None, decision: Decision, window_seconds: float) -> TrafficFigures | None:
    rate = decision.arrival_requests_per_second
    if rate is None:
        return None
    shown = told or TrafficFigures()
    before = number(shown.requests_per_second)
    moved = before is None or _is_moved(before, rate, window_seconds)
    requests = max(1.0, rate * window_seconds)
    return TrafficFigures.remade(
        told,
        requests_per_second=decimal_string(two_digits(rate)) if moved else shown.requests_per_second,
        input_tokens=_live_tokens(shown.input_tokens, decision.input_tokens, requests),
        output_tokens=_live_tokens(shown.output_tokens, decision.output_tokens, requests),
    )


def _live_tokens(before: int | None, mean: float | None, requests: float) -> int | None:
    """A mean length with two digits: the one shown before unless it moved by more than a tenth and more than chance.

    Lengths spread about as much as they are long, so that the mean of so many scatters by its own share 1 / sqrt(n),
    and the difference of two such means by sqrt(2) times that.
    """
    chance = DEVIATIONS * math.sqrt(2 / requests)
    return None if mean is None else steady(before, mean, max(HYSTERESIS, chance), rounded)


def _is_moved(before: float, rate: float, window_seconds: float) -> bool:
    """Tell whether a rate moved by more than a tenth and more than chance moves the counts of two windows.

    Square roots of counts of independent arrivals scatter by a half each, whatever the rate (Anscombe 1948).
    """
    chance = DEVIATIONS * math.sqrt(1 / 2)
    far = abs(math.sqrt(rate * window_seconds) - math.sqrt(before * window_seconds)) > chance
    return abs(rate - before) > HYSTERESIS * before and (far or window_seconds <= 0)
