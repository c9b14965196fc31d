"""Objects that were stored before the schema was closed: nested thousands of levels deep, a megabyte of empty lists.

The API server drops what is unknown when it reads them, but neither lists inside of a known field nor the record of who
wrote which field (`managedFields`), and both are as deep as the object was.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm.chart import CRDS
from tests.operator.act.objects import infd, workload
from tests.operator.run.process import Process, create, installed, replicas
from tools.cluster import Cluster, wait_until

pytestmark = pytest.mark.cluster

GROUP, VERSION, PLURAL = "firsttoken.dev", "v1alpha1", "inferencedeployments"
LARGE = 12
MOST_MEBIBYTES = 200
"""Each such object once took 30 MiB beside the 100 that the process has without any."""


def closed() -> dict[str, Any]:
    """The definition as it is shipped."""
    definition: dict[str, Any] = yaml.safe_load((CRDS / f"{GROUP}_{PLURAL}.yaml").read_text())
    return definition


def opened() -> dict[str, Any]:
    """The definition as it was up to 0.2."""
    definition = copy.deepcopy(closed())
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["model"]["properties"]["architecture"] = {
        "type": "object", "description": "Anything.", "x-kubernetes-preserve-unknown-fields": True,
    }  # fmt: skip
    return definition


def spoiled(name: str, architecture: str) -> dict[str, Any]:
    """Written as text: Python's writer could not."""
    declared = infd(name, targetRef={"name": name})
    declared["spec"]["model"] = {"name": "acme/own", "architecture": "@"}
    return {"name": name, "text": json.dumps(declared).replace('"@"', architecture)}


SPOILED = [
    *(spoiled(f"maps-{levels}", '{"x":' * levels + "1" + "}" * levels) for levels in (900, 1500, 3000)),
    *(spoiled(f"lists-{n}", '{"hidden_size":' + "[" * n + "]" * n + "}") for n in (900, 1500, 3000)),
    *(spoiled(f"large-{n}", '{"hidden_size":[' + ",".join(["{}"] * 330_000) + "]}") for n in range(LARGE)),
    spoiled("long", '{"model_type":"' + "x" * 900_000 + '"}'),
]
"""NB: the API server itself needs more than 10 s to write the status of those with many lists."""


def store(cluster: Cluster, text: str) -> None:
    """Send the object as it is."""
    path = f"/apis/{GROUP}/{VERSION}/namespaces/default/{PLURAL}"
    sent = {"Content-Type": "application/json", **cluster.client.default_headers}
    answer = cluster.client.rest_client.pool_manager.request(
        "POST", cluster.client.configuration.host + path, body=text.encode(), headers=sent
    )
    assert answer.status == 201, answer.data[:300]


def apply(cluster: Cluster, definition: dict[str, Any]) -> None:
    """Put the definition in force."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump(definition))
    time.sleep(2)  # The API server gives no sign when it reads by the new one.


@pytest.fixture(scope="module", params=["closed", pytest.param("still open", marks=pytest.mark.every_fault)])
def running(
    request: pytest.FixtureRequest, control_plane: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, Process]]:
    with installed() as (cluster, kubeconfig):
        apply(cluster, opened())
        for each in SPOILED:
            store(cluster, each["text"])
        if request.param == "closed":
            apply(cluster, closed())
        create(cluster, workload(1, "fine"), infd("fine", targetRef={"name": "fine"}, scaling={"minReplicas": 2}))
        process = Process(tmp_path_factory.mktemp("spoiled"), kubeconfig)
        try:
            wait_until(process.ready, 120, "operator ready")
            yield cluster, process
        finally:
            process.kill()


def test_it_starts_and_decides_on_all_others(running: tuple[Cluster, Process]) -> None:
    cluster, process = running
    wait_until(lambda: replicas(cluster, "fine") == 2, 60, "fine at its minimum")
    cluster.kubectl("patch", "infd", "fine", "--type=merge", "-p", '{"spec":{"scaling":{"minReplicas":3}}}')
    wait_until(lambda: replicas(cluster, "fine") == 3, 60, "fine at its new minimum")

    assert process.get("healthz") == (200, "ok\n")
    assert "Traceback" not in process.log.read_text()


def test_a_change_of_a_spoiled_object_does_not_end_it(running: tuple[Cluster, Process]) -> None:
    cluster, process = running
    cluster.kubectl("label", "infd", "lists-1500", "touched=yes")
    before = process.ticks()
    wait_until(lambda: process.ticks() > before + 2, 60, "ticks")

    assert process.get("healthz") == (200, "ok\n")


@pytest.mark.parametrize(("name", "problem"), [("lists-1500", "is not an integer"), ("long", "KiB")])
def test_a_spoiled_object_says_what_is_wrong_with_it(running: tuple[Cluster, Process], name: str, problem: str) -> None:
    cluster, _ = running

    def said() -> str:
        # NB: not as JSON: it is as deep as Python's own reader takes it for broken.
        return cluster.kubectl("get", "infd", name, "-o", "jsonpath={.status.conditions[*].message}").stdout

    wait_until(lambda: problem in said(), 60, f"{name} says {problem}")


def test_memory_is_bounded(running: tuple[Cluster, Process]) -> None:
    _, process = running
    status = Path(f"/proc/{process.child.pid}/status").read_text()
    (peak,) = [int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")]

    assert peak < MOST_MEBIBYTES
