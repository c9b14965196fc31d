"""On a real API server, whatever resources are changed to and back: a fresh process agrees with the one that ran on.

The changes are made from the schema of the custom resource, as those of tests/operator/run are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.faults.stage import Stage
from tests.operator.run.process import create, get, nim
from tests.operator.run.test_a_change_and_back_leaves_no_trace import (
    CHANGES,
    CHANGES_OF_RUNTIME,
    SCHEMA,
    Changes,
    changed,
)
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

EVERY = pytest.mark.every_fault
TOGETHER = 6
"""Resources that are changed at once, each to something else."""
RENDERED = 2
"""So many of them are rendered, and their `runtime` is changed."""
OF_TIMES = {"lastTransitionTime", "time", "lastScaleTime", "metricsLostTime", "timeToReadyP50Seconds"}
"""Fields that hold a time, or how long something took as one process or another measured it."""
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
OTHER_TARGETS = {"apiVersion": "apps/v2", "kind": "StatefulSet", "name": "other"}


def timeless(value: Any) -> Any:
    """The value without times, those in its texts neither."""
    if isinstance(value, dict):
        return {name: timeless(inner) for name, inner in value.items() if name not in OF_TIMES}
    if isinstance(value, str):
        return TIME.sub("TIME", value)
    return [timeless(inner) for inner in value] if isinstance(value, list) else value


def different(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Find where the two differ, and what is there."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            yield from different(one.get(name), other.get(name), f"{path}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from different(a, b, f"{path}[{number}]")
    elif one != other:
        yield path, one, other


def refusal(stage: Stage, name: str, spec: dict[str, Any]) -> str:
    """Set the whole spec; what the API server has against it."""
    patch = json.dumps([{"op": "replace", "path": "/spec", "value": spec}])
    done = stage.cluster.kubectl("patch", "infd", name, "--type=json", "-p", patch, check=False)
    assert not done.returncode or done.stderr
    return done.stderr if done.returncode else ""


def declare_rendered(stage: Stage, name: str) -> None:
    """A resource of which the target is rendered."""
    create(stage.cluster, nim(name, minReplicas=2))
    there = ("get", "deployment", name, "--ignore-not-found", "-o", "name")
    wait_until(lambda: stage.cluster.kubectl(*there).stdout, 60, f"{name} rendered")
    stage.until(name, 2)


def answered(stage: Stage, names: list[str]) -> None:
    """Wait until the status of each is about its newest spec, and nothing more is about to change."""

    def is_answered(name: str) -> bool:
        resource = stage.resource(name)
        reasons = {c["type"]: c["reason"] for c in resource.get("status", {}).get("conditions", ())}
        # NB: what cannot be sized has no answer to its generation where nothing was ever sized; it says so at once.
        is_newest = resource["status"].get("observedGeneration") == resource["metadata"]["generation"]
        return is_newest and reasons.get("SizingReady") != "Resizing"

    for name in names:
        wait_until(lambda name=name: is_answered(name), 90, f"an answer to {name}")
        stage.cluster.kubectl("rollout", "status", f"deployment/{name}", "--timeout=50s")
    stage.ticks(4)


def shown(stage: Stage, name: str) -> dict[str, Any]:
    """Show what is decided of it, and what is said."""
    lines = [line for line in stage.process.get("metrics")[1].splitlines() if f'name="{name}"' in line]
    decided = [line for line in lines if line.startswith(("firsttoken_desired_replicas", "firsttoken_sized_replicas"))]
    target, status = get(stage.cluster, "deployment", name)["spec"], timeless(stage.status(name))
    return {"target": target, "decided": sorted(decided), "status": status}


def different_ones(changes: st.SearchStrategy[Changes], number: int) -> st.SearchStrategy[list[Changes]]:
    return st.lists(changes, min_size=number, max_size=number, unique_by=lambda drawn: repr(sorted(drawn)))


@pytest.mark.parametrize("most", [2, pytest.param(8, marks=EVERY)])
def test_a_fresh_process_says_and_wants_the_same_as_the_one_that_ran_on(stage: Stage, most: int) -> None:
    taken, rounds = [], []

    # NB: the first that is drawn has the simplest changes, and a failure is not made smaller: a round takes a minute.
    @settings(
        max_examples=most, phases=[Phase.generate], database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(different_ones(CHANGES, TOGETHER - RENDERED), different_ones(CHANGES_OF_RUNTIME, RENDERED))
    def play(of_any: list[Changes], of_rendered: list[Changes]) -> None:
        stage.settle()
        drawn = [*of_any, *of_rendered]
        names = [f"back-{most}-{len(rounds)}-{number}" for number in range(TOGETHER)]
        rounds.append(drawn)
        for name in names[: len(of_any)]:
            stage.declare(name, 2)
        for name in names[len(of_any) :]:
            declare_rendered(stage, name)
        before = {name: stage.resource(name) for name in names}
        for name, changes in zip(names, drawn, strict=True):
            taken.append(not refusal(stage, name, changed(before[name], changes)["spec"]))
        stage.ticks(3)
        for name in names:
            assert not refusal(stage, name, before[name]["spec"])
        answered(stage, names)
        ended = {name: shown(stage, name) for name in names}
        stage.process.kill()
        stage.settle()
        stage.ticks(4)
        began = {name: shown(stage, name) for name in names}
        for name in names:
            stage.cluster.kubectl("delete", "infd,deployment", name, "--ignore-not-found")

        for name, changes in zip(names, drawn, strict=True):
            assert list(different(ended[name], began[name])) == [], changes

    play()
    print(f"{sum(taken)} of {len(taken)} changes were taken in {len(rounds)} rounds")
    assert sum(taken) > len(taken) / 4, "changes that the API server refuses prove nothing"


def test_what_is_scaled_cannot_be_changed(stage: Stage) -> None:
    """Immutability of a target: it is why no change of `targetRef` is among those above."""
    assert OTHER_TARGETS.keys() == SCHEMA["properties"]["targetRef"]["properties"].keys()
    stage.declare("kept", 2)
    declare_rendered(stage, "made")
    kept, made = (stage.resource(name)["spec"] for name in ("kept", "made"))
    for field, value in OTHER_TARGETS.items():
        said = refusal(stage, "kept", kept | {"targetRef": kept["targetRef"] | {field: value}})
        assert "targetRef is immutable" in said
    for name, spec, other in (("kept", kept, made), ("made", made, kept)):
        exchanged = {field: spec[field] for field in spec if field not in ("targetRef", "runtime")}
        exchanged |= {field: other[field] for field in ("targetRef", "runtime") if field in other}
        assert "runtime and targetRef cannot be exchanged" in refusal(stage, name, exchanged)
    stage.cluster.kubectl("delete", "infd", "kept", "made")
