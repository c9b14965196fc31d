"""A pool in the cloud grows from 8 to 40 GPUs on nodes that come while pods wait, and gives all of them back.

Times are a tenth of those of a cloud: nodes take 12 s for 120. What asks for replicas and for fewer of them are the
deployment's own bounds, so that what is shown is about nodes and nothing else.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.operator.act.objects import infd, workload
from tests.operator.run.process import Process, create, get, installed, replicas
from tools.cluster import Cluster, GpuServers, wait_until
from tools.cluster.provisioner import Provisioner

pytestmark = [pytest.mark.cluster, pytest.mark.every_fault, pytest.mark.timeout(900)]

NODE_SECONDS, START_SECONDS, EMPTY_SECONDS = 12.0, 2.0, 3.0
GPUS, MOST = 8, 40
LONG_SECONDS = 180.0
"""Limit for what comes when the machine gets to it."""
CLOUD: dict[str, Any] = {"location": "Cloud", "gpu": "H100-SXM-80GB", "scaleDownLimitPercent": 100}


def pool(name: str, **spec: Any) -> dict[str, Any]:
    """A GPUPool in the cloud."""
    named = {"apiVersion": "firsttoken.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": name}}
    return named | {"spec": CLOUD | spec}


class Burst:
    """The operator, one server that is always there, and a deployment of 8 replicas on it."""

    def __init__(self, cluster: Cluster, process: Process) -> None:
        self.cluster, self.process = cluster, process
        target = workload(GPUS, "chat")
        annotations = {"firsttoken.dev/ready-after": f"{START_SECONDS:.0f}s"}
        target["spec"]["template"]["metadata"]["annotations"] = annotations
        scaling = {"minReplicas": GPUS, "metricsLossGraceSeconds": 86400, "scaleDownStepPercent": 100}
        create(
            cluster,
            pool("cloud"),
            target,
            infd("chat", targetRef={"name": "chat"}, capacity={"pool": "cloud"}, scaling=scaling),
        )
        self.until_ready(GPUS)

    def bounds(self, **scaling: int) -> None:
        change = json.dumps({"spec": {"scaling": scaling}})
        self.cluster.kubectl("patch", "infd", "chat", "--type=merge", "-p", change)

    def until_ready(self, wanted: int) -> None:
        wait_until(lambda: self.status().get("readyReplicas") == wanted, LONG_SECONDS, f"{wanted} replicas ready")

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = get(self.cluster, "infd", "chat").get("status", {})
        return found

    def capacity(self) -> tuple[str, str]:
        """Reason and message of CapacityAvailable."""
        found = {each["type"]: each for each in self.status().get("conditions", ())}.get("CapacityAvailable", {})
        return found.get("reason", ""), found.get("message", "")

    def pods(self) -> list[dict[str, Any]]:
        """Pods of the deployment."""
        told = self.cluster.kubectl("get", "pods", "-l", "app=chat", "-o", "json").stdout
        found: list[dict[str, Any]] = json.loads(told)["items"]
        return found

    def nodes(self) -> set[str]:
        """Names of the nodes that are there."""
        found = json.loads(self.cluster.kubectl("get", "nodes", "-o", "json").stdout)["items"]
        return {node["metadata"]["name"] for node in found}

    def writes(self) -> int:
        """Changes of what the target asks for, since it was made."""
        return int(get(self.cluster, "deployment", "chat")["metadata"]["generation"]) - 1


@contextmanager
def bursting(folder: Path, nodes: int) -> Iterator[tuple[Burst, Provisioner]]:
    """A burst with a quota of so many nodes on top of the one that is there."""
    servers = GpuServers(count=nodes, gpus=GPUS, prefix="burst")
    with installed("scale.chooseVictims=true", nodes=1) as (cluster, account):
        process = Process(folder, account, "--time-scale", "10")
        try:
            wait_until(process.ready, LONG_SECONDS, "operator ready")
            burst = Burst(cluster, process)
            with Provisioner(cluster.client, servers, NODE_SECONDS, EMPTY_SECONDS) as provisioner:
                yield burst, provisioner
        finally:
            process.kill()


def printed(*arguments: str) -> str:
    """Output of the command."""
    command = [sys.executable, "-m", "firsttoken_operator.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def played(control_plane: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Burst, Provisioner]]:
    with bursting(tmp_path_factory.mktemp("burst"), nodes=2) as stage:
        yield stage


def test_a_burst_is_ordered_once_and_what_the_cloud_has_no_more_of_is_told_from_what_is_slow(
    played: tuple[Burst, Provisioner],
) -> None:
    burst, provisioner = played
    burst.bounds(minReplicas=MOST)

    wait_until(lambda: replicas(burst.cluster, "chat") == MOST, LONG_SECONDS, "40 replicas")
    wait_until(lambda: burst.capacity()[0] == "NodesProvisioning", LONG_SECONDS, "nodes that are awaited")
    burst.until_ready(3 * GPUS)
    wait_until(lambda: burst.capacity()[0] == "InsufficientCapacity", LONG_SECONDS, "no more nodes")
    message = burst.capacity()[1]
    assert message.startswith("no node has come in ")
    assert " for 16 pods" in message
    assert len(provisioner.ordered) == 2
    assert provisioner.refused
    learned = get(burst.cluster, "gpupool", "cloud")["status"]["provisioning"]
    assert NODE_SECONDS <= learned["p50Seconds"] <= learned["p90Seconds"]

    # The quota is raised: what waits is taken up, and nothing was ordered again.
    provisioner.servers = GpuServers(count=4, gpus=GPUS, prefix="burst")
    burst.until_ready(MOST)
    assert (len(provisioner.ordered), len(burst.pods()), burst.writes()) == (4, MOST, 1)
    wait_until(lambda: burst.capacity()[0] == "Available", LONG_SECONDS, "no GPU is missing")


def test_all_nodes_that_came_go_again(played: tuple[Burst, Provisioner]) -> None:
    burst, provisioner = played
    burst.bounds(minReplicas=GPUS, maxReplicas=GPUS)

    wait_until(lambda: replicas(burst.cluster, "chat") == GPUS, LONG_SECONDS, "8 replicas again")
    wait_until(lambda: len(provisioner.removed) == 4, LONG_SECONDS, "every node that came is gone")
    assert {pod["spec"]["nodeName"] for pod in burst.pods()} == {"dgx-0"}
    burst.until_ready(GPUS)


def test_a_pool_without_a_node_grows_from_zero_nodes_and_goes_back_to_none(
    played: tuple[Burst, Provisioner],
) -> None:
    """Two replicas of four GPUs fit on a node, so three need two."""
    burst, before = played
    cluster, where = burst.cluster, {"team": "alone"}
    target = workload(1, "alone")
    template = target["spec"]["template"]["spec"] | {"nodeSelector": where}
    template["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 4
    target["spec"]["template"]["spec"] = template
    hardware = {"gpus": ["H100-SXM-80GB"], "tensorParallel": 4}
    scaling = {"minReplicas": 3, "metricsLossGraceSeconds": 86400}
    about = infd("alone", targetRef={"name": "alone"}, capacity={"pool": "empty"}, scaling=scaling, hardware=hardware)

    def settled(nodes: int, ready: int) -> bool:
        names = json.loads(cluster.kubectl("get", "nodes", "-l", "team=alone", "-o", "json").stdout)["items"]
        found = get(cluster, "deployment", "alone")["status"]
        return (len(names), found.get("readyReplicas", 0)) == (nodes, ready)

    servers = GpuServers(count=4, gpus=GPUS, prefix="alone")
    with Provisioner(before.api, servers, NODE_SECONDS, EMPTY_SECONDS, where) as provisioner:
        create(cluster, pool("empty", nodeSelector=where), target, about)
        wait_until(lambda: settled(2, 3), LONG_SECONDS, "three replicas on two nodes where there was none")
        cluster.kubectl("scale", "deployment/alone", "--replicas=0")
        wait_until(lambda: settled(0, 0), LONG_SECONDS, "no node")
        cluster.kubectl("scale", "deployment/alone", "--replicas=1")
        wait_until(lambda: settled(2, 3), LONG_SECONDS, "three replicas again")
        assert len(provisioner.ordered) == 4


def test_warm_gpus_are_there_at_once_and_come_again(played: tuple[Burst, Provisioner], tmp_path: Path) -> None:
    """8 warm GPUs on a node that came; a burst of 8 has them after a start, and the next node is on its way."""
    burst, provisioner = played
    file = tmp_path / "pool.yaml"
    file.write_text(json.dumps(pool("cloud", warmGPUs=GPUS)))
    burst.cluster.kubectl("apply", "-f", str(file))
    burst.cluster.kubectl("apply", "-f", "-", stdin=printed("warm", "-f", str(file), "-n", "default"))

    def warm() -> int:
        return int(get(burst.cluster, "gpupool", "cloud").get("status", {}).get("warmGPUs", 0))

    wait_until(lambda: warm() == GPUS, LONG_SECONDS, "a warm server")
    ordered, there = len(provisioner.ordered), burst.nodes()
    burst.bounds(minReplicas=2 * GPUS, maxReplicas=2 * GPUS)
    wait_until(lambda: replicas(burst.cluster, "chat") == 2 * GPUS, LONG_SECONDS, "16 replicas")
    burst.until_ready(2 * GPUS)
    assert {pod["spec"]["nodeName"] for pod in burst.pods()} <= there, "no replica waited for a node"
    assert len(provisioner.ordered) <= ordered + 1
    assert burst.capacity()[0] == "Available"
    wait_until(lambda: len(provisioner.ordered) == ordered + 1 and warm() == GPUS, LONG_SECONDS, "a warm server again")
