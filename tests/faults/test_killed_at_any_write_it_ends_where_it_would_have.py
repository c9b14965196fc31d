"""Killed at every write of a scripted life, before and after the server had it: the same writes, the same end.

The life: created, raised at once, raised again, its maximum lowered, its traffic declared anew, deleted. What is
compared are the replicas that the API server was asked for and took, where the Deployment stands after each act, and
its spec and the status of the resource in the end. No two objects are written at once: of a change of replicas that was
made when it was killed the status has no entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.actions import Kill
from tests.faults.lawful import assert_lawful, sent, taken
from tests.faults.stage import LONG_GRACE, Stage, staged
from tests.faults.test_a_change_and_back_leaves_no_trace import answered, different, shown
from tests.operator.act.objects import infd, workload
from tests.operator.run.process import create

pytestmark = pytest.mark.cluster

EVERY = pytest.mark.every_fault
OF_THE_SCRIPT = "/{}(/|$)|/events$"
"""Paths of its writes: its own resource and target, and Events."""
ACTS: tuple[tuple[dict[str, Any], int], ...] = (
    ({"minReplicas": 4}, 4),
    ({"minReplicas": 6}, 6),
    ({"minReplicas": 2, "maxReplicas": 4}, 4),
)
"""Changes of the spec, and the replicas that follow."""
MOST = 6


@dataclass(frozen=True, slots=True)
class Life:
    """Replicas that were written, those after each act, and what was to be seen in the end."""

    written: tuple[int, ...]
    reached: tuple[int, ...]
    shown: dict[str, Any]
    """Target and status before it was deleted, without times, without its name and without its changes."""
    changes: tuple[dict[str, Any], ...]
    """Changes of replicas that its status tells of, newest first."""


@pytest.fixture(scope="module")
def stage(control_plane: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("crashes"), "--tick-seconds", "60", "--time-scale", "60") as made:
        yield made


def live(stage: Stage, name: str) -> Life:
    """Play the script with a resource of this name."""
    before, reached = len(stage.proxy.log), []
    create(
        stage.cluster, workload(1, name), infd(name, targetRef={"name": name}, scaling={"minReplicas": 2} | LONG_GRACE)
    )
    stage.until(name, 2, 90)
    for scaling, expected in ACTS:
        stage.change(name, **scaling)
        stage.until(name, expected, 90)
        reached.append(stage.replicas(name))
    change = json.dumps({"spec": {"traffic": {"peakRequestsPerSecond": "3"}}})
    stage.cluster.kubectl("patch", "infd", name, "--type=merge", "-p", change)
    answered(stage, [name])
    seen = json.loads(json.dumps(shown(stage, name)).replace(name, "NAME"))
    # A life with a kill takes longer, and this counts hours.
    seen["status"].pop("scorecard", None)
    changes = seen["status"].pop("decisions")
    stage.cluster.kubectl("delete", "infd", name)
    deleted = len(stage.proxy.log)
    stage.ticks(3)
    reached.append(stage.replicas(name))
    entries = stage.proxy.since(before)
    # NB: its pods would keep those of a later life from being ready.
    stage.cluster.kubectl("delete", "deployment", name, "--wait")
    assert_lawful(entries, name, least=2, most=MOST, deleted=deleted)
    written = tuple(sent(entry, "spec", "replicas") for entry in taken(entries, f"/deployments/{name}/scale"))
    return Life(written, tuple(reached), seen, tuple(changes))


@pytest.fixture(scope="module")
def undisturbed(stage: Stage) -> tuple[Life, int]:
    """The life without a crash, and its number of writes."""
    before = len(stage.proxy.log)
    life = live(stage, "calm")
    writes = [entry for entry in stage.proxy.since(before) if entry.is_write and "/leases/" not in entry.path]
    return life, len(writes)


def but_for_one(changes: tuple[dict[str, Any], ...]) -> list[tuple[dict[str, Any], ...]]:
    """All of them, or all but one."""
    return [changes, *(changes[:at] + changes[at + 1 :] for at in range(len(changes)))]


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

        assert (life.written, life.reached) == (calm.written, calm.reached), f"killed {when} write {number}"
        differences = list(different(life.shown, calm.shown))
        assert not differences, f"killed {when} write {number}: {differences}"
        assert life.changes in but_for_one(calm.changes), f"killed {when} write {number}"
        stage.settle()
