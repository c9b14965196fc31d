"""Looks at pods through a real Prometheus until what is read stands a check: a late scrape bends one window's rates."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from firsttoken_operator.domain import Metrics, Missing, Reason, Value
from firsttoken_operator.observe.collect import Collector, SourceReading
from firsttoken_operator.observe.freshness import LivePod, MeasureSettings
from firsttoken_operator.observe.measure import measure
from firsttoken_operator.observe.prometheus import PrometheusSource
from firsttoken_sizing.workload import Limit, Percentile
from tests.operator.observe.exporter import NAMESPACE

LIMIT = Limit(300.0, Percentile.P95)
SETTINGS = MeasureSettings(window_seconds=4.0, scrape_interval_seconds=0.5)
DEADLINE_SECONDS = 60.0
"""As long as a busy machine may take to fill a window whose scrapes all came in time."""

Check = Callable[[Metrics], None]


async def read(source: PrometheusSource, settings: MeasureSettings = SETTINGS) -> SourceReading:
    return await Collector(
        source, window_seconds=settings.window_seconds, recent_seconds=settings.longest_gap_seconds
    ).read()


async def look(
    source: PrometheusSource,
    *names: str,
    wanted: Reason | None = None,
    check: Check = lambda _: None,
    model: str = "",
    settings: MeasureSettings = SETTINGS,
) -> Metrics:
    """The metrics of these pods as soon as they are in this health, or for this cause, and stand the check."""
    live, ends = [LivePod(NAMESPACE, name, 3600.0) for name in names], time.monotonic() + DEADLINE_SECONDS
    while True:
        metrics = measure(await read(source, settings), live, LIMIT, settings, model)
        try:
            assert wanted in (None, metrics.health, metrics.detail.partition(":")[0]), metrics
            check(metrics)
        except AssertionError:
            if time.monotonic() >= ends:
                raise
            await asyncio.sleep(0.1)
        else:
            return metrics


def value(measurement: object) -> float | None:
    """The number; None where its series is not there."""
    if isinstance(measurement, Missing):
        assert measurement.reason is Reason.NO_SERIES, measurement
        return None
    assert isinstance(measurement, Value), measurement
    return measurement.value


def arrive(requests_per_second: float) -> Check:
    """Check of what arrives."""

    def check(metrics: Metrics) -> None:
        assert value(metrics.arrivals) == pytest.approx(requests_per_second, rel=0.05)

    return check
