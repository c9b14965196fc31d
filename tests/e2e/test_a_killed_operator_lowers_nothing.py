"""SIGKILL in the middle of a burst: the next process starts with an empty memory and may only be more careful."""

import signal

import pytest

from demo.scenario import Scenario
from tests.e2e.play import play
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SCENARIO = Scenario(cold_start_seconds=60)


def test_the_next_process_lowers_nothing_and_scales_up_within_three_ticks_of_being_ready() -> None:
    with play(SCENARIO) as p:
        p.sleep_until(15)
        steady = p.record.replicas_at(p.now)
        p.load(200)
        wait_until(lambda: p.record.replicas_at(p.now) > steady, 15, "first scale-up of the burst")
        assert p.stage.operator is not None
        p.stage.operator.send_signal(signal.SIGKILL)
        p.stage.operator.wait(10)
        killed, size = p.now, p.record.replicas_at(p.now)
        p.load(280)
        p.sleep_until(killed + 5)
        assert p.record.replicas_at(p.now) == size, "no other process may scale"

        p.stage.start_operator(p.identity)
        ready = p.now
        wait_until(
            lambda: p.record.replicas_at(p.now) > size, 3 * SCENARIO.tick_wall_seconds, "scale-up of the new process"
        )

        # Down to a tenth right after: the new process must have watched for a whole window before it lowers anything.
        p.load(20)
        stabilization = SCENARIO.scaled(300)
        p.sleep_until(ready + stabilization - 1)
        sizes = p.sizes_since(killed)
        assert sizes == sorted(sizes), f"something was lowered: {sizes}"
        wait_until(
            lambda: p.record.replicas_at(p.now) < max(p.sizes_since(killed)), 2 * stabilization, "scale-down in the end"
        )
