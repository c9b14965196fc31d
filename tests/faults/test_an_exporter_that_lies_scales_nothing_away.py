"""Engines that all report zeros, or once a thousand times too much, behind a gateway that tells the truth."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo.scenario import Scenario
from tests.e2e.play import Play, play
from tests.e2e.test_a_request_wakes_it_up_from_zero import COUNTER, gateway_of
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.every_fault]

SCENARIO = Scenario(cold_start_seconds=60, initial_replicas=6)
SCALING = {"scaleDownStabilizationSeconds": 150}
STABILIZATION_SECONDS = SCENARIO.scaled(SCALING["scaleDownStabilizationSeconds"])
SCRAPE_SECONDS = SCENARIO.scaled(SCENARIO.scrape_interval_seconds)
LOAD = 25.0


@pytest.fixture(scope="module")
def steady() -> Iterator[Play]:
    with (
        play(SCENARIO, initial_load=LOAD, scaling=SCALING) as p,
        gateway_of(p.stage) as counted,
    ):
        p.cluster.add_http_sd(counted, job="gateway")
        p.stage.start_operator(p.identity, gateway=COUNTER)
        yield p


@pytest.fixture
def settled(steady: Play) -> Iterator[Play]:
    """With metrics that are believed, for longer than anything of an earlier test counts."""
    wait_until(lambda: steady.stage.condition("MetricsHealthy") == ("True", "Present"), 90, "healthy metrics")
    steady.sleep_until(steady.now + 2 * STABILIZATION_SECONDS)
    yield steady
    steady.stage.control("fault", {"scrape": "ok"})


def test_zeros_of_every_pod_lower_nothing(settled: Play) -> None:
    began = settled.now
    settled.stage.control("fault", {"scrape": "zeros"})
    settled.sleep_until(began + 3 * STABILIZATION_SECONDS)

    sizes = settled.sizes_since(began)
    assert sizes == sorted(sizes), f"lowered on a lie: {sizes}"


def test_one_absurd_sample_of_every_counter_doubles_at_most(settled: Play) -> None:
    began, before = settled.now, settled.record.replicas_at(settled.now)
    settled.stage.control("fault", {"scrape": "absurd"})
    settled.sleep_until(began + SCRAPE_SECONDS)
    settled.stage.control("fault", {"scrape": "ok"})
    settled.sleep_until(began + 3 * STABILIZATION_SECONDS)

    sizes = settled.sizes_since(began)
    assert before < max(sizes) <= 2 * before, sizes
    assert settled.stage.condition("MetricsHealthy") == ("True", "Present")
