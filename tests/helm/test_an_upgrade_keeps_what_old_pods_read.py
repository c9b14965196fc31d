"""An upgrade by the real Helm on a real API server: the configuration that pods of before mount is still there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helm.chart import CHART, NAMESPACE
from tools.cluster import Cluster, helm, wait_until

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(control_plane: Path) -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        yield running


def run_helm(cluster: Cluster, *arguments: str | Path) -> None:
    environment = cluster.environment() | {"HELM_CACHE_HOME": str(cluster.folder), "NO_PROXY": "*"}
    done = subprocess.run(
        [helm(), *map(str, arguments), "--namespace", NAMESPACE],
        capture_output=True, text=True, check=False, timeout=120, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def configurations(cluster: Cluster) -> dict[str, str]:
    """Contents of each ConfigMap of the release, by name."""
    found = cluster.kubectl("get", "configmaps", "-n", NAMESPACE, "-o", "json", "-l", "helm.sh/chart").stdout
    return {item["metadata"]["name"]: item["data"]["config.yaml"] for item in json.loads(found)["items"]}


def rolled_out(cluster: Cluster) -> None:
    """Wait until no pod of an earlier revision is left."""
    cluster.kubectl("rollout", "status", "deployment/firsttoken", "-n", NAMESPACE, "--timeout=60s", timeout_seconds=70)


@pytest.fixture(autouse=True)
def released(cluster: Cluster) -> Iterator[None]:
    run_helm(cluster, "install", "firsttoken", CHART, "--create-namespace")
    rolled_out(cluster)
    yield
    run_helm(cluster, "uninstall", "firsttoken")
    assert configurations(cluster) == {}
    cluster.kubectl("wait", "--for=delete", "replicasets", "--all", "-n", NAMESPACE)


def test_what_old_pods_mount_goes_one_upgrade_later_and_with_the_release(cluster: Cluster) -> None:
    first = configurations(cluster)
    run_helm(cluster, "upgrade", "firsttoken", CHART, "--set", "tickSeconds=20")
    rolled_out(cluster)
    second = configurations(cluster)
    run_helm(cluster, "upgrade", "firsttoken", CHART, "--set", "tickSeconds=30")
    third = configurations(cluster)

    assert len(first) == 1
    assert first.items() < second.items()
    assert len(second) == len(third) == 2
    assert not first.keys() & third.keys()
    run_helm(cluster, "rollback", "firsttoken", "1")
    assert first.items() <= configurations(cluster).items()


def test_what_still_serves_after_an_upgrade_that_got_stuck_is_kept_by_the_next(cluster: Cluster) -> None:
    first = configurations(cluster)
    nowhere = ("--set", "nodeSelector.there=none")
    run_helm(cluster, "upgrade", "firsttoken", CHART, "--set", "tickSeconds=20", *nowhere)
    wait_until(lambda: "Pending" in pod_phases(cluster), 60, "the upgrade is stuck")
    run_helm(cluster, "upgrade", "firsttoken", CHART, "--set", "tickSeconds=30", *nowhere)

    assert pod_phases(cluster).count("Running") == 2
    assert first.items() < configurations(cluster).items()
    run_helm(cluster, "upgrade", "firsttoken", CHART, "--set", "tickSeconds=30")
    rolled_out(cluster)
    run_helm(cluster, "upgrade", "firsttoken", CHART, "--set", "tickSeconds=40")
    assert not first.keys() & configurations(cluster).keys()


def pod_phases(cluster: Cluster) -> list[str]:
    found = cluster.kubectl("get", "pods", "-n", NAMESPACE, "-o", "json").stdout
    return [pod["status"]["phase"] for pod in json.loads(found)["items"]]
