"""Metrics that are gone, stale or incomplete: nothing is written, it is said, and recovery is as careful as a start.

While the metrics are away the true load rises by half and then falls to a fifth, so that an operator that guessed in
either direction would be caught.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from demo.scenario import Scenario
from tests.e2e.play import Play, play
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SCENARIO = Scenario(cold_start_seconds=60)
SCALING = {"scaleDownStabilizationSeconds": 150, "metricsLossGraceSeconds": 450}
STABILIZATION_SECONDS = SCENARIO.scaled(SCALING["scaleDownStabilizationSeconds"])
GRACE_SECONDS = SCENARIO.scaled(SCALING["metricsLossGraceSeconds"])
WINDOW_SECONDS = SCENARIO.scaled(SCENARIO.rate_window_seconds)
TICKS_2 = 2 * SCENARIO.tick_wall_seconds
UNHEALTHY = {"Missing", "Stale", "Partial", "Recovering"}

Step = Callable[[Play], None]


def stop_prometheus(p: Play) -> None:
    p.cluster.stop_prometheus()


def start_prometheus(p: Play) -> None:
    p.cluster.start_prometheus()


def stop_scraping(p: Play) -> None:
    p.cluster.prometheus.pause_scraping()


def resume_scraping(p: Play) -> None:
    p.cluster.prometheus.resume_scraping()


def break_the_metrics_pages(p: Play) -> None:
    p.stage.control("fault", {"scrape": "stop"})


def mend_the_metrics_pages(p: Play) -> None:
    p.stage.control("fault", {"scrape": "ok"})


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (stop_prometheus, start_prometheus),
        (stop_scraping, resume_scraping),
        (break_the_metrics_pages, mend_the_metrics_pages),
    ],
    ids=["Prometheus stopped", "scraping stopped", "every target down"],
)
def test_a_short_outage_writes_nothing_and_recovers_carefully(begin: Step, end: Step) -> None:
    with play(SCENARIO, scaling=SCALING) as p:
        # Long enough that the operator would be free to scale down.
        p.sleep_until(STABILIZATION_SECONDS + 10)
        assert p.stage.condition("MetricsHealthy") == ("True", "Present")
        held = p.held()
        begin(p)
        began = p.now
        wait_until(lambda: _unhealthy(p), TICKS_2 + 1, "MetricsHealthy not True")
        p.load(120)
        p.sleep_until(began + 15)
        p.load(16)
        p.sleep_until(began + 30)

        assert p.sizes_since(began) == [p.record.replicas_at(began)], "something was written during the outage"
        assert p.held() > held + 10
        assert _unhealthy(p)

        before = p.record.replicas_at(p.now)
        p.load(160)
        end(p)
        ended = p.now
        # Discovery, the first scrape and one whole window, then two ticks.
        wait_until(
            lambda: p.record.replicas_at(p.now) > before, WINDOW_SECONDS + TICKS_2 + 4, "scale-up after the recovery"
        )
        p.load(16)
        p.sleep_until(ended + STABILIZATION_SECONDS)
        sizes = p.sizes_since(ended)
        assert sizes == sorted(sizes), f"lowered before a full window of fresh samples: {sizes}"
        wait_until(
            lambda: p.record.replicas_at(p.now) < max(p.sizes_since(ended)), 3 * STABILIZATION_SECONDS, "scale-down"
        )


def test_a_prometheus_that_restarts_empty_is_recovering_until_it_knows_a_whole_window() -> None:
    # A window of 20 s of wall time, so that the load can rise and fall while Prometheus answers from next to nothing.
    scenario = Scenario(cold_start_seconds=60, rate_window_seconds=200)
    window_seconds = scenario.scaled(scenario.rate_window_seconds)
    with play(scenario, scaling=SCALING) as p:
        p.sleep_until(window_seconds + 10)
        wait_until(lambda: p.stage.condition("MetricsHealthy") == ("True", "Present"), 15, "healthy metrics")
        p.sleep_until(p.now + STABILIZATION_SECONDS)
        held = p.held()
        p.cluster.restart_prometheus(empty=True)
        began = p.now
        p.load(120)
        wait_until(lambda: _unhealthy(p), TICKS_2 + 1, "MetricsHealthy not True")
        p.sleep_until(began + window_seconds / 3)
        p.load(16)
        wait_until(lambda: p.stage.condition("MetricsHealthy")[1] == "Recovering", 10, "MetricsHealthy: Recovering")
        p.sleep_until(began + window_seconds - 2)
        assert _unhealthy(p)
        assert p.sizes_since(began) == [p.record.replicas_at(began)], "something was written on half a window"
        assert p.held() > held + 5

        # The window now holds the rise as well; what matters is that nothing is lowered before a whole one has passed.
        wait_until(lambda: not _unhealthy(p), 15, "MetricsHealthy again")
        recovered = p.now
        p.sleep_until(recovered + STABILIZATION_SECONDS - 3)
        sizes = p.sizes_since(began)
        assert sizes == sorted(sizes), f"lowered before a full window of fresh samples: {sizes}"
        wait_until(
            lambda: p.record.replicas_at(p.now) < max(p.sizes_since(began)), 4 * STABILIZATION_SECONDS, "scale-down"
        )


def test_a_long_outage_raises_to_the_declared_peak_and_never_lowers() -> None:
    with play(SCENARIO, scaling=SCALING) as p:
        # The grace time of a loss starts anew with healthy metrics; before them the start-up itself is a loss.
        wait_until(lambda: p.stage.condition("MetricsHealthy") == ("True", "Present"), 30, "healthy metrics")
        stopping = p.now
        p.cluster.stop_prometheus()
        began = p.now
        p.load(16)
        # NB: Prometheus takes a second or two to end, and answers nothing while it does.
        p.sleep_until(stopping + GRACE_SECONDS - 1)
        assert len(p.sizes_since(began)) == 1, "the grace time was not waited for"
        wait_until(lambda: p.record.replicas_at(p.now) >= 39, 20, "replicasForDeclaredPeak")
        p.sleep_until(p.now + 10)

        sizes = p.sizes_since(began)
        assert sizes == sorted(sizes)
        assert sizes[-1] == 39
        assert p.stage.status()["decisions"][0]["reason"] == "DeclaredPeak"


def _unhealthy(p: Play) -> bool:
    status, reason = p.stage.condition("MetricsHealthy")
    return status in {"False", "Unknown"} and reason in UNHEALTHY
