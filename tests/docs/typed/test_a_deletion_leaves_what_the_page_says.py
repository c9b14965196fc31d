"""docs/uninstall.md, typed as it stands there: what a deleted resource, pool, benchmark and definition leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demo.scenario import Scenario
from tests.docs.pages import ROOT
from tests.docs.reader import Reader, equipped
from tests.e2e.play import Play, play
from tests.e2e.test_a_rendered_deployment_keeps_its_replicas import rendered_example  # noqa: F401  # the same fixture
from tools.cluster import wait_until
from tools.cluster.definitions import POD_MONITOR, definition_of

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

PAGE = ROOT / "docs/uninstall.md"
DELETE, REMOVE = "## Delete one InferenceDeployment", "## Remove everything"
NAME, NAMESPACE = "support-rag", "call-center"
SCENARIO = Scenario(cold_start_seconds=60)


def reading(p: Play, folder: Path) -> Reader:
    return Reader(PAGE, folder, equipped(p.cluster.environment()))


def get(p: Play, kind: str, name: str = NAME) -> dict[str, Any]:
    """An object; empty where there is none."""
    found = p.stage.kubectl("-n", NAMESPACE, "get", kind, name, "--ignore-not-found", "-o", "json")
    return dict(json.loads(found)) if found else {}


def test_a_target_keeps_its_replicas_and_nothing_scales_it(tmp_path: Path) -> None:
    with play(SCENARIO) as p, reading(p, tmp_path) as reader:
        p.load(120)
        wait_until(lambda: p.record.replicas_at(p.now) > SCENARIO.initial_replicas, 60, "scale-up")
        first = get(p, "infd")
        assert "finalizers" not in first["metadata"]
        reader.follow(DELETE)
        assert get(p, "infd") == {}

        left = get(p, "deployment")["spec"]["replicas"]
        deleted = p.now
        p.load(10)
        p.sleep_until(deleted + 2 * SCENARIO.scaled(300))
        assert p.sizes_since(deleted)[-1] == left
        assert len(p.sizes_since(deleted)) <= 2, "one write may have been on its way"

        # A new one of the same name starts as new, and goes without an operator.
        p.stage.kubectl("apply", "-f", str(p.stage.example))
        wait_until(lambda: p.stage.condition("Ready")[0] == "True", 60, "sized")
        anew = get(p, "infd")
        assert anew["metadata"]["uid"] != first["metadata"]["uid"]
        assert all(d["time"] > anew["metadata"]["creationTimestamp"] for d in anew["status"].get("decisions", []))
        assert p.stage.operator is not None
        p.stage.operator.stop()
        reader.follow(DELETE)
        assert get(p, "infd") == {}
        assert get(p, "deployment")["spec"]["replicas"] >= 1


def test_a_deleted_pool_stops_growth_and_a_deleted_benchmark_has_all_sized_anew() -> None:
    with play(SCENARIO) as p:
        wait_until(lambda: p.stage.status().get("sizing", {}).get("basis") == "Measured", 60, "sized as measured")
        measured = p.stage.status()["sizing"]["replicasForDeclaredPeak"]
        p.sleep_until(8)
        before, deleted = p.record.replicas_at(p.now), p.now
        p.stage.kubectl("delete", "gpupool", "h100")
        p.load(200)
        wait_until(
            lambda: p.stage.condition("CapacityAvailable") == ("Unknown", "PoolNotFound"), 30, "the pool is missed"
        )
        p.sleep_until(p.now + 10 * SCENARIO.tick_wall_seconds)
        assert p.sizes_since(deleted) == [before]

        p.stage.kubectl("delete", "benchmarkprofile", p.stage.documents.benchmarks[0].metadata.name)
        wait_until(lambda: p.stage.status()["sizing"]["basis"] != "Measured", 60, "sized without the benchmark")
        assert p.stage.status()["sizing"]["replicasForDeclaredPeak"] != measured


RENDERED = ("deployment", "service", "podmonitor", "poddisruptionbudget")


def test_what_was_rendered_goes_along_unless_it_is_cut_loose(
    rendered_example: Path,  # noqa: F811  # the fixture
    tmp_path: Path,
) -> None:
    scenario = Scenario(cold_start_seconds=60, initial_replicas=6)
    with play(scenario, initial_load=25, example=rendered_example) as p, reading(p, tmp_path) as reader:
        p.stage.kubectl("apply", "--server-side", "-f", str(definition_of(POD_MONITOR)))
        p.cluster.wait_until_established()
        wait_until_collected(p)
        wait_until(lambda: all(get(p, kind) for kind in RENDERED), 90, "all is rendered")

        reader.follow(DELETE, 1)
        p.sleep_until(p.now + 10)
        assert get(p, "infd") == {}
        assert all("ownerReferences" not in get(p, kind)["metadata"] for kind in RENDERED)
        assert p.stage.ready_replicas() >= 1
        p.stage.kubectl("-n", NAMESPACE, "delete", ",".join(RENDERED), NAME)

        anew(p)
        reader.follow(DELETE)
        all_gone(p)

        anew(p)
        reader.follow(REMOVE)
        all_gone(p)
        assert "firsttoken.dev" not in p.stage.kubectl("get", "crd")


def wait_until_collected(p: Play) -> None:
    """Wait until the garbage collector knows PodMonitors; of a new kind it hears every half minute."""
    p.stage.kubectl("-n", NAMESPACE, "create", "configmap", "owner")
    uid = get(p, "configmap", "owner")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    metadata = {"name": "owned", "namespace": NAMESPACE, "ownerReferences": [owner]}
    monitor = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor", "metadata": metadata}
    p.stage.apply([monitor | {"spec": {"selector": {}, "podMetricsEndpoints": []}}])
    p.stage.kubectl("-n", NAMESPACE, "delete", "configmap", "owner")
    wait_until(lambda: not get(p, "podmonitor", "owned"), 90, "what it owned is collected")


def anew(p: Play) -> None:
    p.stage.kubectl("apply", "-f", str(p.stage.example))
    wait_until(lambda: all(get(p, kind) for kind in RENDERED) and p.stage.ready_replicas(), 60, "rendered anew")


def all_gone(p: Play) -> None:
    wait_until(lambda: not any(get(p, kind) for kind in RENDERED), 60, "what was rendered is gone")
    wait_until(lambda: not p.stage.kubectl("-n", NAMESPACE, "get", "pods"), 60, "so are its pods")
