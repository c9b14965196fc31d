"""Whatever a resource is changed to and back, the running operator and a fresh one say and want the same afterwards.

The changes are made from the schema of the custom resource: any of its fields, any value that its schema allows, and
now and then one that it does not.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from firsttoken_operator.act.kubernetes import ObjectRef
from firsttoken_operator.observe.store import Store
from tests.fixtures.hypothesis_scale import examples
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.observe.bodies import NAMESPACE, deployment, inference_deployment
from tests.operator.run.looped import looped
from tests.operator.run.sizings import settled

CRD = Path(__file__).parents[3] / "crds/firsttoken.dev_inferencedeployments.yaml"
REF = ObjectRef("firsttoken.dev/v1alpha1", "InferenceDeployment", NAMESPACE, "rag")
TARGET = ObjectRef("apps/v1", "Deployment", NAMESPACE, "nim")
SCHEMA = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
FIXED = {"targetRef", "runtime"}
"""Fields of which every resource has exactly one. What follows from them is no decision, and is shown on a real API
server (tests/faults): it lets no client change a target, and what `runtime` says is rendered."""
MOST = 3000
TEXTS = (
    "1", "0.5", "37", "250", "1500m", "gone", "default", "H100-SXM-80GB", "A100-SXM-80GB", "meta-llama/Llama-3.1-8B",
    "FP8", "InFlight", "/metrics", "NIM_LOG_LEVEL", "nvcr.io/nim/meta/llama3-8b-instruct:1.0.4",
)  # fmt: skip
Changes = dict[tuple[str, ...], Any]


def leaves(schema: dict[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], dict[str, Any]]:
    """Every field below a schema that holds a value."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for name, inner in schema.get("properties", {}).items():
        if not path and name in FIXED:
            continue
        if inner.get("type") == "object" and "properties" in inner:
            found |= leaves(inner, (*path, name))
        else:
            found[*path, name] = inner
    return found


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema allows, as far as its type, its bounds and its enumeration say it."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("type") == "integer":
        return st.integers(schema.get("minimum", 0), min(schema.get("maximum", MOST), MOST))
    if schema.get("type") == "boolean":
        return st.booleans()
    if schema.get("type") == "array":
        return st.lists(values(schema["items"]), min_size=schema.get("minItems", 0), max_size=2)
    if schema.get("type") == "object":
        inner = {name: values(each) for name, each in schema.get("properties", {}).items()}
        needed = {name: inner.pop(name) for name in schema.get("required", ())}
        return st.fixed_dictionaries(needed, optional=inner)
    allowed = [text for text in TEXTS if re.search(schema.get("pattern", ""), text)]
    return st.sampled_from([*allowed, "\u202e"])


def changes_of(fields: dict[tuple[str, ...], dict[str, Any]], most: int = 2) -> st.SearchStrategy[Changes]:
    """So many of these fields at most, with other values."""
    return st.lists(st.sampled_from(sorted(fields)), min_size=1, max_size=most, unique=True).flatmap(
        lambda paths: st.fixed_dictionaries({path: values(fields[path]) for path in paths})
    )


CHANGES = changes_of(leaves(SCHEMA))
WHOLE = st.one_of(CHANGES, changes_of(leaves(SCHEMA), most=len(leaves(SCHEMA))))
"""Any number of fields, up to all of them: where few are drawn, what is left is sound and is decided on."""
CHANGES_OF_RUNTIME = changes_of(leaves(SCHEMA["properties"]["runtime"], ("runtime",)))


def changed(resource: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """The resource with other values in these fields of its spec."""
    made = copy.deepcopy(resource)
    for path, value in changes.items():
        inner = made["spec"]
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = value
    return made


class Server:
    """Contents of the API server, and the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cluster = FakeCluster({TARGET: deployment("nim")})

    def apply(self, resource: dict[str, Any], generation: int) -> None:
        status = self.cluster.objects.get(REF, {}).get("status", {})
        metadata = resource["metadata"] | {"generation": generation, "resourceVersion": str(100 + generation)}
        self.cluster.objects[REF] = resource | {"metadata": metadata, "status": status}

    def show(self, store: Store) -> None:
        store.feed("InferenceDeployment", None, copy.deepcopy(self.cluster.objects[REF]))
        store.feed("Deployment", None, copy.deepcopy(self.cluster.objects[TARGET]))


async def ticked(server: Server, operator: Any, store: Store) -> tuple[Any, ...]:
    """Two ticks after what the watch shows now; what is then decided, and said on the resource."""
    loop, parts = operator
    for _ in range(2):
        server.show(store)
        await settled(parts.sizer, store)
        server.now += 15.0
        (decision,) = await loop.tick(server.now)
        await parts.writes.settle()
    status = server.cluster.objects[REF]["status"]
    said = {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}
    return decision.to_replicas, decision.reason, decision.limit, decision.outcome, said, status.get("sizing")


@pytest.mark.slow
@settings(max_examples=examples(12))
@given(first=WHOLE, changes=WHOLE)
@example(first={}, changes={("scaling", "mode"): "Paused"})
@example(first={}, changes={("scaling", "minReplicas"): 9})
@example(first={}, changes={("scaling", "maxReplicas"): 1})
@example(first={}, changes={("model", "name"): "\u202e"})
@example(first={}, changes={("hardware", "tensorParallel"): 2})
@example(first={}, changes={("capacity", "pool"): "gone"})
@example(first={("scaling", "mode"): "Paused"}, changes={("scaling", "mode"): "Active"})
@example(first={("model", "name"): "\u202e"}, changes={("model", "name"): "meta-llama/Llama-3.1-8B"})
async def test_a_change_and_back_is_decided_as_by_a_fresh_operator(first: Changes, changes: Changes) -> None:
    """Both what it is at first and what it becomes meanwhile are drawn."""
    server, store = Server(), Store()
    before = changed(inference_deployment("rag", scaling={"minReplicas": 2}), first)
    running = looped(server.cluster, store, clock=lambda: server.now)
    for generation, resource in enumerate((before, changed(before, changes), before), start=1):
        server.apply(resource, generation)
        ended = await ticked(server, running, store)
    fresh_store = Store()
    fresh = looped(server.cluster, fresh_store, clock=lambda: server.now)
    began = await ticked(server, fresh, fresh_store)
    for _, parts in (running, fresh):
        parts.sizer.close()
        parts.measuring.close()

    assert began == ended
