"""Scale writes that are refused, lost, late or applied without an answer: made once, and no other resource waits."""

from __future__ import annotations

import json

import pytest

from tests.faults.actions import Answer, Delay, Reset, refused
from tests.faults.proxy import Action
from tests.faults.stage import Stage

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
