"""An API server that is gone, refuses all, is silent or behind: nothing is written on what it once said.

Afterwards everything goes on, in the same process or in the one that a kubelet starts in its place.
"""

from __future__ import annotations

import time

import pytest

from tests.faults.actions import Drip, Hang, Reset, Snapshot, WatchEvents, dropped, refused
from tests.faults.proxy import Action
from tests.faults.stage import Stage
from tests.helm.chart import CRDS
from tools.cluster import wait_until

pytestmark = pytest.mark.cluster

EVERY = pytest.mark.every_fault
RESOURCES = "/inferencedeployments$"


@pytest.fixture(scope="module", autouse=True)
def resources(stage: Stage) -> None:
    stage.declare("kept", 3)


@pytest.mark.parametrize(
    ("action", "seconds", "survives"),
    [
        pytest.param(Reset(), 10, True, id="gone"),
        pytest.param(Reset(), 120, False, id="gone for two minutes", marks=EVERY),
        pytest.param(Drip(5), 30, False, id="drips", marks=EVERY),
        pytest.param(refused(503, "starting"), 90, False, id="starting for longer than kopf waits", marks=EVERY),
        pytest.param(refused(403, "forbidden"), 60, False, id="rights taken away", marks=EVERY),
        pytest.param(refused(401, "Unauthorized"), 30, False, id="token not accepted", marks=EVERY),
    ],
)
def test_an_outage_lowers_nothing_and_is_made_good(
    stage: Stage, action: Action, seconds: float, survives: bool
) -> None:
    stage.settle()
    wanted, before = stage.replicas("kept") + 1, len(stage.proxy.log)
    with stage.proxy.injecting(action):
        stage.proxy.cut_watches()
        stage.change("kept", minReplicas=wanted)
        time.sleep(seconds)
        assert stage.replicas("kept") == wanted - 1
    stage.until("kept", wanted, 90)
    if survives:
        stage.assert_alive()
    stage.settle()

    assert len(stage.scale_writes("kept", before)) == 1
    assert stage.replicas("kept") == wanted


def test_a_list_from_the_past_writes_nothing_that_the_present_forbids(stage: Stage) -> None:
    """After a restart the resource comes from a replica of the API server that is behind, and no event comes."""
    stage.settle()
    size = stage.replicas("kept")
    behind = Snapshot()
    with stage.proxy.injecting(behind, method="GET", path=RESOURCES, watch=False):
        killed = stage.process
        killed.kill()
        wait_until(lambda: stage.process is not killed, 20, "started again")
        stage.settle()
        stage.change("kept", mode="Paused")
        stage.cluster.kubectl("scale", "deployment/kept", "--replicas=1")
        with stage.proxy.injecting(WatchEvents(dropped), method="GET", path=RESOURCES, watch=True):
            killed, before = stage.process, len(stage.proxy.log)
            killed.kill()
            wait_until(lambda: stage.process is not killed, 20, "started again")
            stage.settle()
            stage.ticks(5)

            assert not stage.scale_writes("kept", before)
            assert stage.replicas("kept") == 1
            stage.assert_forbidden("kept")
    stage.proxy.cut_watches()
    stage.change("kept", mode="Active")
    stage.until("kept", size, 60)


@EVERY
def test_a_watch_that_is_silent_without_an_end_is_given_up(stage: Stage) -> None:
    stage.settle()
    wanted = stage.replicas("kept") + 1
    with stage.proxy.injecting(Hang(), method="GET", path=RESOURCES, watch=True, times=1):
        stage.proxy.cut_watches(RESOURCES)
        stage.ticks(2)
        stage.change("kept", minReplicas=wanted)
        stage.until("kept", wanted, 150)
    stage.settle()


@EVERY
def test_definitions_that_are_removed_and_come_back_leave_the_deployments_alone(stage: Stage) -> None:
    stage.settle()
    size, before = stage.replicas("kept"), len(stage.proxy.log)
    stage.cluster.kubectl("delete", "crd", "inferencedeployments.firsttoken.dev", "--wait=true")
    time.sleep(10)

    assert stage.replicas("kept") == size
    assert not stage.scale_writes("kept", before)
    stage.cluster.kubectl("apply", "--server-side", "-f", CRDS)
    stage.cluster.wait_until_established()
    stage.settle()
    stage.declare("later", 2)
    assert stage.replicas("kept") == size
