"""The switch, pulled while the operator runs, while the API server fails, and across a restart: no write passes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.actions import WatchEvents, dropped, refused
from tests.faults.stage import Stage, staged
from tests.helm.chart import NAMESPACE
from tools.cluster import wait_until

pytestmark = pytest.mark.cluster

EVERY = pytest.mark.every_fault
SWITCH = "firsttoken-writes"


@pytest.fixture(scope="module")
def stage(control_plane: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("switch")
    config = folder / "config.yaml"
    config.write_text(f"writesSwitch: {NAMESPACE}/{SWITCH}\n")
    with staged(folder, "--config", str(config)) as made:
        made.declare("held", 2)
        yield made


@pytest.fixture(autouse=True)
def switched_off_again(stage: Stage) -> Iterator[None]:
    stage.settle()
    yield
    stage.cluster.kubectl("delete", "configmap", SWITCH, "-n", NAMESPACE, "--ignore-not-found")


def stop(stage: Stage, said: str = "paused") -> int:
    """Pull the switch; the number of the last request that may still be a write."""
    stage.cluster.kubectl("create", "configmap", SWITCH, "-n", NAMESPACE, f"--from-literal=writes={said}")
    stage.ticks(1)
    return len(stage.proxy.log)


def go_on(stage: Stage) -> None:
    stage.cluster.kubectl("delete", "configmap", SWITCH, "-n", NAMESPACE)


def writes(stage: Stage, since: int) -> list[str]:
    return [f"{entry.method} {entry.path}" for entry in stage.proxy.since(since) if entry.is_write]


def test_nothing_is_written_within_a_tick_and_all_is_made_up_for_afterwards(stage: Stage) -> None:
    wanted = stage.replicas("held") + 1
    last = stop(stage)
    stage.change("held", minReplicas=wanted)
    stage.ticks(5)

    assert writes(stage, last) == []
    assert stage.replicas("held") == wanted - 1
    page = stage.process.get("metrics")[1]
    assert "firsttoken_writes_paused 1.0" in page
    assert f'firsttoken_desired_replicas{{name="held",namespace="default"}} {wanted}.0' in page
    assert "WritesPaused" in {entry.get("withheld") for entry in stage.process.entries()}
    go_on(stage)
    stage.until("held", wanted)
    wait_until(lambda: "firsttoken_writes_paused 0.0" in stage.process.get("metrics")[1], 10, "writes go on")
    stage.assert_alive()


@EVERY
def test_it_stops_writes_while_watches_are_deaf_and_the_switch_itself_cannot_be_read(stage: Stage) -> None:
    wanted = stage.replicas("held") + 1
    with stage.proxy.injecting(WatchEvents(dropped), method="GET", path="/deployments$", watch=True):
        assert stage.proxy.cut_watches("/deployments$") >= 1
        last = stop(stage)
        with stage.proxy.injecting(refused(503, "starting"), method="GET", path=f"/configmaps/{SWITCH}$"):
            stage.change("held", minReplicas=wanted)
            stage.ticks(5)
    stage.proxy.cut_watches("/deployments$")

    assert writes(stage, last) == []
    go_on(stage)
    stage.until("held", wanted)
    stage.assert_alive()


@pytest.mark.parametrize("said", ["paused", pytest.param("no idea", marks=EVERY)])
def test_a_new_process_writes_nothing_either(stage: Stage, said: str) -> None:
    wanted = stage.replicas("held") + 1
    last = stop(stage, said)
    killed = stage.process
    stage.change("held", minReplicas=wanted)
    killed.kill()
    wait_until(lambda: stage.process is not killed, 20, "started again")
    stage.settle()
    stage.ticks(3)

    assert writes(stage, last) == []
    go_on(stage)
    stage.until("held", wanted)


@EVERY
def test_writes_that_are_refused_again_and_again_stop_too(stage: Stage) -> None:
    wanted = stage.replicas("held") + 1
    with stage.proxy.injecting(refused(500, "failed calling webhook"), method="PATCH"):
        stage.change("held", minReplicas=wanted)
        stage.ticks(2)
        last = stop(stage)
        stage.ticks(4)

        assert writes(stage, last) == []
    go_on(stage)
    stage.until("held", wanted)
    stage.assert_alive()
