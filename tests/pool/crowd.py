"""Three emulated fleets of two tenants on one pool of eight servers, and the operators that scale them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.faults.proxy import FaultProxy
from tests.faults.stage import LONG_GRACE, through
from tests.helm.chart import NAMESPACE as SYSTEM
from tests.operator.act.objects import infd, workload
from tests.operator.run.process import Process, create, installed
from tools.cluster import Cluster, Component, PrometheusOptions, lease_port, wait_until

GPUS, QUOTA, EACH = 64, 24, 4
"""GPUs of the pool, of the tenant `lab` at most, and of a replica."""
LONG_SECONDS = 240.0
"""Limit for what comes when the machine gets to it."""
TIME_SCALE, START_SECONDS = 10.0, 6.0
SEEN_TICKS = 7
"""Ticks, of 1.5 s, after which a rate of 8 s shows a load."""
LIMIT_SECONDS = 2.0
POOL = {
    "apiVersion": "firsttoken.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": "h100"},
    "spec": {
        "location": "OnPrem", "gpu": "H100-SXM-80GB", "peakGPUs": GPUS, "scaleDownLimitPercent": 100,
        "tenants": [
            {"name": "web", "namespaceSelector": {"matchLabels": {"team": "web"}}, "admits": "All"},
            {"name": "lab", "namespaceSelector": {"matchLabels": {"team": "lab"}}, "quotaGPUs": QUOTA,
             "maxPriority": 0},
        ],
    },
}  # fmt: skip


@dataclass(frozen=True)
class Deployed:
    """A deployment: `replicas` and `load` (requests a second) are those at the beginning.

    `declared`: peak that it declares for the whole day; None: what it wants follows its load.
    """

    name: str
    namespace: str
    priority: int
    replicas: int
    load: float
    declared: float | None = None

    @property
    def documents(self) -> list[dict[str, Any]]:
        """The Deployment and its resource. A replica of it carries 25 requests a second: chance moves a rate little."""
        target = workload(self.replicas, self.name)
        container = target["spec"]["template"]["spec"]["containers"][0]
        container["resources"] = {"limits": {"nvidia.com/gpu": EACH}}
        traffic = {"inputTokens": 500, "outputTokens": 100, "peakRequestsPerSecond": "100", "routing": "LeastLoaded"}
        if self.declared is not None:
            window = {"timeZone": "UTC", "start": "00:00", "end": "24:00"}
            traffic["schedule"] = [window | {"peakRequestsPerSecond": f"{self.declared:g}"}]
        about = infd(
            self.name,
            model={"name": "meta-llama/Llama-3.1-70B-Instruct", "precision": "FP8"},
            traffic=traffic,
            sla={"timeToFirstToken": {"milliseconds": round(1000 * LIMIT_SECONDS), "percentile": "P95"}},
            hardware={"gpus": ["H100-SXM-80GB"], "tensorParallel": EACH},
            targetRef={"name": self.name},
            scaling=LONG_GRACE | {"scaleDownStepPercent": 50},
            capacity={"priority": self.priority, "pool": "h100"},
        )
        for document in (target, about):
            document["metadata"]["namespace"] = self.namespace
        return [target, about]

    def wanted(self, folder: Path) -> int:
        """Replicas that its window takes, as `firsttoken size` says."""
        file = folder / f"{self.name}-sized.yaml"
        file.write_text(yaml.safe_dump(self.documents[1]))
        command = [sys.executable, "-m", "firsttoken_operator.cli", "size", "-f", str(file), "-o", "json"]
        answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return int(answer["schedule"][0]["replicas"])


CHAT = Deployed("chat", "web", 100, 2, 33.0)
"""Amid two replicas, so that neither noise nor a deadband asks for a third one."""
SEARCH = Deployed("search", "web", 10, 10, 33.0, 237.0)
BATCH = Deployed("batch", "lab", 1000, 4, 9.0, 308.0)
"""Its tenant's largest priority is 0."""
ALL = (CHAT, SEARCH, BATCH)


class Fleet:
    """The emulated replicas of one deployment, and the requests to them."""

    def __init__(self, about: Deployed, cluster: Cluster, folder: Path) -> None:
        self.name, self.port = about.name, lease_port().port
        self.truth, file = folder / f"{about.name}.jsonl", folder / f"{about.name}.yaml"
        file.write_text(yaml.safe_dump(about.documents[1]))
        command: list[str | Path] = [
            sys.executable, "-m", "firsttoken_operator.cli", "emulate", "-f", file, "--fleet", "--kubeconfig",
            cluster.kubeconfig, "--rate", f"{about.load:g}", "--seconds", "7200", "--port", str(self.port),
            "--truth", self.truth, "--allow-control",
        ]  # fmt: skip
        environment = os.environ | {"NO_PROXY": "*", "PYTHONUNBUFFERED": "1"}
        log = folder / f"{about.name}.log"
        self.process = Component(about.name, command, log, env=environment, grace_seconds=60.0)

    def stats(self) -> dict[str, Any]:
        """The live score; empty while it is not up."""
        self.process.require_running()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stats", timeout=10) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:
            return {}

    def ready(self) -> int:
        """Replicas that answer; -1 while it is not up."""
        return int(self.stats().get("readyReplicas", -1))

    def load(self, requests_per_second: float) -> None:
        """Change the true load."""
        body = json.dumps({"requestsPerSecond": requests_per_second}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/load", data=body, method="POST")
        urllib.request.urlopen(request, timeout=30).close()

    def inside_percent(self, since_seconds: float) -> float:
        """Share of the requests since then that had their first token in time; ends the fleet, which tells of each."""
        self.process.stop()
        found = [json.loads(line) for line in self.truth.read_text().splitlines()]
        judged = [each for each in found if each["arrival_seconds"] >= since_seconds]
        assert len(judged) > 100
        times = [each["ttft_seconds"] if each["ok"] else None for each in judged]
        inside = sum(ttft is not None and ttft <= LIMIT_SECONDS for ttft in times)
        return float(100 * inside / len(judged))


class Crowded:
    """The cluster with the three, their fleets, and operators behind a proxy."""

    def __init__(self, cluster: Cluster, kubeconfig: Path, folder: Path, stack: ExitStack) -> None:
        self.cluster, self.folder, self.kubeconfig = cluster, folder, kubeconfig
        for namespace in ("web", "lab"):
            labels = {"team": namespace, "firsttoken.dev/scale": "true"}
            about = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
            create(cluster, about)
        create(cluster, POOL, *(document for each in ALL for document in each.documents))
        self.fleets = {each.name: Fleet(each, cluster, folder) for each in ALL}
        for fleet in self.fleets.values():
            stack.callback(fleet.process.stop)
            cluster.add_http_sd(f"http://127.0.0.1:{fleet.port}/sd", job=fleet.name)
        self.settings = folder / "settings.yaml"
        settings = {
            "prometheus": {"default": {"url": cluster.prometheus_url}}, "scrapeIntervalSeconds": 5.0,
            "rateWindowSeconds": 80.0, "timeScale": TIME_SCALE,
        }  # fmt: skip
        self.settings.write_text(yaml.safe_dump(settings))
        for each in ALL:
            wait_until(lambda of=each: self._has_all(of), LONG_SECONDS, f"{each.name} is ready")  # type: ignore[misc]
        self.operators: list[Process] = []
        stack.callback(self._kill_all)

    def _kill_all(self) -> None:
        for process in self.operators:
            process.kill()

    def _has_all(self, about: Deployed) -> bool:
        return self.fleets[about.name].ready() == about.replicas

    def start(self) -> None:
        """Start an operator, whose ticks take 1.5 s."""
        options = ("--config", str(self.settings), "--tick-seconds", "15")
        lease = ("--leader-elect", "--lease-namespace", SYSTEM)
        self.operators.append(Process(self.folder, self.kubeconfig, *options, *lease))

    def leader(self) -> Process | None:
        """The one that writes; None: none does now."""
        return next((p for p in self.operators if "firsttoken_leader 1.0" in p.get("metrics")[1]), None)

    def end_leader(self) -> None:
        """Kill the one that writes; where no other stands by, it is started again, as a kubelet does."""
        leader = self.leader() if len(self.operators) > 1 else self.operators[0]
        assert leader is not None
        leader.child.send_signal(signal.SIGKILL)
        if len(self.operators) == 1:
            self.start()

    def follow(self, about: Deployed) -> None:
        """Wait until the one that leads has seen the load as it is now, and the deployment has what it wants for it."""
        begun: dict[Process, int] = {}

        def has_seen() -> bool:
            leader = self.leader()
            if leader is None:
                begun.clear()  # The next one has seen nothing that it may act on.
                return False
            return leader.ticks() >= begun.setdefault(leader, leader.ticks()) + SEEN_TICKS

        def has_all() -> bool:
            return (
                self.available(about) == "Available" and self.fleets[about.name].ready() == self.replicas()[about.name]
            )

        wait_until(has_seen, LONG_SECONDS, "the load is seen")
        wait_until(has_all, LONG_SECONDS, f"{about.name} has what it wants", poll_seconds=0.5)

    def replicas(self) -> Mapping[str, int]:
        """Replicas that each asks for."""
        found = json.loads(self.cluster.kubectl("get", "deployments", "-A", "-o", "json").stdout)["items"]
        return {d["metadata"]["name"]: d["spec"]["replicas"] for d in found if d["metadata"]["name"] in self.fleets}

    def available(self, about: Deployed) -> str:
        """Reason of the condition CapacityAvailable."""
        get = ("-n", about.namespace, "get", "infd", about.name, "-o", "json")
        conditions = json.loads(self.cluster.kubectl(*get).stdout).get("status", {}).get("conditions", [])
        return next((str(c["reason"]) for c in conditions if c["type"] == "CapacityAvailable"), "")

    def unmet(self) -> int:
        """GPUs that the pool says are unmet."""
        found = json.loads(self.cluster.kubectl("get", "gpupool", "h100", "-o", "json").stdout)
        return int(found.get("status", {}).get("unmetGPUs", -1))


@contextmanager
def crowded(folder: Path) -> Iterator[tuple[Crowded, FaultProxy]]:
    """The whole scene, with no operator yet."""
    options = PrometheusOptions(scrape_interval_seconds=0.5, discovery_interval_seconds=0.5)
    with ExitStack() as stack:
        cluster, account = stack.enter_context(
            installed(nodes=8, terminate_delay_seconds=1.0, ready_delay_seconds=START_SECONDS, prometheus=options)
        )
        proxy = stack.enter_context(FaultProxy(cluster.api_url, cluster.ca))
        yield Crowded(cluster, through(proxy, account, folder / "kubeconfig"), folder, stack), proxy
