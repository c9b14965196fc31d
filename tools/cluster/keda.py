"""KEDA 2.21 beside a local control plane: its real operator and adapter, out of the pinned module.

The adapter serves `external.metrics.k8s.io` behind the API server. Its Service has no pods: it is an ExternalName to
this machine, which the API server's default resolver follows, and the certificate carries the Service's name.

NB: outside a pod the operator needs KEDA_CLUSTER_OBJECT_NAMESPACE and an empty WATCH_NAMESPACE, or it ends.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from tools.cluster.build import keda_programs
from tools.cluster.local_cluster import Cluster
from tools.cluster.pki import Authority
from tools.cluster.ports import lease_port
from tools.cluster.process import Component
from tools.cluster.waiting import answers, wait_until

NAMESPACE, SERVICE = "keda", "keda-metrics-apiserver"
GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
API_SERVICE = f"{VERSION}.{GROUP}"
START_SECONDS = 120.0


class Start(Protocol):
    """Starts a program that ends with the cluster."""

    def __call__(self, name: str, *command: str | Path, environment: dict[str, str]) -> object:
        """Start `command`, called `name`, with these variables beside those of this process."""


def run_keda(cluster: Cluster, start: Start, lease: Callable[[], int], flags: Sequence[str] = ()) -> None:
    """Install KEDA's definitions, start its programs with `flags` and return when its metrics are served.

    `lease` reserves a port for as long as the programs run. Raises `SetupError` where they cannot be built.
    """
    programs, keys = keda_programs(), cluster.folder / "keda"
    keys.mkdir()
    authority = Authority(keys, "keda-ca")
    names = ("localhost", f"{SERVICE}.{NAMESPACE}.svc")
    authority.server("tls", "keda-operator", names=names, addresses=("127.0.0.1",), is_client=True)
    cluster.kubectl("apply", "--server-side", "-f", programs / "crds")
    cluster.wait_until_established()
    cluster.kubectl("create", "namespace", NAMESPACE)
    internal, port, health = lease(), lease(), lease()
    own = {"KUBECONFIG": str(cluster.kubeconfig), "POD_NAMESPACE": NAMESPACE, "WATCH_NAMESPACE": ""}
    start(
        "keda-operator",
        programs / "keda-operator",
        *flags,
        f"--metrics-bind-address=127.0.0.1:{lease()}",
        f"--health-probe-bind-address=127.0.0.1:{health}",
        f"--metrics-service-bind-address=127.0.0.1:{internal}",
        f"--cert-dir={keys}",
        "--zap-log-level=info",
        environment=own | {"KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE},
    )
    wait_until(lambda: answers(f"http://127.0.0.1:{health}/readyz"), START_SECONDS, "keda-operator")
    start(
        "keda-adapter",
        programs / "keda-adapter",
        *flags,
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--port={lease()}",
        f"--metrics-service-address=127.0.0.1:{internal}",
        f"--cert-dir={keys}",
        f"--client-ca-file={keys / 'ca.crt'}",
        f"--tls-cert-file={keys / 'tls.crt'}",
        f"--tls-private-key-file={keys / 'tls.key'}",
        f"--authentication-kubeconfig={cluster.kubeconfig}",
        f"--authorization-kubeconfig={cluster.kubeconfig}",
        f"--lister-kubeconfig={cluster.kubeconfig}",
        "--zap-log-level=info",
        environment=own,
    )
    for manifest in _registration(port, authority.certificate):
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    wait_until(lambda: _is_registered(cluster), START_SECONDS, f"{API_SERVICE} available")


class Keda:
    """KEDA on a cluster, between `with` and the end of the block."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._parts = ExitStack()

    def __enter__(self) -> Keda:
        with self._parts as parts:
            run_keda(self._cluster, self._start, self._lease)
            self._parts = parts.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._parts.__exit__(kind, error, traceback)

    def _start(self, name: str, *command: str | Path, environment: Mapping[str, str]) -> None:
        # NB: a library's proxy settings must not reach the loopback servers here.
        program = Component(
            name,
            list(command),
            self._cluster.folder / f"{name}.log",
            env=os.environ | {"NO_PROXY": "*"} | dict(environment),
        )
        self._parts.callback(program.stop)

    def _lease(self) -> int:
        lease = lease_port()
        self._parts.callback(lease.release)
        return lease.port


def _registration(port: int, authority: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    ports = [{"name": "https", "port": port}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": ports},
    }
    registered = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": API_SERVICE},
        "spec": {
            "service": {"name": SERVICE, "namespace": NAMESPACE, "port": port},
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "caBundle": base64.b64encode(authority.read_bytes()).decode(),
        },
    }
    return service, registered


def _is_registered(cluster: Cluster) -> bool:
    found = json.loads(cluster.kubectl("get", "apiservice", API_SERVICE, "-o", "json").stdout)
    conditions = found.get("status", {}).get("conditions", [])
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)
