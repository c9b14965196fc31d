"""Three deployments of two tenants want 1.6 times the GPUs of eight servers, and the operator that leads is killed.

The load is what their minimums ask for. The pool is judged by the whole history of the API server: every state that it
had of Deployments and pods, in its own order.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.stage import LONG_GRACE
from tests.helm.chart import NAMESPACE as SYSTEM
from tests.operator.act.objects import infd, workload
from tests.operator.run.process import Process, create, installed
from tools.cluster import Cluster, kubectl, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.every_fault, pytest.mark.timeout(300)]

GPUS, QUOTA = 64, 24
EACH = {"chat": 4, "search": 1, "batch": 2}
"""GPUs of a replica."""
TENANT = {"chat": "web", "search": "web", "batch": "lab"}
PRIORITY = {"chat": 100, "search": 10, "batch": 1000}
WANTED = {"chat": 8, "search": 40, "batch": 15}
"""Replicas: 102 GPUs."""
TAKEOVER_SECONDS = 45.0
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


@dataclass
class Held:
    """GPUs that one Deployment holds: its pods by uid, True for those that end."""

    each: int
    replicas: int = 0
    pods: dict[str, bool] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        ending = sum(self.pods.values())
        return (max(self.replicas, len(self.pods) - ending) + ending) * self.each


class History:
    """Every state of Deployments and pods that the API server had since `recorded` began."""

    def __init__(self, folder: Path) -> None:
        self.files = {kind: folder / f"{kind}.json" for kind in ("deployments", "pods")}

    def states(self) -> Iterator[tuple[int, int]]:
        """GPUs held together, and those of the tenant with a quota, after each change."""
        decoder, events = json.JSONDecoder(), []
        for kind, file in self.files.items():
            text, at = file.read_text(), 0
            while (at := next((i for i in range(at, len(text)) if text[i] == "{"), -1)) >= 0:
                try:
                    event, at = decoder.raw_decode(text, at)
                except json.JSONDecodeError:
                    break  # It was cut off in the middle of the last one.
                events.append((int(event["object"]["metadata"]["resourceVersion"]), kind, event))
        held = {name: Held(each) for name, each in EACH.items()}
        for _, kind, event in sorted(events, key=lambda e: e[0]):
            body = event["object"]
            if kind == "deployments" and body["metadata"]["name"] in held:
                held[body["metadata"]["name"]].replicas = body["spec"]["replicas"]
            elif kind == "pods" and (of := held.get(body["metadata"].get("labels", {}).get("app", ""))):
                of.pods[body["metadata"]["uid"]] = "deletionTimestamp" in body["metadata"]
                if event["type"] == "DELETED":
                    del of.pods[body["metadata"]["uid"]]
            yield sum(each.gpus for each in held.values()), held["batch"].gpus


@contextmanager
def recorded(cluster: Cluster, folder: Path) -> Iterator[History]:
    """Record every event of Deployments and pods."""
    history = History(folder)
    with ExitStack() as stack:
        for kind, file in history.files.items():
            select = ("--kubeconfig", str(cluster.kubeconfig), "get", kind, "-A", "-o", "json")
            command = [str(kubectl()), *select, "--watch", "--output-watch-events"]
            told = stack.enter_context(file.open("w"))
            watching = stack.enter_context(subprocess.Popen(command, stdout=told))
            stack.callback(watching.kill)
        yield history


class Shared:
    """The cluster with the three deployments in one pool."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        for tenant in ("web", "lab"):
            labels = {"team": tenant, "firsttoken.dev/scale": "true"}
            create(cluster, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant, "labels": labels}})
        create(cluster, POOL)
        for name, gpus in EACH.items():
            target, scaling = workload(1, name), LONG_GRACE | {"minReplicas": 1, "scaleDownStepPercent": 100}
            container = target["spec"]["template"]["spec"]["containers"][0]
            container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
            # NB: those of `web` name no pool: it is their default.
            capacity = {"priority": PRIORITY[name]} | ({"pool": "h100"} if TENANT[name] == "lab" else {})
            about = infd(
                name, targetRef={"name": name}, scaling=scaling, capacity=capacity,
                hardware={"gpus": ["H100-SXM-80GB"], "tensorParallel": gpus},
            )  # fmt: skip
            for document in (target, about):
                document["metadata"]["namespace"] = TENANT[name]
            create(cluster, target, about)

    def ask(self, name: str, replicas: int, most: int | None = None) -> None:
        """Change what a deployment asks for."""
        change = json.dumps({"spec": {"scaling": {"minReplicas": replicas, "maxReplicas": most}}})
        self.cluster.kubectl("-n", TENANT[name], "patch", "infd", name, "--type=merge", "-p", change)

    def get(self, *what: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.cluster.kubectl("get", *what, "-o", "json").stdout)
        return found

    def replicas(self) -> dict[str, int]:
        """Replicas that each asks for."""
        found = self.get("deployments", "-A")["items"]
        return {d["metadata"]["name"]: d["spec"]["replicas"] for d in found if d["metadata"]["name"] in EACH}

    def until(self, expected: dict[str, int], seconds: float) -> None:
        """Wait for these replicas."""
        wait_until(lambda: self.replicas() == expected, seconds, f"{expected}")

    def unmet(self) -> int:
        """GPUs that the pool says are unmet."""
        return int(self.get("gpupool", "h100").get("status", {}).get("unmetGPUs", -1))

    def reason(self, name: str) -> str:
        """Reason of the condition CapacityAvailable."""
        conditions = self.get("-n", TENANT[name], "infd", name).get("status", {}).get("conditions", [])
        return next((str(c["reason"]) for c in conditions if c["type"] == "CapacityAvailable"), "")


def leads(process: Process) -> bool:
    return "firsttoken_leader 1.0" in process.get("metrics")[1]


def test_no_state_of_the_api_server_has_more_than_the_pool_or_a_quota(control_plane: Path, tmp_path: Path) -> None:
    # NB: ticks of 1.5 s; pods take two seconds to end, and hold their GPUs meanwhile.
    fast = ("--tick-seconds", "15", "--time-scale", "10", "--leader-elect", "--lease-namespace", SYSTEM)
    with ExitStack() as stack:
        cluster, account = stack.enter_context(installed(nodes=8, terminate_delay_seconds=2.0))
        history = stack.enter_context(recorded(cluster, tmp_path))
        shared, processes = Shared(cluster), [Process(tmp_path, account, *fast) for _ in range(2)]
        for process in processes:
            stack.callback(process.kill)
        wait_until(lambda: sum(leads(process) for process in processes) == 1, 60, "one leads")

        shared.ask("batch", WANTED["batch"])
        shared.until({"chat": 1, "search": 1, "batch": QUOTA // 2}, 60)
        wait_until(lambda: shared.reason("batch") == "QuotaExceeded", 30, "the quota is named")

        shared.ask("chat", WANTED["chat"])
        shared.ask("search", WANTED["search"])
        leader = next(process for process in processes if leads(process))
        leader.kill()
        crowded = {"chat": 8, "search": GPUS - QUOTA - 8 * EACH["chat"], "batch": QUOTA // 2}
        shared.until(crowded, TAKEOVER_SECONDS)
        missing = sum(WANTED[name] * EACH[name] for name in EACH) - GPUS
        wait_until(lambda: shared.unmet() == missing, 30, f"{missing} GPUs unmet")
        assert shared.reason("search") == "PoolExhausted"
        assert shared.reason("chat") == "Available"

        shared.ask("batch", 2, most=2)
        shared.until(crowded | {"search": GPUS - 2 * EACH["batch"] - 8 * EACH["chat"], "batch": 2}, 60)
        shared.ask("chat", 2, most=2)
        shared.until({"chat": 2, "search": WANTED["search"], "batch": 2}, 60)
        wait_until(lambda: shared.unmet() == 0, 30, "nothing is unmet")

    states = list(history.states())
    assert len(states) > 100
    assert max(together for together, _ in states) == GPUS
    assert max(of_lab for _, of_lab in states) == QUOTA
