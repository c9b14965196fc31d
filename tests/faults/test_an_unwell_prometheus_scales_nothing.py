"""Whatever becomes of the answers of a real Prometheus on their way: nothing is lowered, it is said, and it passes.

While they are away the true load falls to a fifth, so that an operator that guessed would be caught.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo.scenario import Scenario
from tests.e2e.play import Play, play
from tests.faults.actions import Answer, Delay, Drip, Hang, Reset, Truncate
from tests.faults.proxy import Action, FaultProxy
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.every_fault]

SCENARIO = Scenario(cold_start_seconds=60)
SCALING = {"scaleDownStabilizationSeconds": 150, "metricsLossGraceSeconds": 900}
STABILIZATION_SECONDS = SCENARIO.scaled(SCALING["scaleDownStabilizationSeconds"])
LOAD, LOW_LOAD = 80.0, 16.0
FAULTS = [
    pytest.param(Answer(503, b"starting"), id="503"),
    pytest.param(Answer(429, b"slow down", {"Retry-After": "1"}), id="429"),
    pytest.param(Answer(200, b"<html>Sign in</html>"), id="the page of another server"),
    pytest.param(Reset(), id="reset before"),
    pytest.param(Reset(forwarding=True), id="reset after"),
    pytest.param(Truncate(50), id="cut off"),
    pytest.param(Drip(), id="drips"),
    pytest.param(Delay(60), id="late"),
    pytest.param(Hang(), id="hangs"),
]


@pytest.fixture(scope="module")
def burst() -> Iterator[tuple[Play, FaultProxy]]:
    with play(SCENARIO, initial_load=LOAD, scaling=SCALING, metrics_through=FaultProxy) as p:
        assert p.metrics_proxy is not None
        p.sleep_until(STABILIZATION_SECONDS + 10)
        yield p, p.metrics_proxy


@pytest.mark.parametrize("action", FAULTS)
def test_nothing_is_lowered_while_it_is_unwell(burst: tuple[Play, FaultProxy], action: Action) -> None:
    p, proxy = burst
    wait_until(lambda: p.stage.condition("MetricsHealthy") == ("True", "Present"), 90, "healthy metrics")
    with proxy.injecting(action, path="/api/v1/query"):
        wait_until(lambda: p.stage.condition("MetricsHealthy")[0] != "True", 30, "MetricsHealthy not True")
        began, held = p.now, p.held()
        p.load(LOW_LOAD)
        p.sleep_until(began + 1.5 * STABILIZATION_SECONDS)

        sizes = p.sizes_since(began)
        assert sizes == sorted(sizes), f"lowered on no metrics: {sizes}"
        assert p.held() > held
        assert p.stage.condition("MetricsHealthy")[0] != "True"
    p.load(LOAD)


def test_five_restarts_without_it_lower_nothing(burst: tuple[Play, FaultProxy]) -> None:
    p, proxy = burst
    wait_until(lambda: p.stage.condition("MetricsHealthy") == ("True", "Present"), 90, "healthy metrics")
    with proxy.injecting(Reset(), path="/api/v1/query"):
        wait_until(lambda: p.stage.condition("MetricsHealthy")[0] != "True", 30, "MetricsHealthy not True")
        began = p.now
        p.load(LOW_LOAD)
        for _ in range(5):
            p.stage.start_operator(p.identity)
            p.sleep_until(p.now + STABILIZATION_SECONDS / 2)
        p.sleep_until(p.now + 1.5 * STABILIZATION_SECONDS)

        sizes = p.sizes_since(began)
        assert sizes == sorted(sizes), f"lowered by a restart: {sizes}"
        assert p.stage.condition("MetricsHealthy")[0] != "True"
    p.load(LOAD)
