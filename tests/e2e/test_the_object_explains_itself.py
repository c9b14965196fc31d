"""View of a platform engineer: with nothing but kubectl, and on the dashboards."""

from __future__ import annotations

import re

import pytest

from demo.scenario import Scenario
from tests.e2e.panels import unanswered
from tests.e2e.play import play
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SCENARIO = Scenario(cold_start_seconds=60)
SCALING_SENTENCE = re.compile(
    r"(?P<from>\d+) -> (?P<to>\d+) replicas \((?P<reason>\w+)\); "
    r"arrival rate (?P<arrivals>[\d.]+) requests/s; "
    r"predicted TTFT P95: (?P<ttft_fewer>\d+) ms at (?P<fewer>\d+) replicas(?: \([^)]*\))?, "
    r"(?P<ttft>\d+) ms at (?P=to)(?: \([^)]*\))?; "
    r"limit (?P<limit>\d+) replicas; (?P<time>\S+Z)"
)


@pytest.mark.parametrize("runtime", ["nim", "vllm"])
def test_columns_and_the_last_scaling_are_on_the_object(runtime: str) -> None:
    with play(SCENARIO, runtime=runtime) as p:
        p.cluster.prometheus.add_target(p.stage.operator_url.removeprefix("http://"), job="operator")
        p.sleep_until(8)
        before = p.record.replicas_at(p.now)
        p.load(150)
        wait_until(lambda: p.record.replicas_at(p.now) > before, 15, "scale-up")
        wait_until(
            lambda: p.stage.status().get("readyReplicas", 0) >= 25, 30, "new replicas ready and shown in the status"
        )

        header, row = p.stage.kubectl("get", "infd", "-A").splitlines()
        columns = ["NAMESPACE", "NAME", "MODEL", "READY", "DESIRED", "MAX", "MODE", "SLA", "REASON", "AGE"]
        assert header.split() == columns
        shown = dict(zip(columns, row.split(), strict=True))
        assert (shown["NAMESPACE"], shown["NAME"]) == ("call-center", "support-rag")
        assert int(shown["DESIRED"]) == p.record.replicas_at(p.now)
        assert (shown["MAX"], shown["MODE"]) == ("59", "Active")

        decision = p.stage.status()["decisions"][0]
        described = p.stage.kubectl("-n", "call-center", "describe", "infd", "support-rag")
        (events,) = re.findall(r"^Events:.*", described, re.MULTILINE | re.DOTALL)
        scalings = [m.groupdict() for m in SCALING_SENTENCE.finditer(events)]
        last = next(s for s in scalings if (s["from"], s["to"]) == (str(decision["from"]), str(decision["to"])))
        assert (last["reason"], last["time"]) == (decision["reason"], decision["time"])
        assert last["limit"] == "59"
        assert 100 < float(last["arrivals"]) < 200
        assert int(last["fewer"]) == int(last["to"]) - 1
        assert float(last["ttft_fewer"]) > float(last["ttft"]) > 0

        chosen = {"namespace": "call-center", "name": "support-rag", "workload": "support-rag"}
        wait_until(lambda: not unanswered(p.cluster.prometheus, chosen), 60, "an answer to every panel")


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
