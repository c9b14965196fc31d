"""Killed at every write of a scripted life, before and after the server had it: the same writes, the same end.

The life: created, raised at once, raised again, its maximum lowered, its traffic declared anew, deleted. What is
compared are the replicas that the API server was asked for and took, and where the Deployment stands after each act.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.actions import Kill
from tests.faults.stage import Stage, staged
from tests.operator.act.objects import infd, workload
from tests.operator.run.process import create
from tools.cluster import wait_until

pytestmark = pytest.mark.cluster

EVERY = pytest.mark.every_fault
OF_THE_SCRIPT = "/{}(/|$)|/events$"
"""Paths of its writes: its own resource and target, and Events."""
ACTS: tuple[tuple[dict[str, Any], int], ...] = (
    ({"minReplicas": 4}, 4),
    ({"minReplicas": 6}, 6),
    ({"minReplicas": 1, "maxReplicas": 4}, 4),
)
"""Changes of the spec, and the replicas that follow."""


@dataclass(frozen=True, slots=True)
class Life:
    """Replicas that were written, and those after each act."""

    written: tuple[int, ...]
    reached: tuple[int, ...]


@pytest.fixture(scope="module")
def stage(control_plane: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("crashes"), "--tick-seconds", "60", "--time-scale", "60") as made:
        yield made


def live(stage: Stage, name: str) -> Life:
    """Play the script with a resource of this name."""
    before, reached = len(stage.proxy.log), []
    create(stage.cluster, workload(1, name), infd(name, targetRef={"name": name}, scaling={"minReplicas": 2}))
    stage.until(name, 2, 90)
    for scaling, expected in ACTS:
        stage.change(name, **scaling)
        stage.until(name, expected, 90)
        reached.append(stage.replicas(name))
    change = json.dumps({"spec": {"traffic": {"peakRequestsPerSecond": "3"}}})
    stage.cluster.kubectl("patch", "infd", name, "--type=merge", "-p", change)
    generation = json.loads(stage.cluster.kubectl("get", "infd", name, "-o", "json").stdout)["metadata"]["generation"]
    wait_until(lambda: stage.status(name).get("observedGeneration") == generation, 90, "the change was seen")
    stage.cluster.kubectl("delete", "infd", name)
    stage.ticks(3)
    reached.append(stage.replicas(name))
    written = tuple(json.loads(entry.body)["spec"]["replicas"] for entry in stage.scale_writes(name, before))
    return Life(written, tuple(reached))


@pytest.fixture(scope="module")
def undisturbed(stage: Stage) -> tuple[Life, int]:
    """The life without a crash, and its number of writes."""
    before = len(stage.proxy.log)
    life = live(stage, "calm")
    writes = [entry for entry in stage.proxy.since(before) if entry.is_write and "/leases/" not in entry.path]
    return life, len(writes)


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("forwarding", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("points", ["the first scale write", pytest.param("every write", marks=EVERY)])
def test_killed_at_any_write_it_ends_where_it_would_have(
    stage: Stage, undisturbed: tuple[Life, int], points: str, forwarding: bool
) -> None:
    calm, writes = undisturbed
    assert calm.written == (2, 4, 6, *calm.written[3:])
    assert calm.reached == (4, 6, 4, 4)
    when = "after" if forwarding else "before"
    for number in range(1 if points == "every write" else writes, writes + 1):
        name = f"crash-{when}-{points[:5].strip()}-{number}".replace(" ", "-")
        path = OF_THE_SCRIPT.format(name) if points == "every write" else f"/deployments/{name}/scale$"
        after = number - 1 if points == "every write" else 0
        kill = Kill(lambda: stage.process.kill(), forwarding=forwarding)
        stage.settle()
        with stage.proxy.injecting(kill, method="PATCH|POST|PUT", path=path, after=after, times=1):
            life = live(stage, name)

        assert life == calm, f"killed {when} write {number}"
        stage.settle()
