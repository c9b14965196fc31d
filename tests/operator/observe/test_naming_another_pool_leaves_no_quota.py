"""Quotas of a pool, from the cluster to the decision, for deployments that name another pool than they run in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firsttoken_operator.decide import Admission, Memory, Waiting, admit, decide
from firsttoken_operator.domain import Decision, FleetSnapshot, Reason, Unsized, Value
from tests.operator.act.test_a_rendered_pod_is_restricted import MINIMAL
from tests.operator.decide.builders import SIZED, idle, metrics
from tests.operator.observe.bodies import NAMESPACE, deployment, inference_deployment, node, pod, pool
from tests.operator.observe.test_the_snapshot_shows_the_fleet import cluster, snapshot

QUOTA = [{"name": "lab", "namespaceSelector": {}, "quotaGPUs": 14}]
POOLS = [
    ("GPUPool", pool("on-prem", peakGPUs=64, tenants=QUOTA, nodeSelector={"room": "a"})),
    ("GPUPool", pool("cloud", location="Cloud", nodeSelector={"room": "cloud"})),
]


def new(
    named: str, replicas: int, *more: tuple[str, Any], selector: dict[str, str] | None = None, cordoned: bool = False
) -> FleetSnapshot:
    """A deployment of so many replicas of a GPU, none of which has a node; its minimum asks for more, or a gateway."""
    about, target = inference_deployment(pool=named), deployment(replicas=replicas)
    target["spec"]["template"]["spec"]["nodeSelector"] = selector or {}
    nodes = [("Node", node(f"gpu-{i}", room="a")) for i in range(8)]
    for _, body in nodes:
        body["spec"]["unschedulable"] = cordoned
    namespace = ("Namespace", {"metadata": {"name": NAMESPACE, "uid": "namespace", "labels": {}}})
    objects = [*POOLS, *nodes, namespace, ("Deployment", target), ("InferenceDeployment", about), *more]
    seen = snapshot(cluster(*objects), sized=SIZED)
    (resource,) = seen.resources
    policy = replace(resource.policy, min_replicas=20 if replicas else 0)
    asks = metrics(140) if replicas else idle(gateway_arrivals=Value(140))
    return replace(seen, resources=(replace(resource, metrics=asks, policy=policy),))


def fleet(named: str, room: str = "a", *, rendered: bool = False) -> FleetSnapshot:
    """A deployment of 12 replicas of a GPU, in the room of a pool, whose load asks for more."""
    about = inference_deployment(pool=named)
    target = deployment(replicas=12)
    if rendered:
        del about["spec"]["targetRef"]
        about["spec"]["runtime"] = dict(MINIMAL)
        about["metadata"]["name"] = "nim"
    pods: list[tuple[str, dict[str, Any]]] = [("Pod", pod(f"own-{i}", ready=1, node=f"gpu-{i % 3}")) for i in range(12)]
    nodes = [("Node", node(f"gpu-{i}", room=room)) for i in range(8)]
    objects = [*POOLS, *nodes, ("Deployment", target), *pods, ("InferenceDeployment", about)]
    seen = snapshot(cluster(*objects), sized=SIZED)
    (resource,) = seen.resources
    return replace(seen, resources=(replace(resource, metrics=metrics(140)),))


def decided(about: FleetSnapshot) -> Decision:
    (decision,), _ = decide(about, Memory())
    return decision


@pytest.mark.parametrize("named", ["on-prem", "cloud"])
def test_a_tenant_has_its_quota_whichever_pool_it_names(named: str) -> None:
    decision = decided(fleet(named))

    assert (decision.to_replicas, decision.limited_by) == (14, Reason.QUOTA_EXCEEDED)


def test_a_refusal_names_the_pool_on_whose_nodes_the_pods_run() -> None:
    shortage = decided(fleet("cloud")).shortage

    assert shortage == "its pods run on nodes of pool on-prem; tenant lab holds 14 of its 14 GPUs"


def test_on_nodes_of_the_named_pool_nothing_else_is_asked() -> None:
    assert decided(fleet("cloud", room="cloud")).to_replicas > 14


def test_larger_replicas_take_of_the_pool_that_they_run_in() -> None:
    about = fleet("cloud", rendered=True)
    (resource,) = about.resources
    larger = replace(SIZED, configuration=replace(SIZED.configuration, tensor_parallel=2))
    unfit = replace(resource, sized=Unsized(Reason.TENSOR_PARALLEL_MISMATCH, "", withheld=larger))
    (waits,) = admit(replace(about, resources=(unfit,)), ())
    at_home = replace(unfit, hosts=frozenset({"cloud"}))
    (admitted,) = admit(replace(about, resources=(at_home,)), ())

    assert isinstance(waits, Waiting)
    assert (waits.reason, "pool on-prem has no 12 free GPUs" in waits.message) == (Reason.QUOTA_EXCEEDED, True)
    assert isinstance(admitted, Admission)


def test_one_whose_pods_may_run_in_another_pool_keeps_to_the_quota_there_before_they_do() -> None:
    decision = decided(new("cloud", 8))

    assert (decision.to_replicas, decision.limited_by) == (14, Reason.QUOTA_EXCEEDED)


def test_one_without_a_quota_left_there_shows_with_its_first_replica_where_it_runs() -> None:
    others = [("Pod", pod(f"other-{i}", ready=1, node="gpu-0", owned=False, gpus=2)) for i in range(7)]
    first, second = (decided(new("cloud", asked, *others)) for asked in (0, 1))

    assert (first.to_replicas, first.limited_by) == (1, Reason.QUOTA_EXCEEDED)
    assert (second.to_replicas, second.limited_by) == (1, Reason.QUOTA_EXCEEDED)
    assert second.shortage == "its pods may run on nodes of pool on-prem; tenant lab holds 14 of its 14 GPUs"


def test_where_its_pods_cannot_come_no_quota_is_asked() -> None:
    assert decided(new("cloud", 8, selector={"room": "cloud"})).to_replicas > 14
    assert decided(new("cloud", 8, cordoned=True)).to_replicas > 14
