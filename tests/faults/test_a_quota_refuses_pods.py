"""A ResourceQuota lets fewer pods be made than the load asks for: it is named, nothing is ordered again or lowered."""

from __future__ import annotations

import pytest

from tests.faults.stage import Stage
from tests.operator.run.process import create
from tools.cluster import wait_until

pytestmark = pytest.mark.cluster

QUOTA = {
    "apiVersion": "v1", "kind": "ResourceQuota",
    "metadata": {"name": "few-pods", "namespace": "default"}, "spec": {"hard": {"pods": "3"}},
}  # fmt: skip


def available(stage: Stage) -> tuple[str, str, str]:
    """Condition CapacityAvailable: status, reason and message."""
    found = {condition["type"]: condition for condition in stage.status("short").get("conditions", ())}
    condition = found.get("CapacityAvailable", {})
    return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")


def test_a_quota_is_named_and_no_more_pods_are_ordered_until_it_is_raised(stage: Stage) -> None:
    create(stage.cluster, QUOTA)
    stage.declare("short", 2)
    stage.change("short", minReplicas=5)
    stage.until("short", 5)
    wait_until(lambda: available(stage)[1] == "PodsRefused", 60, "a condition that tells of the quota")
    before = len(stage.proxy.log)
    stage.change("short", minReplicas=9)
    stage.ticks(5)
    status, _, message = available(stage)

    assert status == "False"
    assert message.startswith("2 pods are refused: ")
    assert "exceeded quota: few-pods" in message
    assert stage.replicas("short") == 5
    assert stage.scale_writes("short", before) == []

    stage.change("short", minReplicas=2, maxReplicas=4)
    # What was added is not taken back for a minute.
    stage.until("short", 4, 180)
    stage.change("short", minReplicas=9, maxReplicas=9)
    stage.ticks(3)
    assert stage.replicas("short") == 4, "fewer are possible, more are not"

    stage.cluster.kubectl("delete", "resourcequota", "few-pods")
    stage.until("short", 9, 120)
    wait_until(lambda: available(stage)[0] == "True", 60, "no pod is refused any more")
    stage.assert_alive()
