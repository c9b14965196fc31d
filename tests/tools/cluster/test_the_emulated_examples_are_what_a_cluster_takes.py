"""examples/emulated on a real API server: kwok's servers take the pods on paper, and none of those that have to run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from tools.cluster import Cluster, GpuServers, wait_until
from tools.cluster.build import KWOK_VERSION, PROMETHEUS_VERSION

pytestmark = pytest.mark.cluster

EXAMPLES = Path(__file__).parents[3] / "examples"
EMULATED = EXAMPLES / "emulated"
PAGE = EXAMPLES.parent / "docs" / "ten-minutes.md"
TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def cluster(control_plane: Path) -> Iterator[Cluster]:
    """A cluster whose servers are those of the example."""
    with Cluster(nodes=0) as running:
        running.kubectl("apply", "-f", EMULATED / "servers.yaml")
        running.kubectl("apply", "--server-side", "-f", EXAMPLES.parent / "crds")
        running.wait_until_established()
        running.kubectl("apply", "-f", EXAMPLES / "call-center.yaml", "-f", EMULATED / "deployment.yaml")
        yield running


def items(cluster: Cluster, *what: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cluster.kubectl("get", *what, "-o", "json").stdout)["items"]
    return found


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EMULATED / name).read_text()))


def test_the_servers_are_those_of_the_local_cluster_with_a_taint() -> None:
    made = [client.ApiClient().sanitize_for_serialization(node)["metadata"] for node in GpuServers().manifests()]
    declared = documents("servers.yaml")

    assert [node["metadata"] for node in declared] == made
    assert [node["spec"] for node in declared] == [{"taints": [TAINT]}] * len(made)


def test_the_pods_on_paper_get_ready_on_them(cluster: Cluster) -> None:
    ready = "jsonpath={.status.readyReplicas}"
    wait_until(
        lambda: cluster.kubectl("-n", "call-center", "get", "deployment", "support-rag", "-o", ready).stdout == "4",
        60,
        "four replicas are ready",
    )
    nodes = items(cluster, "nodes")

    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes} == {"8"}
    assert all(TAINT in node["spec"]["taints"] for node in nodes)


def test_the_pods_that_have_to_run_do_not(cluster: Cluster) -> None:
    names = ("-n", "call-center", "create", "configmap", "emulated", f"--from-file={EXAMPLES / 'call-center.yaml'}")
    cluster.kubectl(*names)
    cluster.kubectl("apply", "-f", EMULATED / "fleet.yaml", "-f", EMULATED / "prometheus.yaml")

    def refused() -> bool:
        pods = items(cluster, "pods", "-A", "-l", "app.kubernetes.io/name in (fleet, prometheus)")
        conditions = [c for pod in pods for c in pod["status"].get("conditions", ())]
        return len(pods) == 2 and [c.get("reason") for c in conditions] == ["Unschedulable"] * 2

    wait_until(refused, 60, "both wait for a node that runs containers")


def test_the_prometheus_and_the_kwok_of_the_page_are_those_that_are_tested() -> None:
    (deployment,) = (document for document in documents("prometheus.yaml") if document["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]

    assert container["image"].endswith(f":v{PROMETHEUS_VERSION}")
    assert f"kwok/releases/download/{KWOK_VERSION}/kwok.yaml" in PAGE.read_text(encoding="utf-8")
