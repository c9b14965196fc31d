"""Readings and pods for the tests of `measure`: a healthy fleet, and ways to spoil it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from firsttoken_operator.domain import Metrics, Missing, Reason, Value
from firsttoken_operator.families import FAILED, SERVED, Signal, TokenPart
from firsttoken_operator.observe.collect import Failure, PodSample, SourceReading
from firsttoken_operator.observe.freshness import LivePod, MeasureSettings
from firsttoken_operator.observe.measure import measure
from firsttoken_sizing.workload import Limit, Percentile

SETTINGS = MeasureSettings(window_seconds=60.0, scrape_interval_seconds=15.0)
LIMIT = Limit(200.0, Percentile.P95)
NAMESPACE = "call-center"
BOUNDS = (0.1, 0.25, 0.5, math.inf)


def sample(
    *,
    rate: float = 4.0,
    family: str = "NIM 1.x",
    bounds: tuple[float, ...] = BOUNDS,
    input_tokens: float = 500.0,
    output_tokens: float = 100.0,
    tokens: Mapping[TokenPart, float | None] | None = None,
    **signals: float | None,
) -> PodSample:
    """A healthy pod that serves `rate` requests a second at 200 ms; `signals` by lower-case name; None removes one.

    `tokens` overrides rates of single parts in the same way.
    """
    parts: dict[TokenPart, float | None] = {
        TokenPart.PROMPT_TOKENS: rate * input_tokens, TokenPart.PROMPTS: rate,
        TokenPart.OUTPUT_TOKENS: rate * output_tokens, TokenPart.OUTPUTS: rate,
    }  # fmt: skip
    parts |= dict(tokens or {})
    values: dict[Signal, float | None] = {
        Signal.AGE: 5.0, Signal.START_AGE: 65.0, Signal.SAMPLES: 4.0, Signal.FIRST_TOKENS: rate,
        Signal.TTFT_SUM: 0.2 * rate, Signal.WAITING: 0.0,
        Signal.WAITING_SLOPE: 0.0, Signal.RUNNING: 2.0, Signal.RUNNING_SLOPE: 0.0,
        Signal.KV_USAGE: 0.5,
    }  # fmt: skip
    ended = {SERVED: rate, FAILED: 0.0}
    for name, value in signals.items():
        if name in (SERVED, FAILED):
            ended.pop(name)
            if value is not None:
                ended[name] = value
        else:
            values[Signal[name.upper()]] = value
    return PodSample(
        family=family,
        values={signal: value for signal, value in values.items() if value is not None},
        buckets={bound: rate if bound >= 0.2 else 0.0 for bound in bounds},
        ended=ended,
        tokens={part: value for part, value in parts.items() if value is not None},
    )


IDLE = {"rate": 0.0, "running": 0.0}


def pods(count: int, *, ready_seconds: float | None = 3600.0, first: int = 0) -> tuple[LivePod, ...]:
    return tuple(LivePod(NAMESPACE, f"p{index}", ready_seconds) for index in range(first, first + count))


def reading(*samples: PodSample | None, up: Mapping[int, float | None] | None = None) -> SourceReading:
    """Reading of `p0`, `p1`...; None: nothing. `up` overrides what is 1 for a pod that said something, else 0."""
    ups = {index: 0.0 if said is None else 1.0 for index, said in enumerate(samples)} | dict(up or {})
    return SourceReading(
        pods={(NAMESPACE, f"p{index}"): said for index, said in enumerate(samples) if said is not None},
        up={(NAMESPACE, f"p{index}"): value for index, value in ups.items() if value is not None},
    )


def failing(base: SourceReading, reason: Reason, family: str = "NIM 1.x") -> SourceReading:
    return replace(base, failures=(*base.failures, Failure(family, reason, "detail")))


def measured(base: SourceReading, live: tuple[LivePod, ...] | None = None, limit: Limit | None = LIMIT) -> Metrics:
    return measure(base, pods(len(base.up)) if live is None else live, limit, SETTINGS)


def value(measurement: object) -> float:
    assert isinstance(measurement, Value), measurement
    return measurement.value


def coverage(measurement: object) -> float:
    assert isinstance(measurement, Value), measurement
    return measurement.coverage


def reason(measurement: object) -> Reason:
    assert isinstance(measurement, Missing), measurement
    return measurement.reason
