"""An API server that is gone, refuses all, is silent or behind: nothing is written on what it once said.

Afterwards everything goes on, in the same process or in the one that a kubelet starts in its place.
"""

from __future__ import annotations

import time

import pytest

from firsttoken_operator.run.kopf_watches import LONGEST_QUIET_SECONDS
from tests.faults.actions import Drip, HalfOpen, Hang, Reset, Snapshot, WatchEvents, dropped, refused
from tests.faults.proxy import Action
from tests.faults.stage import Stage
from tests.helm.chart import CRDS
from tools.cluster import wait_until

pytestmark = pytest.mark.cluster

EVERY = pytest.mark.every_fault
RESOURCES, PODS = "/inferencedeployments$", "/pods$"
DETECTED_SECONDS = 75.0
"""Time after which a watch that is half open is given up, at most."""
RESUMED_SECONDS = 15.0
"""Time after which a size is written that was wanted while the server was away: a tick of production."""


@pytest.fixture(scope="module", autouse=True)
def resources(stage: Stage) -> None:
    stage.declare("kept", 3)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("action", "seconds", "restarts"),
    [
        pytest.param(Reset(), 10, 0, id="gone"),
        pytest.param(Reset(), 120, 0, id="gone for two minutes", marks=EVERY),
        pytest.param(Reset(), 600, 0, id="gone for ten minutes", marks=EVERY),
        pytest.param(Drip(5), 30, 1, id="drips", marks=EVERY),
        pytest.param(refused(503, "starting"), 90, 1, id="starting for longer than kopf waits", marks=EVERY),
        pytest.param(refused(403, "forbidden"), 60, 1, id="rights taken away", marks=EVERY),
        pytest.param(refused(401, "Unauthorized"), 30, 1, id="token not accepted", marks=EVERY),
    ],
)
def test_an_outage_lowers_nothing_and_is_made_good(stage: Stage, action: Action, seconds: float, restarts: int) -> None:
    stage.settle()
    wanted, before = stage.replicas("kept") + 1, len(stage.proxy.log)
    with stage.proxy.injecting(action):
        stage.proxy.cut_watches()
        stage.change("kept", minReplicas=wanted)
        time.sleep(seconds)
        assert stage.replicas("kept") == wanted - 1
    back = time.monotonic()
    stage.until("kept", wanted, 90)
    ended = len(stage.ended)
    stage.assert_alive(restarts)
    stage.settle()

    (write,) = stage.scale_writes("kept", before)
    print(f"{ended} restarts, written {write.began_seconds - back:.1f} s after it was back")
    assert restarts or write.began_seconds - back <= RESUMED_SECONDS
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
@pytest.mark.parametrize("action", [Hang(), HalfOpen()], ids=["never answered", "half open"])
def test_a_watch_that_is_silent_without_an_end_is_given_up(stage: Stage, action: Action) -> None:
    """One of kopf's and one of a reflector."""
    stage.settle()
    wanted = stage.replicas("kept") + 1
    silent = {"method": "GET", "watch": True, "times": 1}
    with (
        stage.proxy.injecting(action, path=RESOURCES, **silent) as of_kopf,
        stage.proxy.injecting(action, path=PODS, **silent) as of_reflector,
    ):
        for path, fault in ((RESOURCES, of_kopf), (PODS, of_reflector)):
            stage.proxy.cut_watches(path)
            wait_until(lambda fault=fault: fault.entries, 30, f"a silent watch of {path}")
        stage.change("kept", minReplicas=wanted)
        stage.until("kept", wanted, 2 * DETECTED_SECONDS)
        wait_until(lambda: stage.status("kept")["readyReplicas"] == wanted, 2 * DETECTED_SECONDS, "its pods seen")

    silences = [entry.ended_seconds - entry.began_seconds for entry in (*of_kopf.entries, *of_reflector.entries)]
    assert all(0.8 * DETECTED_SECONDS < seconds <= DETECTED_SECONDS for seconds in silences), silences
    stage.assert_alive()


@EVERY
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", [RESOURCES, PODS], ids=["of kopf's", "of a reflector"])
def test_a_watch_that_is_refused_without_end_ends_the_process(stage: Stage, path: str) -> None:
    """While everything else is answered: else it would decide on what is long past."""
    stage.settle()
    with stage.proxy.injecting(refused(503, "starting"), method="GET", path=path, watch=True):
        stage.proxy.cut_watches(path)
        wait_until(lambda: stage.ended, 1.25 * LONGEST_QUIET_SECONDS, "the process ended")
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
    wait_until(lambda: stage.process.get("readyz")[0] == 200, 90, "operator ready")
    assert len(stage.ended) <= 1, "no loop of crashes"
    stage.settle()
    stage.declare("later", 2)
    assert stage.replicas("kept") == size
