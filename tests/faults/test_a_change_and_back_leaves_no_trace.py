"""On a real API server, whatever resources are changed to and back: a fresh process agrees with the one that ran on.

Both what it is at first and what it becomes are drawn from the schema of the custom resource, as in tests/operator/run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kubernetes import client

from tests.faults.stage import Stage
from tests.operator.run.process import create, get, nim
from tests.operator.run.test_a_change_and_back_leaves_no_trace import (
    CHANGES,
    CHANGES_OF_RUNTIME,
    SCHEMA,
    Changes,
    changed,
    changes_of,
    leaves,
    values,
)
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

EVERY = pytest.mark.every_fault
TOGETHER = 6
"""Resources that are changed at once, each to something else."""
RENDERED = 2
"""So many of them are rendered, and their `runtime` is changed."""
OF_TIMES = {
    "lastTransitionTime", "time", "lastScaleTime", "metricsLostTime", "timeToReadyP50Seconds", "timeToReadyP90Seconds",
    "nextStartSeconds",
}  # fmt: skip
"""Fields that hold a time, or how long something took as one process or another measured it."""
SIZED = re.compile(r"^firsttoken_sizings_waiting 0(\.0)?$", re.MULTILINE)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
BOUNDED = {
    ("scaling", "minReplicas"): st.integers(0, 3), ("scaling", "maxReplicas"): st.integers(3, 6),
    ("scaling", "metricsLossGraceSeconds"): st.just(86400),
    ("hardware", "tensorParallel"): st.integers(1, 2), ("hardware", "pipelineParallel"): st.just(1),
    ("hardware", "gpus"): st.sampled_from([["H100-SXM-80GB"], ["A100-SXM-80GB"]]),
    ("model", "name"): st.sampled_from(["meta-llama/Llama-3.1-8B", "meta-llama/Meta-Llama-3-8B-Instruct"]),
}  # fmt: skip
"""Values of what is in force for long: models and GPUs are known, pods find nodes, no grace ends between two looks."""
OF_MODEL = ("model", "architecture")
"""Most of the schema's fields: its models' `config.json`, of which few are changed at once."""
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


def refusal(stage: Stage, name: str, spec: dict[str, Any], **options: str) -> str:
    """Set the whole spec; what the API server has against it."""
    patch = [{"op": "replace", "path": "/spec", "value": spec}]
    path = ("firsttoken.dev", "v1alpha1", "default", "inferencedeployments", name)
    try:
        client.CustomObjectsApi(stage.cluster.client).patch_namespaced_custom_object(
            *path, patch, _content_type="application/json-patch+json", **options
        )
    except client.ApiException as error:
        if error.status != HTTPStatus.UNPROCESSABLE_ENTITY:
            raise
        return str(error.body)
    return ""


def accepted(stage: Stage, resource: dict[str, Any], changes: Changes) -> Changes:
    """As many of these changes as the API server takes together."""
    name = resource["metadata"]["name"]
    if not refusal(stage, name, changed(resource, changes)["spec"], dry_run="All"):
        return changes
    if len(changes) == 1:
        return {}
    paths = sorted(changes)
    one, other = ({path: changes[path] for path in half} for half in (paths[::2], paths[1::2]))
    first = accepted(stage, resource, one)
    return first | accepted(stage, changed(resource, first), other)


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
        stage.cluster.kubectl("rollout", "status", f"deployment/{name}", "--timeout=140s", timeout_seconds=150.0)
    stage.ticks(4)
    # NB: what was refused says nothing of a new answer that is on its way, as where another configuration was pinned.
    wait_until(lambda: SIZED.search(stage.process.get("metrics")[1]), 90, "an answer to every question")
    stage.ticks(2)


def told(status: dict[str, Any]) -> dict[str, str]:
    """Its conditions: type -> status."""
    return {condition["type"]: condition["status"] for condition in status.get("conditions", ())}


def shown(stage: Stage, name: str) -> dict[str, Any]:
    """Show what is decided of it, and what is said."""
    lines = [line for line in stage.process.get("metrics")[1].splitlines() if f'name="{name}"' in line]
    decided = [line for line in lines if line.startswith(("firsttoken_desired_replicas", "firsttoken_sized_replicas"))]
    target, status = get(stage.cluster, "deployment", name)["spec"], timeless(stage.status(name))
    return {"target": target, "decided": sorted(decided), "status": status}


def whole() -> st.SearchStrategy[Changes]:
    """Any of the fields, all of them at most."""
    fields = leaves(SCHEMA)
    of_model = {path: schema for path, schema in fields.items() if path[:2] == OF_MODEL}
    every = {path: BOUNDED.get(path, values(schema)) for path, schema in fields.items() if path not in of_model}
    few = st.one_of(st.just({}), changes_of(of_model))
    return st.tuples(st.fixed_dictionaries({}, optional=every), few).map(lambda drawn: drawn[0] | drawn[1])


def different_ones(changes: st.SearchStrategy[Changes], number: int) -> st.SearchStrategy[list[Changes]]:
    return st.lists(changes, min_size=number, max_size=number, unique_by=lambda drawn: repr(sorted(drawn)))


@pytest.mark.parametrize("most", [2, pytest.param(8, marks=EVERY)])
def test_a_fresh_process_says_and_wants_the_same_as_the_one_that_ran_on(stage: Stage, most: int) -> None:
    fields: list[Changes] = []
    taken, rounds, sized = [], 0, []

    # NB: the first that is drawn has the simplest changes, and a failure is not made smaller: a round takes a minute.
    @settings(
        max_examples=most, phases=[Phase.generate], database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(
        different_ones(whole(), TOGETHER), different_ones(st.one_of(CHANGES, whole()), TOGETHER - RENDERED),
        different_ones(CHANGES_OF_RUNTIME, RENDERED),
    )  # fmt: skip
    def play(firsts: list[Changes], of_any: list[Changes], of_rendered: list[Changes]) -> None:
        nonlocal rounds
        rounds += 1
        stage.settle()
        drawn = [*of_any, *of_rendered]
        names = [f"back-{most}-{rounds}-{number}" for number in range(TOGETHER)]
        for name in names[: len(of_any)]:
            stage.declare(name, 2)
        for name in names[len(of_any) :]:
            declare_rendered(stage, name)
        for name, first in zip(names, firsts, strict=True):
            resource = stage.resource(name)
            fields.append(accepted(stage, resource, first))
            assert not refusal(stage, name, changed(resource, fields[-1])["spec"])
        stage.ticks(3)
        before = {name: stage.resource(name) for name in names}
        for name, changes in zip(names, drawn, strict=True):
            possible = accepted(stage, before[name], changes)
            taken.append(bool(possible))
            assert not refusal(stage, name, changed(before[name], possible)["spec"])
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

        sized.extend(told(ended[name]["status"]).get("SizingReady") == "True" for name in names)
        for name, first, changes in zip(names, fields[-TOGETHER:], drawn, strict=True):
            assert list(different(ended[name], began[name])) == [], (first, changes)

    play()
    print(f"{sum(taken)} of {len(taken)} changes were taken in {rounds} rounds, at first "
          f"{sum(map(len, fields)) / len(fields):.1f} fields were drawn, {sum(sized)} have a size")  # fmt: skip
    assert sum(taken) > len(taken) / 4, "changes that the API server refuses prove nothing"
    assert sum(map(len, fields)) > 4 * len(fields), "what is as always proves little"


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
