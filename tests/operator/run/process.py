"""The operator as a process of its own, on a real API server under the rights of the chart's ServiceAccount."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.helm.chart import NAMESPACE, render
from tests.operator.act.objects import infd
from tests.operator.act.test_a_rendered_pod_is_restricted import MINIMAL
from tools.cluster import Cluster, lease_port

_APPLIED = {
    "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
    "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
}  # fmt: skip


class Process:
    """The operator and what it says."""

    def __init__(self, folder: Path, kubeconfig: Path, *arguments: str, **environment: str) -> None:
        self.port = lease_port().port
        self.log = folder / f"operator-{self.port}.log"
        command = [
            sys.executable, "-m", "firsttoken_operator.cli", "operator", "--kubeconfig", str(kubeconfig),
            "--host", "127.0.0.1", "--port", str(self.port), "--tick-seconds", "1", "--render",
            *arguments,
        ]  # fmt: skip
        with self.log.open("w") as log:
            self.child = subprocess.Popen(command, stderr=log, env=os.environ | {"NO_PROXY": "*"} | environment)

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a path of its HTTP port; 0 where it is not open."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=2) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def ready(self) -> bool:
        """Tell whether it decides; fails where it has ended."""
        assert self.child.poll() is None, self.log.read_text()
        return self.get("readyz")[0] == 200

    def end(self) -> int:
        """Ask it to end; its exit status."""
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(25)

    def kill(self) -> None:
        """End it without its doing."""
        self.child.kill()
        self.child.wait()

    def entries(self) -> list[dict[str, Any]]:
        """Its log."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def ticks(self) -> int:
        """Complete ticks so far."""
        for line in self.get("metrics")[1].splitlines():
            if line.startswith("firsttoken_cycle_duration_seconds_count"):
                return round(float(line.split()[1]))
        return 0


@contextmanager
def installed(*values: str, nodes: int = 2, **options: Any) -> Iterator[tuple[Cluster, Path]]:
    """A cluster with what the chart installs, and a kubeconfig of the operator's account. `options` are the cluster's.

    The namespace default is open to scaling and rendering.
    """
    with Cluster(nodes=nodes, **options) as cluster:
        cluster.kubectl("create", "namespace", NAMESPACE)
        cluster.kubectl("label", "namespace", "default", "firsttoken.dev/scale=true", "firsttoken.dev/render=true")
        every = render("render.enabled=true", "render.allowed.images={nvcr.io/nim/,nim}", *values)
        manifests = [manifest for manifest in every if manifest["kind"] in _APPLIED]
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(manifests))
        cluster.wait_until_established()
        yield cluster, cluster.service_account_kubeconfig(NAMESPACE, "firsttoken")


def get(cluster: Cluster, kind: str, name: str) -> dict[str, Any]:
    """An object of the namespace default."""
    found: dict[str, Any] = json.loads(cluster.kubectl("get", kind, name, "-o", "json").stdout)
    return found


def replicas(cluster: Cluster, name: str) -> int:
    """The replicas that a Deployment asks for."""
    return int(get(cluster, "deployment", name)["spec"]["replicas"])


def create(cluster: Cluster, *manifests: dict[str, Any]) -> None:
    """Apply them."""
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))


def nim(name: str, **scaling: Any) -> dict[str, Any]:
    """A resource that the operator renders."""
    document = infd(name, runtime=dict(MINIMAL), scaling=scaling)
    document["spec"]["traffic"] |= {"averageRequestsPerSecond": "1"}
    document["spec"]["runtime"]["nodeSelector"] = {"kubernetes.io/os": "linux"}
    del document["spec"]["targetRef"]
    return document
