"""The rig: a fresh control plane, an exporter, and workloads whose replicas an autoscaler is to keep right.

Both autoscalers get the same one. Where pods do not follow, each Deployment keeps the ReplicaSet and the ready pods
that the rig makes: the autoscaling is measured, and not what Kubernetes then does for each new pod on the same cores.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from at_scale import manifests
from at_scale.api import Api, Follower
from at_scale.deploying import Deploying, PodOf, pod_of
from at_scale.exposition import MetricsPage
from at_scale.kinds import Fault, Workload
from at_scale.machine import CpuTimes, cpu_times, resident_megabytes
from tools.cluster import (
    Cluster,
    Component,
    ControllerOptions,
    GpuServers,
    PrometheusOptions,
    answers,
    lease_port,
    report,
    wait_until,
)

SCRAPE_SECONDS = 5.0
PODS_A_NODE = 100
MOST_REPLICAS = 12
"""Replicas of a workload after the last step."""
READY_SECONDS = 600.0
REQUEST_SECONDS = 60.0
DEPLOYMENTS, PODS = "/apis/apps/v1/deployments", "/api/v1/pods"
HERE = Path(__file__).resolve().parents[1]
RIG = "this benchmark"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counters at one instant: CPU times, memory in MB, and the pages of metrics by the name of the program."""

    at: float
    cpu: CpuTimes
    megabytes: dict[str, float]
    pages: dict[str, MetricsPage]


class Rig:
    """One control plane with `workloads`, each with `pods` ready pods, between `with` and the end of the block."""

    def __init__(
        self, workloads: Sequence[Workload], *, pods: int, pods_follow: bool, controllers: ControllerOptions
    ) -> None:
        self.workloads, self.pods, self.pods_follow = tuple(workloads), pods, pods_follow
        most = len(workloads) * (MOST_REPLICAS if pods_follow else 1) * pods
        self._nodes = max(4, -(-most // PODS_A_NODE))
        self.cluster = Cluster(
            servers=[GpuServers(self._nodes, gpus=8 * PODS_A_NODE)],
            prometheus=PrometheusOptions(scrape_interval_seconds=SCRAPE_SECONDS),
            controllers=controllers,
        )
        self.programs: dict[str, Component] = {}
        """Programs beside those of the cluster, by name."""
        self.replicas: dict[str, int] = {}
        """Replicas that each Deployment is to have, as last seen."""
        self.writes: list[tuple[float, str, int]] = []
        """Changes of them: monotonic time, name, replicas."""
        self._readers: dict[str, Callable[[], str]] = {}
        self._parts = ExitStack()
        self._silent: set[int] = set()
        """Numbers of workloads whose pods publish nothing."""

    def __enter__(self) -> Rig:
        with self._parts as parts:
            parts.enter_context(self.cluster)
            self.api = Api(self.cluster)
            self._exporter_url = f"http://127.0.0.1:{self.lease()}"
            command = (sys.executable, "-m", "at_scale.exporter", self._exporter_url.rpartition(":")[2])
            self.start("exporter", *command, environment={"PYTHONPATH": str(HERE)})
            wait_until(lambda: answers(f"{self._exporter_url}/scrapes"), READY_SECONDS, "the exporter")
            self.read("kube-apiserver", lambda: self.api.text("/metrics"))
            self.read("prometheus", lambda: read_text(f"{self.cluster.prometheus_url}/metrics"))
            self._parts = parts.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._parts.__exit__(kind, error, traceback)

    # What runs here.

    def start(self, name: str, *command: str | Path, environment: dict[str, str] | None = None) -> Component:
        """Start a program, in place of an earlier one of this name; it ends with the rig."""
        # NB: a library's proxy settings must not reach the loopback servers here.
        own = {"NO_PROXY": "*", "PYTHONUNBUFFERED": "1"} | (environment or {})
        program = Component(name, list(command), self.cluster.folder / f"{name}.log", env=os.environ | own)
        self._parts.callback(program.stop)
        self.programs[name] = program
        return program

    def lease(self) -> int:
        """Reserve a port until the rig ends."""
        lease = lease_port()
        self._parts.callback(lease.release)
        return lease.port

    def read(self, name: str, page: Callable[[], str]) -> None:
        """Read this page of metrics with every snapshot, under the program's name."""
        self._readers[name] = page

    @property
    def pids(self) -> dict[str, int]:
        """Processes of the rig, by name."""
        own = {name: program.pid for name, program in self.programs.items()}
        return self.cluster.pids | own | {RIG: os.getpid()}

    def snapshot(self) -> Snapshot:
        """Read every counter now. Raises `ComponentFailedError` where a program has ended."""
        for program in self.programs.values():
            program.require_running()
        pids = self.pids
        pages = {name: MetricsPage(page()) for name, page in self._readers.items()}
        memory = {name: resident_megabytes(pid) for name, pid in pids.items()}
        return Snapshot(time.monotonic(), cpu_times(pids), memory, pages)

    # Workloads and their load.

    def set_up(self, *, pods_are_scraped: bool) -> None:
        """Create namespaces and workloads, wait until their pods are ready, and let Prometheus read them.

        `pods_are_scraped`: the series of every pod; else one of every workload.
        """
        for namespace in manifests.namespaces():
            self.api.create("/api/v1/namespaces", namespace)
        nodes = [node["metadata"]["name"] for node in self.api.get("/api/v1/nodes")["items"]]
        deploying = Deploying(self.api, self.pods, nodes, pods_follow=self.pods_follow)
        deploying.create(self.workloads)
        wanted = len(self.workloads) * self.pods
        wait_until(lambda: len(deploying.ready_pods()) >= wanted, READY_SECONDS, "every pod ready", poll_seconds=2.0)
        report(f"{len(self.workloads)} Deployments with {wanted} pods are ready")
        self.tell(workloads=[self._told_of(workload) for workload in self.workloads])
        if pods_are_scraped:
            self._silent = {w.number for w in self.workloads if w.fault is Fault.NO_METRICS}
            self._tell_pods(deploying.ready_pods())
            if self.pods_follow:
                self._follow(PODS, self._see_pod)
        self._follow(DEPLOYMENTS, self._see)
        path = "/metrics" if pods_are_scraped else "/loads"
        address = self._exporter_url.removeprefix("http://")
        self.cluster.prometheus.add_target(address, job="fleet", path=path, honor_labels=True)

    def tell(self, **said: Any) -> list[float]:
        """Change what the exporter says; for a change of the load the instant of each workload's own."""
        body = json.dumps(said).encode()
        request = urllib.request.Request(self._exporter_url, data=body)
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
            instants: list[float] = json.load(answer)
        return instants

    def scrapes(self) -> list[float]:
        """Times at which Prometheus read the exporter, of the monotonic clock."""
        found: list[float] = json.loads(read_text(f"{self._exporter_url}/scrapes"))
        return found

    def _told_of(self, workload: Workload) -> dict[str, Any]:
        traffic = workload.kind.spec["traffic"]
        return {
            "namespace": workload.namespace,
            "name": workload.name,
            "rate": workload.kind.requests_per_second,
            "pods": self.pods,
            "tokens": [traffic["inputTokens"], traffic["outputTokens"]],
        }

    def _tell_pods(self, pods: Sequence[PodOf]) -> None:
        self.tell(pods=[pod for pod in pods if pod[2] not in self._silent])

    def _follow(self, path: str, take: Callable[[Any, float], None]) -> None:
        self._parts.callback(Follower(self.api, path, take).stop)

    def _see(self, deployment: Any, now: float) -> None:
        name, replicas = deployment["metadata"]["name"], deployment["spec"]["replicas"]
        before = self.replicas.get(name)
        self.replicas[name] = replicas
        if before is not None and before != replicas:
            self.writes.append((now, name, replicas))

    def _see_pod(self, pod: Any, _: float) -> None:
        if (ready := pod_of(pod)) is not None:
            self._tell_pods([ready])


def read_text(url: str) -> str:
    """Text that a server here answers with."""
    with urllib.request.urlopen(url, timeout=REQUEST_SECONDS) as answer:
        text: str = answer.read().decode()
    return text
