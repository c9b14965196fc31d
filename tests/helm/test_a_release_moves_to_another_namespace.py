"""docs/uninstall.md on a real API server: definitions that were kept are refused to another release, and taken over."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from tests.operator.act.objects import infd
from tests.operator.run.process import create, get
from tools.cluster import Cluster, helm

pytestmark = pytest.mark.cluster

PAGE = ROOT / "docs/uninstall.md"


@pytest.fixture(scope="module")
def cluster(control_plane: Path) -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        yield running


def shown(*starts: str) -> list[list[str]]:
    """The page's commands that begin so."""
    lines = [line for block in blocks(PAGE, "sh") for line in block.text.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith(starts)]


def run_helm(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = cluster.environment() | {"HELM_CACHE_HOME": str(cluster.folder), "NO_PROXY": "*"}
    command = [helm(), *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120, env=environment
    )  # fmt: skip


def owner(cluster: Cluster) -> str:
    found = json.loads(cluster.kubectl("get", "crd", "inferencedeployments.firsttoken.dev", "-o", "json").stdout)
    return str(found["metadata"]["annotations"]["meta.helm.sh/release-namespace"])


def test_a_release_goes_on_in_another_namespace_with_the_resources_of_before(cluster: Cluster) -> None:
    chart = ("install", "firsttoken", "helm/firsttoken", "--create-namespace", "--set", "replicas=0", "--namespace")
    assert run_helm(cluster, *chart, "firsttoken-system").returncode == 0
    create(cluster, infd("kept"))
    (uninstall,) = shown("helm uninstall")
    assert run_helm(cluster, *uninstall[1:]).returncode == 0

    refused = run_helm(cluster, *chart, "platform")
    assert "invalid ownership metadata" in refused.stderr
    (again,) = shown("helm install")
    taken = run_helm(cluster, *again[1:], "--set", "replicas=0")
    assert taken.returncode == 0, taken.stderr
    assert owner(cluster) == "platform"
    assert get(cluster, "infd", "kept")["spec"]["targetRef"]["name"] == "nim"


def test_an_older_helm_is_given_the_definitions_by_hand(cluster: Cluster) -> None:
    if owner(cluster) == "platform":
        assert run_helm(cluster, "uninstall", "firsttoken", "--namespace", "platform").returncode == 0
    (annotate,), (label,) = shown("kubectl annotate"), shown("kubectl label")
    other = [word.replace("=platform", "=elsewhere") for word in annotate]
    for command in (other, label):
        cluster.kubectl(*command[1:])
    done = run_helm(
        cluster, "install", "firsttoken", "helm/firsttoken", "--namespace", "elsewhere", "--create-namespace",
        "--set", "replicas=0",
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert get(cluster, "infd", "kept")["kind"] == "InferenceDeployment"
