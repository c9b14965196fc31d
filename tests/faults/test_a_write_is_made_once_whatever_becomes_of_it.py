"""Scale writes that are refused, lost, late or applied without an answer: made once, and no other resource waits."""

from __future__ import annotations

import json
import threading
import time

import pytest
from kubernetes import client

from tests.faults.actions import Answer, Delay, Reset, refused
from tests.faults.proxy import Action
from tests.faults.stage import Stage
from tests.operator.run.process import get

pytestmark = pytest.mark.cluster

EVERY = pytest.mark.every_fault
FAULTS = [
    pytest.param(refused(409, "the object has been modified"), 3, id="conflict"),
    pytest.param(refused(429, "slow down", retry_after_seconds=1), 2, id="too many requests"),
    pytest.param(refused(403, "forbidden"), 3, id="forbidden", marks=EVERY),
    pytest.param(refused(422, "denied by a webhook"), 3, id="denied", marks=EVERY),
    pytest.param(refused(500, "failed calling webhook"), 3, id="server error", marks=EVERY),
    pytest.param(Answer(200, b"<html>log in</html>"), 2, id="a proxy's page", marks=EVERY),
    pytest.param(Reset(), 2, id="reset before", marks=EVERY),
    pytest.param(Reset(forwarding=True), 1, id="applied and reset"),
    pytest.param(Delay(3.0), 1, id="late", marks=EVERY),
]


@pytest.fixture(scope="module", autouse=True)
def resources(stage: Stage) -> None:
    stage.declare("hit", 2)
    stage.declare("other", 2)


@pytest.mark.parametrize(("action", "times"), FAULTS)
def test_a_scale_write_arrives_once(stage: Stage, action: Action, times: int) -> None:
    stage.settle()
    hit, other = stage.replicas("hit") + 1, stage.replicas("other") + 1
    before = len(stage.proxy.log)
    with stage.proxy.injecting(action, method="PATCH", path="/deployments/hit/scale$", times=times):
        stage.change("hit", minReplicas=hit)
        stage.change("other", minReplicas=other)
        stage.until("other", other)
        stage.until("hit", hit)
        stage.ticks(3)

    wanted = [json.loads(entry.body)["spec"]["replicas"] for entry in stage.scale_writes("hit", before)]
    assert wanted == [hit]
    assert (stage.replicas("hit"), stage.replicas("other")) == (hit, other)
    stage.assert_alive()
    assert stage.status("hit")["lastDecisionReason"] != "Conflict", "its own write is no other writer's"


@EVERY
def test_a_rival_that_writes_ten_times_a_second_is_not_overwritten(stage: Stage) -> None:
    """It changes the target each time between a read and a write, if the write is late."""
    stage.settle()
    hit, before, stop, written = stage.replicas("hit") + 1, len(stage.proxy.log), threading.Event(), 0
    api = client.AppsV1Api(stage.cluster.client)

    def rival() -> None:
        nonlocal written
        while not stop.wait(max(0.0, 0.1 - time.monotonic() % 0.1)):
            written += 1
            note = {"metadata": {"annotations": {"example.com/rival": str(written)}}}
            api.patch_namespaced_deployment("hit", "default", note)

    thread = threading.Thread(target=rival, name="rival", daemon=True)
    thread.start()
    try:
        stage.change("hit", minReplicas=hit)
        stage.until("hit", hit, 60)
        stage.ticks(3)
    finally:
        stop.set()
        thread.join(10)

    assert written > 20
    assert [json.loads(entry.body)["spec"]["replicas"] for entry in stage.scale_writes("hit", before)] == [hit]
    noted = get(stage.cluster, "deployment", "hit")["metadata"]["annotations"]["example.com/rival"]
    assert noted == str(written)
    assert stage.replicas("hit") == hit
    stage.assert_alive()
