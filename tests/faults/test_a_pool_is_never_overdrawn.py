"""Three deployments of two tenants want 1.6 times the GPUs of eight servers, and the operator that leads is killed.

The load is what their minimums ask for. The pool is judged by the whole history of the API server: every state that it
had of Deployments and pods, in its own order.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.pool_history import recorded
from tests.faults.stage import LONG_GRACE
from tests.helm.chart import NAMESPACE as SYSTEM
from tests.operator.act.objects import infd, workload
from tests.operator.run.process import Process, create, installed
from tools.cluster import Cluster, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.every_fault, pytest.mark.timeout(900)]

GPUS, QUOTA = 64, 24
EACH = {"chat": 4, "search": 1, "batch": 4}
"""GPUs of a replica. Wherever the first of `search` runs, 15 of the others have a place on eight servers."""
TENANT = {"chat": "web", "search": "web", "batch": "lab"}
PRIORITY = {"chat": 100, "search": 10, "batch": 1000}
WANTED = {"chat": 8, "search": 40, "batch": 8}
"""Replicas: 104 GPUs."""
LONG_SECONDS = 120.0
"""Limit for what comes when the machine gets to it: a takeover among it, a Lease is 20 s."""
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

    def until(self, expected: dict[str, int]) -> None:
        """Wait for these replicas."""
        wait_until(lambda: self.replicas() == expected, LONG_SECONDS, f"{expected}")

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
        history = stack.enter_context(recorded(cluster, tmp_path, EACH))
        shared, processes = Shared(cluster), [Process(tmp_path, account, *fast) for _ in range(2)]
        for process in processes:
            stack.callback(process.kill)
        wait_until(lambda: sum(leads(process) for process in processes) == 1, LONG_SECONDS, "one leads")

        shared.ask("batch", WANTED["batch"])
        shared.until({"chat": 1, "search": 1, "batch": QUOTA // EACH["batch"]})
        wait_until(lambda: shared.reason("batch") == "QuotaExceeded", LONG_SECONDS, "the quota is named")

        shared.ask("chat", WANTED["chat"])
        shared.ask("search", WANTED["search"])
        leader = next(process for process in processes if leads(process))
        leader.kill()
        crowded = {"chat": 8, "search": GPUS - QUOTA - 8 * EACH["chat"], "batch": QUOTA // EACH["batch"]}
        shared.until(crowded)
        missing = sum(WANTED[name] * EACH[name] for name in EACH) - GPUS
        wait_until(lambda: shared.unmet() == missing, LONG_SECONDS, f"{missing} GPUs unmet")
        assert shared.reason("search") == "PoolExhausted"
        assert shared.reason("chat") == "Available"

        shared.ask("batch", 2, most=2)
        shared.until(crowded | {"search": GPUS - 2 * EACH["batch"] - 8 * EACH["chat"], "batch": 2})
        shared.ask("chat", 2, most=2)
        shared.until({"chat": 2, "search": WANTED["search"], "batch": 2})
        wait_until(lambda: shared.unmet() == 0, LONG_SECONDS, "nothing is unmet")

    states = list(history.states())
    assert len(states) > 100
    assert max(sum(held.values()) for held in states) == GPUS
    assert max(held["batch"] for held in states) == QUOTA
