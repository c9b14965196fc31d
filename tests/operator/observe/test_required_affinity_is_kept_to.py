"""Node affinity of a template: it tells into which pools its pods may come, as the scheduler would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firsttoken_operator.act.pods import nodes_with
from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import Decision
from firsttoken_operator.observe.affinity import MOST_KEPT, affinity_of
from firsttoken_operator.observe.nodes import project_node
from tests.operator.act.test_a_rendered_pod_is_restricted import MINIMAL
from tests.operator.decide.builders import SIZED, metrics
from tests.operator.observe.bodies import NAMESPACE, deployment, inference_deployment, node, pool
from tests.operator.observe.test_the_snapshot_shows_the_fleet import cluster, snapshot

H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"
ELSEWHERE = [{"name": "others", "namespaceSelector": {"matchLabels": {"team": "others"}}, "quotaGPUs": 64}]
LEAST = 5


def required(*expressions: dict[str, Any], by: str = "matchExpressions") -> dict[str, Any]:
    terms = [{by: list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def label(operator: str, *values: str, key: str = "size") -> dict[str, Any]:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def decided(affinity: dict[str, Any], *, rendered: bool = False) -> Decision:
    """A deployment of H100s, one of whose replicas has no node yet, beside a pool of others' A100s."""
    about, target = inference_deployment(pool="h100"), deployment(replicas=1)
    target["spec"]["template"]["spec"]["affinity"] = affinity
    if rendered:
        del about["spec"]["targetRef"]
        about["spec"]["runtime"] = dict(MINIMAL)
        about["metadata"]["name"] = "nim"
    seen = snapshot(
        cluster(
            ("GPUPool", pool("h100")),
            ("GPUPool", pool("a100", tenants=ELSEWHERE, gpu="A100-SXM-80GB")),
            *(("Node", node(f"{product}-{i}", product=product)) for product in (H100, A100) for i in range(2)),
            ("Namespace", {"metadata": {"name": NAMESPACE, "uid": "namespace", "labels": {}}}),
            ("Deployment", target),
            ("InferenceDeployment", about),
        ),
        sized=SIZED,
    )
    (resource,) = seen.resources
    policy = replace(resource.policy, min_replicas=LEAST)
    (decision,), _ = decide(replace(seen, resources=(replace(resource, metrics=metrics(10), policy=policy),)), Memory())
    return decision


@pytest.mark.parametrize("rendered", [True, False])
def test_a_floor_is_reached_at_once_where_affinity_keeps_pods_from_the_nodes_of_others(*, rendered: bool) -> None:
    assert decided(nodes_with((H100,)), rendered=rendered).to_replicas == LEAST


def test_without_an_affinity_the_first_replica_shows_where_it_runs() -> None:
    assert decided({}).to_replicas == 1


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
