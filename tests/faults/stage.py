"""The operator behind a proxy: a real API server, a Deployment for each resource, no Prometheus.

What moves replicas here is `minReplicas`, so that what is shown is about the API server and nothing else.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from firsttoken_operator.run.reflector import LIVED_SECONDS
from tests.faults.proxy import Entry, FaultProxy
from tests.operator.act.objects import infd, workload
from tests.operator.run.process import Process, create, get, installed, replicas
from tools.cluster import Cluster, wait_until

VALUES = Path(__file__).parents[2] / "helm/firsttoken/values.yaml"
MEBIBYTE = 1024 * 1024
LONG_GRACE = {"metricsLossGraceSeconds": 86400}
"""There are no metrics, and a module may live for longer than the usual grace: then the declared peak is raised to."""


@dataclass
class Stage:
    """A cluster, the proxy before its API server, and the operator."""

    cluster: Cluster
    proxy: FaultProxy
    folder: Path
    kubeconfig: Path
    process: Process
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    ended: list[Path] = field(default_factory=list)
    """Logs of the processes that ended since it settled."""

    def declare(self, name: str, minimum: int) -> None:
        """A resource with its target, scaled to its minimum by the operator."""
        scaling = LONG_GRACE | {"minReplicas": minimum}
        create(self.cluster, workload(1, name), infd(name, targetRef={"name": name}, scaling=scaling))
        self.until(name, minimum)

    def change(self, name: str, **scaling: Any) -> None:
        """Change fields of `spec.scaling`, past the proxy."""
        change = json.dumps({"spec": {"scaling": scaling}})
        self.cluster.kubectl("patch", "infd", name, "--type=merge", "-p", change)

    def replicas(self, name: str) -> int:
        """The replicas that the target asks for."""
        return replicas(self.cluster, name)

    def until(self, name: str, wanted: int, seconds: float = 30.0) -> None:
        """Wait until the target asks for so many replicas."""
        wait_until(lambda: self.replicas(name) == wanted, seconds, f"{name} at {wanted} replicas")

    def resource(self, name: str) -> dict[str, Any]:
        """A resource as it is now."""
        return get(self.cluster, "infd", name)

    def status(self, name: str) -> dict[str, Any]:
        """The status of a resource."""
        found: dict[str, Any] = self.resource(name).get("status", {})
        return found

    def ticks(self, more: int) -> None:
        """Wait for so many complete ticks."""
        seen = self.process.ticks()
        # NB: a process that was restarted counts from 0.
        wait_until(
            lambda: not seen <= self.process.ticks() < seen + more and self.process.ticks() >= more,
            30.0 + 5 * more,
            f"{more} ticks",
        )

    def scale_writes(self, name: str, since: int) -> list[Entry]:
        """Writes of the target's replicas that the API server took, after the request with this number."""
        wanted = f"/deployments/{name}/scale"
        found = [e for e in self.proxy.since(since) if e.is_write and e.path.endswith(wanted) and e.forwarded]
        return [e for e in found if e.status is None or e.status < 300]

    def assert_alive(self, restarts: int = 0) -> None:
        """The process runs, is healthy, and was restarted at most so often since it settled.

        Where no restart is expected there is no traceback either.
        """
        logs = "".join(log.read_text() for log in (*self.ended, self.process.log))
        assert self.process.child.poll() is None, logs[-3000:]
        assert self.process.get("healthz") == (200, "ok\n")
        assert len(self.ended) <= restarts, logs[-3000:]
        assert restarts or "Traceback" not in logs, logs[-3000:]

    def peak_bytes(self) -> int:
        """Most memory that the process had at any time."""
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.process.child.pid}/status").read_text())
        assert found
        return int(found[1]) * 1024

    def assert_forbidden(self, name: str) -> None:
        """It decided on the spec before this one, and only the live read kept it from writing."""
        generation = self.resource(name)["metadata"]["generation"]
        known = f"the spec changed: generation {generation}, decided on {generation - 1}"
        log = self.process.log.read_text()
        assert known in log, log[-3000:]

    def settle(self) -> None:
        """Wait until the operator decides, whatever happened before; forget what happened.

        So does the operator then: what befalls a watch that lived for a while is no part of an earlier outage.
        """
        wait_until(lambda: self.process.get("readyz")[0] == 200, 90, "operator ready")
        wait_until(lambda: self.proxy.all_watches_live(LIVED_SECONDS), 90, "watches that live")
        self.ended.clear()

    def supervise(self, ended: threading.Event) -> None:
        """Do what a kubelet does: start the process again where it ended, until `ended`."""
        while not ended.wait(0.2):
            if self.process.child.poll() is not None:
                self.ended.append(self.process.log)
                self.process = Process(self.folder, self.kubeconfig, *self.arguments, **self.environment)


def memory_limit_bytes() -> int:
    """Memory that the chart allows the operator."""
    limit = yaml.safe_load(VALUES.read_text())["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    return int(limit.removesuffix("Mi")) * MEBIBYTE


def through(proxy: FaultProxy, account: Path, file: Path) -> Path:
    """Write a kubeconfig of the account whose server is the proxy."""
    config = yaml.safe_load(account.read_text())
    config["clusters"][0]["cluster"] = {"server": proxy.url}
    file.write_text(yaml.safe_dump(config))
    return file


@contextmanager
def staged(folder: Path, *arguments: str, **environment: str) -> Iterator[Stage]:
    """A stage with a running operator and no resources. `arguments` and `environment` are the operator's."""
    # NB: room for the pod that each of the faults of a module asks for.
    with installed(nodes=8) as (cluster, account), FaultProxy(cluster.api_url, cluster.ca) as proxy:
        kubeconfig = through(proxy, account, folder / "kubeconfig")
        process = Process(folder, kubeconfig, *arguments, **environment)
        stage = Stage(cluster, proxy, folder, kubeconfig, process, arguments, environment)
        ended = threading.Event()
        supervisor = threading.Thread(target=stage.supervise, args=(ended,), name="supervisor")
        try:
            wait_until(stage.process.ready, 150, "operator ready")
            supervisor.start()
            yield stage
        finally:
            ended.set()
            if supervisor.is_alive():
                supervisor.join(10)
            stage.process.kill()
