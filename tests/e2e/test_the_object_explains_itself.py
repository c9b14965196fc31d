"""What a platform engineer sees with nothing but kubectl."""

from __future__ import annotations

import pytest

from demo.scenario import Scenario
from tests.cluster import wait_until
from tests.e2e.play import play

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SCENARIO = Scenario(cold_start_seconds=60)


@pytest.mark.parametrize("runtime", ["nim", "vllm"])
def test_columns_and_the_last_scaling_are_on_the_object(runtime: str) -> None:
    with play(SCENARIO, runtime=runtime) as p:
        p.sleep_until(8)
        before = p.record.replicas_at(p.now)
        p.load(150)
        wait_until(lambda: p.record.replicas_at(p.now) > before, 15, "scale-up")
        wait_until(
            lambda: p.stage.status().get("readyReplicas", 0) >= 25, 30, "new replicas ready and shown in the status"
        )

        header, row = p.stage.kubectl("get", "infd", "-A").splitlines()
        columns = ["NAMESPACE", "NAME", "MODEL", "READY", "DESIRED", "MAX", "SLA", "REASON", "AGE"]
        assert header.split() == columns
        shown = dict(zip(columns, row.split(), strict=True))
        assert (shown["NAMESPACE"], shown["NAME"]) == ("call-center", "support-rag")
        assert int(shown["DESIRED"]) == p.record.replicas_at(p.now)
        assert shown["MAX"] == "59"

        decision = p.stage.status()["decisions"][0]
        described = p.stage.kubectl("-n", "call-center", "describe", "infd", "support-rag")
        assert f"{decision['from']} -> {decision['to']}" in described
        assert decision["reason"] in described
        for part in ("requests/s", "predicted TTFT", "limit 59"):
            assert part in described, described
        assert decision["time"] in described


def test_a_person_who_scales_by_hand_is_followed_once_and_then_left_alone() -> None:
    with play(SCENARIO) as p:
        p.sleep_until(10)
        p.stage.scale_by_hand(30)
        p.sleep_until(p.now + 2 * SCENARIO.tick_wall_seconds + 1)
        assert p.record.replicas_at(p.now) == 30, "a foreign write is adopted, not fought"
        assert "ForeignWrite" in p.stage.kubectl("-n", "call-center", "describe", "infd", "support-rag")

        p.stage.scale_by_hand(10)
        p.sleep_until(p.now + 4 * SCENARIO.tick_wall_seconds)
        assert p.record.replicas_at(p.now) == 10, "two foreign writes are a conflict: no writes"
        assert p.stage.condition("ScalingActive") == ("False", "Conflict")


def test_a_resource_that_is_not_active_is_never_scaled() -> None:
    with play(SCENARIO) as p:
        p.sleep_until(8)
        p.stage.patch_spec({"scaling": {"mode": "Advisory"}})
        wait_until(lambda: p.stage.condition("ScalingActive") == ("False", "Advisory"), 10, "ScalingActive: Advisory")
        began, size = p.now, p.record.replicas_at(p.now)
        p.load(200)
        wait_until(lambda: p.stage.status()["desiredReplicas"] > size, 12, "advice to scale up")
        assert p.sizes_since(began) == [size]

        p.stage.patch_spec({"scaling": {"mode": "Paused"}})
        wait_until(lambda: p.stage.condition("ScalingActive") == ("False", "Paused"), 10, "ScalingActive: Paused")
        p.sleep_until(p.now + 4 * SCENARIO.tick_wall_seconds)
        assert p.sizes_since(began) == [size]

        p.stage.patch_spec({"scaling": {"mode": "Active"}})
        wait_until(lambda: p.record.replicas_at(p.now) > size, 10, "scale-up of an active resource")
