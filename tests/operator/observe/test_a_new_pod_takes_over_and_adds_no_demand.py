"""A scale-up moves requests from old pods to new ones; while the window holds both, none of them counts twice."""

from __future__ import annotations

import math

import pytest

from firsttoken_operator.observe.freshness import MeasureSettings
from firsttoken_operator.observe.measure import measure
from tests.operator.observe.readings import LIMIT, pods, reading, sample, value

WINDOW_SECONDS, SCRAPE_SECONDS = 60.0, 5.0
SETTINGS = MeasureSettings(window_seconds=WINDOW_SECONDS, scrape_interval_seconds=SCRAPE_SECONDS)
LOAD = 12.0
"""Requests a second, all the time; first on two pods, then on four."""


def rates(new_seconds: float) -> tuple[float, float]:
    """Rates that Prometheus says of an old pod and of one that has been Ready for so long."""
    old = (LOAD / 2 * (WINDOW_SECONDS - new_seconds) + LOAD / 4 * new_seconds) / WINDOW_SECONDS
    return old, LOAD / 4 * new_seconds / WINDOW_SECONDS


@pytest.mark.parametrize("new_seconds", [15.0, 30.0, 45.0, 55.0])
def test_the_load_of_a_fleet_that_grew_is_what_it_was(new_seconds: float) -> None:
    old, new = rates(new_seconds)
    samples = new_seconds / SCRAPE_SECONDS
    young = [sample(rate=new, samples=samples, age=1.0, start_age=None) for _ in range(2)]
    grown = reading(*(sample(rate=old, samples=12.0, age=1.0) for _ in range(2)), *young)

    metrics = measure(grown, (*pods(2), *pods(2, ready_seconds=new_seconds, first=2)), LIMIT, SETTINGS)

    assert value(metrics.arrivals) == pytest.approx(LOAD)


@pytest.mark.parametrize("ready_seconds", [30.0, 45.0])
def test_a_fleet_that_is_all_young_has_the_load_of_the_time_that_it_served(ready_seconds: float) -> None:
    rate, samples = LOAD / 2 * ready_seconds / WINDOW_SECONDS, ready_seconds / SCRAPE_SECONDS
    young = [sample(rate=rate, samples=samples, age=1.0, start_age=None) for _ in range(2)]

    metrics = measure(reading(*young), pods(2, ready_seconds=ready_seconds), LIMIT, SETTINGS)

    assert value(metrics.arrivals) == pytest.approx(LOAD)


def test_a_new_pod_that_was_found_late_is_scaled_to_the_time_that_it_served() -> None:
    # Ready for 31 s, of which Prometheus missed the first 15.
    found_late = reading(
        sample(rate=3.0, samples=12.0, age=1.0), sample(rate=1.0, samples=3.0, age=1.0, start_age=None)
    )

    metrics = measure(found_late, (*pods(1), *pods(1, ready_seconds=31.0, first=1)), LIMIT, SETTINGS)

    assert value(metrics.arrivals) == pytest.approx(3.0 + 1.0 * 30 / 15)


@pytest.mark.parametrize("samples", [math.inf, math.nan, -1.0, 2.0])
def test_a_number_of_samples_that_covers_no_time_scales_nothing(samples: float) -> None:
    found = reading(sample(rate=1.0, samples=samples, age=1.0, start_age=None))

    assert value(measure(found, pods(1, ready_seconds=31.0), LIMIT, SETTINGS).arrivals) == 1.0
