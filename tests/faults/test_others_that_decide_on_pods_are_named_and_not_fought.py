"""Quotas, queues, schedulers, drivers, drains and GitOps decide on pods, too: each is named, and none is fought."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults.stage import LONG_GRACE, Stage
from tests.operator.act.objects import infd, workload
from tests.operator.run.process import create, get
from tools.cluster import wait_until

pytestmark = pytest.mark.cluster

KUEUE = "kueue.x-k8s.io/admission"
SERVER_GPUS, SERVERS = 8, 8


def available(stage: Stage, name: str) -> tuple[str, str]:
    """Reason and message of the condition CapacityAvailable."""
    found = {each["type"]: each for each in stage.status(name).get("conditions", ())}
    condition = found.get("CapacityAvailable", {})
    return condition.get("reason", ""), condition.get("message", "")


def declared(stage: Stage, name: str, minimum: int, gpus: int = 1, **pod_spec: Any) -> None:
    """A resource, and its target with pods of so many GPUs that are made as `pod_spec` says."""
    deployment = workload(minimum, name)
    template = deployment["spec"]["template"]["spec"]
    template["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    template |= pod_spec
    spec = {"hardware": {"gpus": ["H100-SXM-80GB"], "tensorParallel": gpus or 1}}
    create(stage.cluster, deployment, infd(name, targetRef={"name": name}, scaling=LONG_GRACE, **spec))


def pods(stage: Stage, name: str) -> list[dict[str, Any]]:
    """Pods of a target that are not ending."""
    found = json.loads(stage.cluster.kubectl("get", "pods", "-l", f"app={name}", "-o", "json").stdout)["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


QUOTA = {
    "apiVersion": "v1", "kind": "ResourceQuota",
    "metadata": {"name": "few-pods", "namespace": "default"}, "spec": {"hard": {"pods": "3"}},
}  # fmt: skip


@pytest.fixture
def settled(stage: Stage) -> Iterator[Stage]:
    """The stage, whose GPUs are free again afterwards."""
    yield stage
    stage.cluster.kubectl("delete", "infd,deployments,pods,poddisruptionbudgets", "--all")


def until_named(stage: Stage, name: str, reason: str) -> str:
    """Wait for a reason of CapacityAvailable; its message."""
    wait_until(lambda: available(stage, name)[0] == reason, 60, f"{reason} of {name}")
    return available(stage, name)[1]


def test_a_quota_is_named_and_no_more_pods_are_ordered_until_it_is_raised(settled: Stage) -> None:
    create(settled.cluster, QUOTA)
    settled.declare("short", 2)
    settled.change("short", minReplicas=5)
    settled.until("short", 5)
    wait_until(lambda: available(settled, "short")[0] == "PodsRefused", 60, "a condition that tells of the quota")
    before = len(settled.proxy.log)
    settled.change("short", minReplicas=9)
    settled.ticks(5)
    message = available(settled, "short")[1]

    assert message.startswith("2 pods are refused: ")
    assert "exceeded quota: few-pods" in message
    assert settled.replicas("short") == 5
    assert settled.scale_writes("short", before) == []

    settled.change("short", minReplicas=2, maxReplicas=4)
    # What was added is not taken back for a minute.
    settled.until("short", 4, 180)
    settled.change("short", minReplicas=9, maxReplicas=9)
    settled.ticks(3)
    assert settled.replicas("short") == 4, "fewer are possible, more are not"

    settled.cluster.kubectl("delete", "resourcequota", "few-pods")
    settled.until("short", 9, 120)
    wait_until(lambda: available(settled, "short")[0] == "Available", 60, "no pod is refused any more")
    settled.assert_alive()


def test_pods_that_kueue_holds_back_are_waited_for(settled: Stage) -> None:
    declared(settled, "queued", 3, schedulingGates=[{"name": KUEUE}])
    assert until_named(settled, "queued", "PodsGated") == (
        f"3 pods wait until their scheduling gates are taken away: {KUEUE}"
    )
    before = len(settled.proxy.log)
    settled.ticks(5)
    assert settled.scale_writes("queued", before) == []

    for pod in pods(settled, "queued"):
        change = json.dumps([{"op": "remove", "path": "/spec/schedulingGates"}])
        settled.cluster.kubectl("patch", "pod", pod["metadata"]["name"], "--type=json", "-p", change)
    until_named(settled, "queued", "Available")
    assert settled.replicas("queued") == 3


def test_pods_of_a_higher_priority_class_are_named_and_their_places_not_asked_for_again(settled: Stage) -> None:
    priority = {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000,
    }  # fmt: skip
    declared(settled, "displaced", SERVERS, gpus=SERVER_GPUS)
    wait_until(lambda: settled.status("displaced").get("readyReplicas") == SERVERS, 60, "every server taken")
    container = {"name": "job", "image": "job:1", "resources": {"limits": {"nvidia.com/gpu": SERVER_GPUS}}}
    urgent = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent", "namespace": "default"},
        "spec": {"priorityClassName": "urgent", "containers": [container]},
    }  # fmt: skip
    create(settled.cluster, priority)
    create(settled.cluster, urgent)
    message = until_named(settled, "displaced", "PodsPreempted")
    assert message.startswith("1 pods cannot be scheduled, since pods of a higher PriorityClass took the places of 1: ")
    assert "Insufficient nvidia.com/gpu" in message
    before = len(settled.proxy.log)
    settled.ticks(5)
    assert settled.scale_writes("displaced", before) == []

    settled.cluster.kubectl("delete", "pod", "urgent")
    until_named(settled, "displaced", "Available")
    assert settled.replicas("displaced") == SERVERS


def test_devices_that_no_driver_has_are_named(settled: Stage) -> None:
    exactly = {"deviceClassName": "gpu.example.com"}
    claim = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "no-device", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }  # fmt: skip
    device_class = {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.example.com"}, "spec": {},
    }  # fmt: skip
    create(settled.cluster, device_class, claim)
    declared(settled, "claiming", 1, resourceClaims=[{"name": "gpu", "resourceClaimName": "no-device"}])
    message = until_named(settled, "claiming", "ClaimsUnallocated")

    assert message.startswith("the ResourceClaims of 1 pods are not allocated: ")
    settled.ticks(3)
    assert settled.replicas("claiming") == 1


def test_a_drain_goes_at_the_pace_of_a_disruption_budget_and_changes_no_replicas(settled: Stage) -> None:
    declared(settled, "drained", 3, terminationGracePeriodSeconds=0)
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "drained", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "drained"}}},
    }  # fmt: skip
    create(settled.cluster, budget)
    wait_until(lambda: settled.status("drained").get("readyReplicas") == 3, 60, "three replicas ready")
    wait_until(
        lambda: get(settled.cluster, "pdb", "drained").get("status", {}).get("disruptionsAllowed") == 1, 30, "a budget"
    )
    before, first = len(settled.proxy.log), {pod["metadata"]["uid"] for pod in pods(settled, "drained")}
    for node in sorted({pod["spec"]["nodeName"] for pod in pods(settled, "drained")}):
        settled.cluster.kubectl("drain", node, "--ignore-daemonsets", "--force", "--timeout=60s")
        settled.cluster.kubectl("uncordon", node)
    wait_until(lambda: settled.status("drained").get("readyReplicas") == 3, 60, "three others ready")
    settled.ticks(3)

    assert not first & {pod["metadata"]["uid"] for pod in pods(settled, "drained")}
    assert settled.scale_writes("drained", before) == []
    assert available(settled, "drained")[0] == "Available"


def test_gitops_that_resets_the_replicas_is_named_and_left_alone(settled: Stage) -> None:
    declared(settled, "reset", 2)
    settled.change("reset", minReplicas=4)
    settled.until("reset", 4)
    arguments = ("apply", "--server-side", "--field-manager=argocd-controller", "--force-conflicts", "-f", "-")
    for to in (2, 3):
        # NB: a reset that comes before the operator saw its own write looks like a watch that is late.
        settled.ticks(2)
        settled.cluster.kubectl(*arguments, stdin=json.dumps(workload(to, "reset")))
        if to == 2:
            settled.until("reset", 4)

    def conflict() -> bool:
        found = {each["type"]: each for each in settled.status("reset").get("conditions", ())}
        return found["ScalingActive"]["reason"] == "Conflict"

    wait_until(conflict, 30, "a conflict")
    message = next(each for each in settled.status("reset")["conditions"] if each["type"] == "ScalingActive")["message"]
    assert "another writer (argocd-controller) keeps changing the replicas" in message
    before = len(settled.proxy.log)
    settled.ticks(3)
    assert (settled.replicas("reset"), settled.scale_writes("reset", before)) == (3, [])
    settled.assert_alive()
