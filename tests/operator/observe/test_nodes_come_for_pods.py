"""Times that nodes take to come are learned of all deployments of a pool, and count where the next pod needs one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firsttoken_operator.domain import FleetSnapshot, Provisioning
from firsttoken_operator.observe.config import DEFAULT
from firsttoken_operator.observe.node_waits import NodeWait, NodeWaits
from firsttoken_operator.observe.nodes import project_node
from firsttoken_operator.observe.readiness import StartKind
from firsttoken_operator.observe.snapshot import build_snapshot
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.settings import Settings
from tests.operator.observe.bodies import EPOCH, at, deployment, inference_deployment, pool, replica_set
from tests.operator.observe.test_starts_are_told_apart import registered, started, store_of

FULL = [
    ("Pod", started(f"full-{i}", scheduled=-8000, ready=-7900, sandbox=None, begun=None, on="old")) for i in range(8)
]
"""Pods of another deployment on every GPU of the old node; no start of theirs is told apart."""


def burst(*others: tuple[str, Any]) -> Store:
    """The deployment nim waited 120 s for a node, whose pods were ready 40 s later; the deployment idle is new."""
    came = [
        ("Node", registered("new", 110, 115)),
        ("Pod", started("one", created=0, scheduled=120, sandbox=122, begun=123, ready=160, on="new")),
        ("Pod", started("two", created=0, scheduled=130, sandbox=132, begun=133, ready=170, on="new")),
    ]
    new = [
        ("Deployment", deployment("idle")), ("ReplicaSet", replica_set("idle-1", of="idle")),
        ("InferenceDeployment", inference_deployment("idle", target="idle", pool="h100")),
    ]  # fmt: skip
    return store_of(*came, *new, ("InferenceDeployment", inference_deployment(pool="h100")), *others)


def seen(store: Store) -> FleetSnapshot:
    """The second look: what the first one learned is known to all."""
    timing = Settings().timing
    for _ in range(2):
        found = build_snapshot(store, {}, {}, timing, now_seconds=0.0, wall_seconds=EPOCH + 300)
    return found


CLOUD = ("GPUPool", pool("h100", location="Cloud"))


def test_a_pool_knows_how_long_its_nodes_take() -> None:
    found = seen(burst(CLOUD)).pools["h100"]

    assert found.provisioning == Provisioning(120.0, 120.0, 120.0, 1)
    assert (found.is_provisioned, found.newest_node_seconds) == (True, 190.0)


def test_an_hour_behind_a_gate_is_no_time_of_a_node() -> None:
    late = [
        ("Node", registered("late", 3450, 3455)),
        ("Pod", started("gated", created=0, scheduled=3480, sandbox=3482, begun=3483, ready=3520, on="late")),
    ]

    assert seen(burst(CLOUD, *late)).pools["h100"].provisioning == seen(burst(CLOUD)).pools["h100"].provisioning


def came(*waits: tuple[str, str, float], pool: str = "h100") -> NodeWaits:
    """A history of nodes, each by name, with the namespace and the wait of a pod that it came for."""
    history = NodeWaits(SHORT)
    for name, namespace, seconds in waits:
        history.note((pool,), NodeWait(project_node(registered(name, 110, 115)), namespace, seconds))
    return history


SHORT = replace(DEFAULT.starts, kept_nodes=6, kept_nodes_of_namespace=4)


def test_one_namespace_displaces_no_other_ones_nodes() -> None:
    found = came(("a", "web", 120.0), *((f"b{i}", "lab", 800.0) for i in range(9)), ("c", "web", 130.0))

    assert sorted(wait.node.name for wait in found) == ["a", "b5", "b6", "b7", "b8", "c"]


def test_of_many_namespaces_the_one_with_most_gives_way() -> None:
    waits = [("a", "web", 120.0), *((f"b{i}", "lab", 800.0) for i in range(4)), ("c", "ops", 90.0), ("d", "art", 95.0)]

    assert sorted(wait.node.name for wait in came(*waits)) == ["a", "b1", "b2", "b3", "c", "d"]


def test_a_pool_that_grows_all_day_displaces_no_node_of_another() -> None:
    history = came(("a", "web", 120.0))
    for i in range(9):
        history.note(("a100",), NodeWait(project_node(registered(f"b{i}", 110, 115)), "web", 60.0))

    assert {wait.node.name for wait in history} == {"a", "b5", "b6", "b7", "b8"}


def test_of_the_pods_that_a_node_came_for_the_one_counts_that_waited_least() -> None:
    found = came(("a", "lab", 800.0), ("a", "web", 120.0), ("a", "lab", 700.0))

    assert [(wait.namespace, wait.seconds) for wait in found] == [("web", 120.0)]


def gated(name: str, **fields: Any) -> dict[str, Any]:
    """A pod that a gate still keeps from the scheduler."""
    body = started(name, scheduled=0, sandbox=None, begun=None, ready=0, on="")
    body["status"] = {}
    body["spec"] |= {"schedulingGates": [{"name": "example.com/quota"}]}
    body["metadata"] |= fields
    return body


@pytest.mark.parametrize("told", ["seen with its gate", "made by Kueue"])
def test_ten_minutes_behind_a_gate_are_no_time_of_a_node(told: str) -> None:
    late = started("gated", created=0, scheduled=620, sandbox=622, begun=623, ready=660, on="late")
    before = [("Pod", gated("gated"))] if told == "seen with its gate" else []
    if not before:
        late["metadata"]["labels"] = {"kueue.x-k8s.io/managed": "true"}
    store = burst(CLOUD, ("Node", registered("late", 590, 600)), *before, ("Pod", late))

    assert seen(store).pools["h100"].provisioning == seen(burst(CLOUD)).pools["h100"].provisioning
    starts = store.starts("uid-nim")
    assert starts is not None
    assert starts.by_kind[StartKind.COLD_NODE].p99_seconds == 170.0, "no horizon of its own, either"


def test_a_pool_that_is_declared_later_knows_the_nodes_that_came_before() -> None:
    store = burst()
    seen(store)
    store.feed("GPUPool", None, CLOUD[1])

    assert seen(store).pools["h100"].provisioning == Provisioning(120.0, 120.0, 120.0, 1)


def test_it_goes_on_knowing_when_nodes_and_deployments_are_gone() -> None:
    store = burst(CLOUD)
    seen(store)
    store.feed("Node", "DELETED", registered("new", 110, 115))
    store.feed("Deployment", "DELETED", deployment())
    found = seen(store).pools["h100"]

    assert found.provisioning is not None
    assert found.newest_node_seconds == 9300.0


def test_where_nodes_are_bought_nothing_is_learned() -> None:
    found = seen(burst(("GPUPool", pool("h100", location="OnPrem")))).pools["h100"]

    assert (found.provisioning, found.is_provisioned) == (None, False)


@pytest.mark.parametrize(
    ("others", "seconds"),
    [
        ((CLOUD,), 300.0),
        ((CLOUD, *FULL), 300.0),
        ((CLOUD, *FULL, ("Node", registered("new", 110, 115) | {"spec": {"unschedulable": True}})), 420.0),
    ],
    ids=["free GPUs on two nodes", "on one", "on none: 120 s for a node, 300 s for a start of which none was seen"],
)
def test_a_deployment_that_never_waited_for_a_node_looks_as_far_ahead_as_one_would_take(
    others: tuple[tuple[str, Any], ...], seconds: float
) -> None:
    found = {r.name: r.time_to_ready_seconds for r in seen(burst(*others)).resources}

    assert found["idle"] == seconds


def kept_warm(gpus: int, on: str, **fields: Any) -> tuple[str, Any]:
    body = started(f"warm-{on}", scheduled=-8000, ready=-7900, sandbox=None, begun=None, on=on)
    body["metadata"] |= {"ownerReferences": [], "namespace": "firsttoken-system"} | fields
    body["spec"] |= {"priorityClassName": "firsttoken-warm"}
    body["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return "Pod", body


def test_gpus_that_are_kept_warm_are_free_for_every_deployment_of_the_pool() -> None:
    warm = (kept_warm(8, "old"), ("Node", registered("new", 110, 115) | {"spec": {"unschedulable": True}}))
    found = seen(burst(("GPUPool", pool("h100", location="Cloud", warmGPUs=8, baseGPUs=16)), *warm))

    assert (found.pools["h100"].warm_gpus, found.pools["h100"].charged_elsewhere) == (8, {})
    idle = next(r for r in found.resources if r.name == "idle")
    assert idle.time_to_ready_seconds == 300.0, "the scheduler ends what holds them: no node has to come"


def test_warm_gpus_are_counted_where_they_are_declared_and_while_they_are_held() -> None:
    declared = ("GPUPool", pool("h100", location="Cloud", warmGPUs=8))
    ending = kept_warm(8, "old", deletionTimestamp=at(300))

    assert seen(burst(declared)).pools["h100"].warm_gpus == 0
    assert seen(burst(declared, ending)).pools["h100"].warm_gpus == 0
    assert seen(burst(CLOUD, kept_warm(8, "old"))).pools["h100"].warm_gpus is None


def test_no_quota_is_left_by_the_name_of_a_priority_class() -> None:
    tenants = [{"name": "lab", "namespaceSelector": {"matchLabels": {"team": "lab"}}, "quotaGPUs": 8}]
    shared = ("GPUPool", pool("h100", location="Cloud", warmGPUs=8, baseGPUs=16, tenants=tenants))
    lab = ("Namespace", {"metadata": {"name": "firsttoken-system", "uid": "n-1", "labels": {"team": "lab"}}})
    found = seen(burst(shared, lab, kept_warm(8, "old"))).pools["h100"]

    assert (found.warm_gpus, found.charged_elsewhere) == (0, {"firsttoken-system": 8})
