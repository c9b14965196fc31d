"""Quotas of a pool, from the cluster to the decision, for deployments that name another pool than they run in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firsttoken_operator.decide import Admission, Memory, Waiting, admit, decide
from firsttoken_operator.domain import Decision, FleetSnapshot, Reason, Unsized
from tests.operator.act.test_a_rendered_pod_is_restricted import MINIMAL
from tests.operator.decide.builders import SIZED, metrics
from tests.operator.observe.bodies import deployment, inference_deployment, node, pod, pool
from tests.operator.observe.test_the_snapshot_shows_the_fleet import cluster, snapshot

QUOTA = [{"name": "lab", "namespaceSelector": {}, "quotaGPUs": 14}]
POOLS = [
    ("GPUPool", pool("on-prem", peakGPUs=64, tenants=QUOTA, nodeSelector={"room": "a"})),
    ("GPUPool", pool("cloud", location="Cloud", nodeSelector={"room": "cloud"})),
]


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
