"""Without any ClusterRole all of a namespace's work is done, and what the policies refuse is told there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.operator.act.objects import infd, workload
from tests.operator.run.process import Process, create, get, installed, nim, replicas
from tools.cluster import Cluster, wait_until

pytestmark = pytest.mark.cluster

VALUES = ("rbac.clusterScoped=false", "namespaces={default}", "render.namespaces={default}", "render.prePull=true")


@pytest.fixture(scope="module")
def operated(control_plane: Path) -> Iterator[tuple[Cluster, Path]]:
    with installed(*VALUES) as made:
        yield made


def test_it_scales_and_renders_without_a_cluster_role_and_says_what_is_denied(
    operated: tuple[Cluster, Path], tmp_path: Path
) -> None:
    cluster, account = operated
    assert "firsttoken" not in cluster.kubectl("get", "clusterrolebindings", "-o", "name").stdout
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump({"clusterScoped": False, "namespaces": ["default"], "prePull": True}))
    create(cluster, workload(1, "told"), infd("told", targetRef={"name": "told"}, scaling={"minReplicas": 3}))
    kept = workload(1, "kept")
    kept["metadata"]["labels"] = {"firsttoken.dev/scale": "false"}
    create(cluster, kept, infd("kept", targetRef={"name": "kept"}, scaling={"minReplicas": 3}))
    served = nim("served", minReplicas=2)
    served["spec"]["runtime"]["prePull"] = True
    create(cluster, served)
    process = Process(tmp_path, account, "--config", str(file))
    try:
        wait_until(process.ready, 60, "ready without nodes, pools and profiles")
        wait_until(lambda: replicas(cluster, "told") == 3, 60, "scaled")
        wait_until(lambda: get(cluster, "infd", "served").get("status", {}).get("replicas") == 2, 60, "rendered")
        wait_until(lambda: get(cluster, "daemonset", "served")["status"]["currentNumberScheduled"] == 2, 60, "kept")
        off = json.dumps({"spec": {"runtime": {"prePull": False}}})
        cluster.kubectl("patch", "infd", "served", "--type=merge", "-p", off)
        gone = partial(cluster.kubectl, "get", "daemonset", "served", check=False)
        wait_until(lambda: gone().returncode != 0, 60, "not kept any more")
        wait_until(lambda: "WriteDenied" in _conditions(cluster, "kept"), 60, "the denial told")
        assert "Deployment kept is not open to scaling" in _conditions(cluster, "kept")
        assert replicas(cluster, "kept") == 1
        assert process.end() == 0
        assert "cannot list" not in process.log.read_text()
    finally:
        process.kill()


def test_a_namespace_that_is_gone_stops_nothing_in_the_others(operated: tuple[Cluster, Path], tmp_path: Path) -> None:
    cluster, account = operated
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump({"clusterScoped": False, "namespaces": ["gone", "default"]}))
    create(cluster, workload(1, "beside"), infd("beside", targetRef={"name": "beside"}, scaling={"minReplicas": 3}))
    process = Process(tmp_path, account, "--config", str(file))
    try:
        wait_until(process.ready, 60, "ready without the namespace that is gone")
        wait_until(lambda: replicas(cluster, "beside") == 3, 60, "scaled")
        assert "no rights there: namespaces gone" in process.log.read_text()
        assert process.end() == 0
    finally:
        process.kill()


def _conditions(cluster: Cluster, name: str) -> str:
    """Conditions of a resource, in words."""
    return json.dumps(get(cluster, "infd", name).get("status", {}).get("conditions", []))
