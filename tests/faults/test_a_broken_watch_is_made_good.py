"""Watches that end, err, repeat, reorder or lose events: what is decided is right again in seconds, or not written.

A watch of kopf's that the server ends with an error of its own ends the process (kopf gives up), and a kubelet starts
another: better than a loop on a frozen cache. One of a reflector is made good in the process.
"""

from __future__ import annotations

import pytest

from tests.faults.actions import (
    Interject,
    Reordered,
    Reset,
    Truncate,
    WatchError,
    WatchEvents,
    dropped,
    refused,
    repeated,
)
from tests.faults.proxy import Action, Fault
from tests.faults.stage import Stage
from tools.cluster import wait_until

pytestmark = pytest.mark.cluster

EVERY = pytest.mark.every_fault
RESOURCES = "/inferencedeployments$"
GONE, NO_JSON = refused(410, "too old resource version"), Interject(b"<html>")
ENDS_KOPF = (WatchError(410), WatchError(500), GONE, NO_JSON)
"""Faults that end a watch of kopf's, and the process with it."""
FAULTS = [
    pytest.param(WatchError(410), 2, id="compacted"),
    pytest.param(WatchError(500), 1, id="error event"),
    pytest.param(GONE, 1, id="compacted, as a status", marks=EVERY),
    pytest.param(NO_JSON, 1, id="lines that are no JSON"),
    pytest.param(Interject(b""), float("inf"), id="empty lines"),
    pytest.param(Reset(), 3, id="reset", marks=EVERY),
    pytest.param(Truncate(50), 3, id="cut off inside a line", marks=EVERY),
    pytest.param(refused(503, "starting"), 3, id="unavailable", marks=EVERY),
    pytest.param(refused(429, "slow down", retry_after_seconds=1), 2, id="too many requests", marks=EVERY),
    pytest.param(WatchEvents(repeated), float("inf"), id="repeated events"),
    pytest.param(WatchEvents(Reordered()), float("inf"), id="reordered events", marks=EVERY),
]


@pytest.fixture(scope="module", autouse=True)
def resources(stage: Stage) -> None:
    stage.declare("seen", 2)


def cut(stage: Stage, path: str) -> None:
    """Cut its watch, which is taken up again some seconds after the last fault."""
    wait_until(lambda: stage.proxy.cut_watches(path) >= 1, 30, f"the watch of {path} cut")


def is_there(fault: Fault) -> bool:
    """True where a watch had its fault, or is open to have it: the cut may have ended the first one before."""
    return any(entry.changed or entry.ended_seconds is None for entry in fault.entries)


@pytest.mark.parametrize(("action", "times"), FAULTS)
def test_a_change_is_seen_in_spite_of_it(stage: Stage, action: Action, times: float) -> None:
    stage.settle()
    wanted = stage.replicas("seen") + 1
    with stage.proxy.injecting(action, method="GET", path=RESOURCES, watch=True, times=times) as fault:
        cut(stage, RESOURCES)
        wait_until(lambda: is_there(fault), 30, "a watch that is met")
        stage.change("seen", minReplicas=wanted)
        if isinstance(action, WatchEvents):
            # What is held back to be out of order goes out with the next event.
            stage.change("seen", scaleDownStabilizationSeconds=300 + wanted)
        stage.until("seen", wanted, 60)
    stage.proxy.cut_watches(RESOURCES)
    stage.ticks(2)

    assert stage.replicas("seen") == wanted
    stage.assert_alive(restarts=int(action in ENDS_KOPF))


@pytest.mark.parametrize(("action", "times"), FAULTS)
def test_pods_are_followed_in_spite_of_it(stage: Stage, action: Action, times: float) -> None:
    stage.settle()
    wanted = stage.replicas("seen") + 1
    with stage.proxy.injecting(action, method="GET", path="/pods$", watch=True, times=times) as fault:
        cut(stage, "/pods$")
        # NB: where it is not, a list may tell of the pods before the watch does.
        wait_until(lambda: is_there(fault), 30, "a watch that is met")
        stage.change("seen", minReplicas=wanted)
        if isinstance(action, WatchEvents):
            # What is held back to be out of order goes out with the next event.
            stage.until("seen", wanted)
            stage.cluster.kubectl("rollout", "status", "deployment/seen", "--timeout=50s")
            stage.cluster.kubectl("annotate", "pods", "--all", f"example.com/ready={wanted}", "--overwrite")
        wait_until(lambda: stage.status("seen").get("readyReplicas") == wanted, 60, f"{wanted} ready replicas seen")
    stage.proxy.cut_watches("/pods$")
    stage.ticks(2)

    assert stage.status("seen")["readyReplicas"] == wanted
    stage.assert_alive()


def test_a_pause_that_was_lost_on_the_way_is_obeyed(stage: Stage) -> None:
    stage.settle()
    size = stage.replicas("seen")
    with stage.proxy.injecting(WatchEvents(dropped), method="GET", path=RESOURCES, watch=True):
        stage.proxy.cut_watches(RESOURCES)
        stage.ticks(2)
        stage.change("seen", mode="Paused")
        before = len(stage.proxy.log)
        # Below the minimum that the operator knows: it decides to write, and reads the resource before it does.
        stage.cluster.kubectl("scale", "deployment/seen", "--replicas=1")
        stage.ticks(6)

        assert not stage.scale_writes("seen", before)
        assert stage.replicas("seen") == 1
        stage.assert_forbidden("seen")
    stage.proxy.cut_watches(RESOURCES)
    stage.change("seen", mode="Active")
    stage.until("seen", size, 60)
    stage.assert_alive()
