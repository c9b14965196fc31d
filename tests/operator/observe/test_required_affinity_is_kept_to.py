"""Node affinity of a template: it tells into which pools its pods may come, as the scheduler would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firsttoken_operator.act.pods import GPU_PRODUCT_LABEL, nodes_with
from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import DEPLOYMENT, Decision, Reason
from firsttoken_operator.domain.target_kinds import LEADER_WORKER_SET, STATEFUL_SET
from firsttoken_operator.observe.affinity import MOST_KEPT, affinity_of
from firsttoken_operator.observe.nodes import project_node
from firsttoken_operator.observe.store import Store
from tests.operator.act.test_a_rendered_pod_is_restricted import MINIMAL
from tests.operator.decide.builders import SIZED, metrics
from tests.operator.observe.bodies import NAMESPACE, Body, deployment, inference_deployment, node, pool
from tests.operator.observe.test_every_kind_of_target_is_read import leader_worker_set, stateful_set
from tests.operator.observe.test_the_snapshot_shows_the_fleet import snapshot

H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"
ELSEWHERE = [{"name": "others", "namespaceSelector": {"matchLabels": {"team": "others"}}, "quotaGPUs": 64}]
LEAST = 5
KINDS = {kind.kind: kind for kind in (DEPLOYMENT, STATEFUL_SET, LEADER_WORKER_SET)}


def required(*expressions: dict[str, Any], by: str = "matchExpressions") -> dict[str, Any]:
    terms = [{by: list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def label(operator: str, *values: str, key: str = "size") -> dict[str, Any]:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def on(product: str) -> Body:
    return nodes_with([(GPU_PRODUCT_LABEL, [product])])


def reference(kind: str) -> Body:
    return {"apiVersion": KINDS[kind].api_version, "kind": kind, "name": "nim"}


def targeted(kind: str) -> tuple[Body, list[Body]]:
    """One replica of this kind, and the pod templates that it has."""
    if kind == "LeaderWorkerSet":
        body = leader_worker_set(1)
        group = body["spec"]["leaderWorkerTemplate"]
        return body, [group["leaderTemplate"], group["workerTemplate"]]
    body = deployment(replicas=1) if kind == "Deployment" else stateful_set(1)
    return body, [body["spec"]["template"]]


def decided(
    affinity: Body, *, rendered: bool = False, kind: str = "Deployment", named: str = "h100", bound: slice = slice(None)
) -> Decision:
    """A deployment of H100s, one of whose replicas has no node yet, beside a pool of others' A100s.

    `bound`: the pod templates that have the affinity.
    """
    about, (target, made) = inference_deployment(pool=named, target_ref=reference(kind)), targeted(kind)
    for template in made:
        template["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    for template in made[bound]:
        template["spec"]["affinity"] = affinity
    if rendered:
        del about["spec"]["targetRef"]
        about["spec"]["runtime"] = dict(MINIMAL)
        about["metadata"]["name"] = "nim"
    store = Store(tuple(KINDS.values()))
    for each, body in (
        ("GPUPool", pool("h100", peakGPUs=64)),
        ("GPUPool", pool("a100", tenants=ELSEWHERE, gpu="A100-SXM-80GB")),
        *(("Node", node(f"{product}-{i}", product=product)) for product in (H100, A100) for i in range(2)),
        ("Namespace", {"metadata": {"name": NAMESPACE, "uid": "namespace", "labels": {}}}),
        (kind, target),
        ("InferenceDeployment", about),
    ):
        store.feed(each, None, body)
    sized = replace(SIZED, configuration=replace(SIZED.configuration, tensor_parallel=len(made)))
    seen = snapshot(store, sized=sized)
    (resource,) = seen.resources
    policy = replace(resource.policy, min_replicas=LEAST)
    (decision,), _ = decide(replace(seen, resources=(replace(resource, metrics=metrics(10), policy=policy),)), Memory())
    return decision


@pytest.mark.parametrize(
    ("kind", "rendered"),
    [("Deployment", True), ("Deployment", False), ("StatefulSet", False), ("LeaderWorkerSet", False)],
)
def test_a_floor_is_reached_at_once_where_affinity_keeps_pods_from_the_nodes_of_others(
    kind: str, *, rendered: bool
) -> None:
    assert decided(on(H100), rendered=rendered, kind=kind).to_replicas == LEAST


@pytest.mark.parametrize("kind", KINDS)
def test_without_an_affinity_the_first_replica_shows_where_it_runs(kind: str) -> None:
    decision = decided({}, kind=kind)

    assert (decision.to_replicas, decision.limited_by) == (1, Reason.NOT_A_TENANT)


@pytest.mark.parametrize("bound", [slice(0, 1), slice(1, 2)], ids=["leader alone", "workers alone"])
def test_a_group_of_which_some_pods_may_come_to_the_nodes_of_others_is_held(bound: slice) -> None:
    assert decided(on(H100), kind="LeaderWorkerSet", bound=bound).to_replicas == 1


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_its_kind_one_that_names_a_pool_of_others_gets_nothing_of_it(kind: str) -> None:
    decision = decided(on(A100), kind=kind, named="a100")

    assert (decision.to_replicas, decision.limited_by) == (1, Reason.NOT_A_TENANT)


def test_what_is_not_understood_holds_no_floor_back() -> None:
    assert decided(required(label("Near", "8"))).to_replicas == LEAST


@pytest.mark.parametrize(
    ("affinity", "selects"),
    [
        (required(label("In", "7", "8")), True),
        (required(label("In", "9")), False),
        (required(label("NotIn", "9")), True),
        (required(label("NotIn", "9", key="absent")), True),
        (required(label("NotIn", "8")), False),
        (required(label("Exists")), True),
        (required(label("Exists", key="absent")), False),
        (required(label("DoesNotExist", key="absent")), True),
        (required(label("DoesNotExist")), False),
        (required(label("Gt", "7")), True),
        (required(label("Gt", "8")), False),
        (required(label("Lt", "9")), True),
        (required(label("Lt", "many")), False),
        (required(label("Exists"), label("In", "9")), False),
        (required(label("In", "gpu-1", key="metadata.name"), by="matchFields"), True),
        (required(label("In", "gpu-2", key="metadata.name"), by="matchFields"), False),
        (required(), False),
        (required(label("In", *map(str, range(MOST_KEPT + 1)))), False),
    ],
)
def test_a_node_is_selected_as_the_scheduler_selects_it(affinity: dict[str, Any], *, selects: bool) -> None:
    terms = affinity_of({"affinity": affinity})

    assert terms is not None
    assert any(term.selects(project_node(node("gpu-1", size="8"))) for term in terms) is selects


def test_what_is_only_preferred_selects_every_node() -> None:
    assert affinity_of({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}}) is None
