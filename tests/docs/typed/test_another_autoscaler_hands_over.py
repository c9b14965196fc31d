"""docs/migrate.md, typed as it stands there: an HPA and a ScaledObject hand over to the operator, and take back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from demo.scenario import Scenario
from tests.docs.pages import ROOT, save_files
from tests.docs.reader import Reader, equipped
from tests.e2e.play import Play, play
from tests.fixtures.definitions import definition
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

PAGE = ROOT / "docs/migrate.md"
NAME, NAMESPACE = "support-rag", "call-center"
SCENARIO = Scenario(cold_start_seconds=60, initial_replicas=4)
LEAST, MOST = 6, 10
"""Bounds of the autoscaler of before. It has no metric here, and keeps to its bounds all the same."""
HIGH_LOAD = 150
"""More requests a second than `MOST` replicas carry."""
SCALED_OBJECTS = definition("keda.sh", "v1alpha1", "ScaledObject")
SCALED_OBJECT = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": NAME, "namespace": NAMESPACE},
    "spec": {"scaleTargetRef": {"name": NAME}, "minReplicaCount": LEAST, "maxReplicaCount": MOST},
}


def autoscaler(name: str = NAME, **metadata: Any) -> dict[str, Any]:
    utilization = {"type": "Utilization", "averageUtilization": 60}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": NAMESPACE} | metadata,
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "minReplicas": LEAST,
            "maxReplicas": MOST,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": utilization}}],
        },
    }


@contextmanager
def before_the_migration(folder: Path) -> Iterator[tuple[Play, Reader]]:
    """A fleet with traffic and the operator beside it, and nothing declared yet; the namespace has no label."""
    save_files(PAGE, folder)
    with (
        play(SCENARIO, initial_load=40, example=folder / f"{NAME}.yaml") as p,
        Reader(PAGE, folder, equipped(p.cluster.environment())) as reader,
    ):
        p.stage.kubectl("-n", NAMESPACE, "delete", "infd", NAME)
        p.stage.kubectl("label", "namespace", NAMESPACE, "firsttoken.dev/scale-")
        yield p, reader


def replicas(p: Play) -> int:
    return p.record.replicas_at(p.now)


def looks_on(p: Play, reader: Reader) -> None:
    """Steps 1 and 2: the autoscaler stays in charge, whatever the resource says."""
    wait_until(lambda: replicas(p) == LEAST, 60, "the autoscaler keeps to its minimum")
    shown = reader.follow("## 2. Compare")
    assert f"horizontalpodautoscaler.autoscaling/{hpa_name(p)}" in shown
    assert f"inferencedeployment.firsttoken.dev/{NAME}" in shown

    began = p.now
    p.load(HIGH_LOAD)
    wait_until(lambda: p.stage.status().get("desiredReplicas", 0) > MOST, 60, "advice above the autoscaler's maximum")
    assert p.stage.condition("ScalingActive") == ("False", "Advisory")
    p.stage.patch_spec({"scaling": {"mode": "Active"}})
    wait_until(lambda: p.stage.condition("ScalingActive") == ("False", "Conflict"), 60, "a conflict beside another one")
    p.stage.patch_spec({"scaling": {"mode": "Advisory"}})
    wait_until(lambda: p.stage.condition("ScalingActive") == ("False", "Advisory"), 60, "advice again")
    assert p.sizes_since(began) == [LEAST]


def hpa_name(p: Play) -> str:
    (found,) = json.loads(p.stage.kubectl("-n", NAMESPACE, "get", "hpa", "-o", "json"))["items"]
    return str(found["metadata"]["name"])


def takes_over(p: Play, handed_over: float) -> None:
    """Step 3: from the replicas that are there, upwards; nothing was lowered."""
    wait_until(lambda: replicas(p) > MOST, 90, "more replicas than the autoscaler allowed")
    wait_until(lambda: p.stage.condition("ScalingActive")[0] == "True", 60, "the status says so")
    sizes = p.sizes_since(handed_over)
    assert sizes[0] == LEAST
    assert sizes == sorted(sizes)


def gives_back(p: Play) -> None:
    """Step 4: the autoscaler takes the replicas that are there, and is left alone."""
    wait_until(lambda: replicas(p) == MOST, 60, "the autoscaler keeps to its maximum")
    began = p.now
    p.sleep_until(began + 4 * SCENARIO.tick_wall_seconds)
    assert p.sizes_since(began) == [MOST]
    assert p.stage.condition("ScalingActive") == ("False", "Advisory")
    assert p.stage.status()["desiredReplicas"] > MOST, "it goes on telling what it would do"


def test_an_hpa_hands_over_and_takes_back(tmp_path: Path) -> None:
    with before_the_migration(tmp_path) as (p, reader):
        p.stage.apply([autoscaler()])
        looks_on(p, reader)

        handed_over = p.now
        reader.follow("## 3. Hand over", 0)
        takes_over(p, handed_over)

        reader.follow("## 4. Back out", 0)
        gives_back(p)


def test_a_scaled_object_of_keda_takes_its_autoscaler_along(tmp_path: Path) -> None:
    with before_the_migration(tmp_path) as (p, reader):
        p.stage.apply([SCALED_OBJECTS])
        p.cluster.wait_until_established()
        p.stage.apply([SCALED_OBJECT])
        made = json.loads(p.stage.kubectl("-n", NAMESPACE, "get", "scaledobject", NAME, "-o", "json"))
        owner = {"apiVersion": made["apiVersion"], "kind": made["kind"], "name": NAME, "uid": made["metadata"]["uid"]}
        # As KEDA makes it.
        p.stage.apply([autoscaler(f"keda-hpa-{NAME}", ownerReferences=[owner | {"controller": True}])])
        looks_on(p, reader)

        handed_over = p.now
        reader.follow("## 3. Hand over", 1)
        wait_until(lambda: not p.stage.kubectl("-n", NAMESPACE, "get", "hpa"), 60, "the autoscaler is gone")
        takes_over(p, handed_over)

        reader.follow("## 4. Back out", 1)
        assert p.stage.kubectl("-n", NAMESPACE, "get", "scaledobject", NAME)
