"""An operator on a machine 20 minutes ahead of the API server, or behind it: pods that start are no older for it.

By its own clock every pod that starts would be stuck and ordered again, or none would ever be stuck. What two such
operators make of one Lease is shown where two operators are.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from demo.scenario import Scenario
from tests.e2e.play import play
from tests.faults.skew import TWENTY_MINUTES, wrong_clock
from tests.faults.stage import staged
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.every_fault]

SCENARIO = Scenario(cold_start_seconds=180)
COLD_START_SECONDS = SCENARIO.scaled(SCENARIO.cold_start_seconds)
LOAD, HIGH_LOAD = 40.0, 80.0
MORE_THAN_SIZED = 1.25
"""A rate that is measured while it rises is above the load now and then."""


@pytest.mark.parametrize("seconds", [TWENTY_MINUTES, -TWENTY_MINUTES], ids=["ahead", "behind"])
def test_pods_that_start_are_waited_for(
    control_plane: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    with play(SCENARIO, initial_load=LOAD) as p:
        with monkeypatch.context() as wrong:
            for name, value in wrong_clock(tmp_path, seconds).environment.items():
                wrong.setenv(name, value)
            p.stage.start_operator(p.identity)
        table = p.stage.sizing().table
        assert table is not None
        before, needed = p.record.replicas_at(p.now), table.replicas_for(HIGH_LOAD)
        wait_until(lambda: p.stage.condition("MetricsHealthy") == ("True", "Present"), 60, "healthy metrics")
        assert p.stage.operator_metrics()["firsttoken_clock_ahead_seconds"] == pytest.approx(-seconds, abs=5.0)
        began = p.now
        p.load(HIGH_LOAD)
        wait_until(lambda: p.record.replicas_at(p.now) >= needed, 60, f"from {before} to {needed} replicas")
        # Long enough for what starts to be ordered again, were it taken for stuck.
        time.sleep(1.5 * COLD_START_SECONDS)

        assert p.stage.ready_replicas() >= needed
        assert max(p.sizes_since(began)) <= MORE_THAN_SIZED * needed


def test_a_clock_that_jumps_and_stands_still_holds_up_nothing(control_plane: Path, tmp_path: Path) -> None:
    clock = wrong_clock(tmp_path, 0.0)
    jumps = (lambda: clock.set(TWENTY_MINUTES), lambda: clock.set(-TWENTY_MINUTES), clock.stop)
    with staged(tmp_path, **clock.environment) as stage:
        stage.declare("timed", 2)
        for wanted, jump in enumerate(jumps, start=3):
            jump()
            time.sleep(2.0)  # It is read once a second.
            before = len(stage.proxy.log)
            stage.change("timed", minReplicas=wanted)
            stage.until("timed", wanted, 60)
            stage.ticks(3)

            assert len(stage.scale_writes("timed", before)) == 1
            assert stage.replicas("timed") == wanted
            stage.assert_alive()
