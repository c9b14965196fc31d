"""Whole ticks of a loop that chooses the pods that end: in which order it writes marks and replicas."""

from __future__ import annotations

import time
from typing import Any

from firsttoken_operator.act.kubernetes import ObjectRef
from firsttoken_operator.observe.projections import DELETION_COST, OWN_DELETION_COST
from firsttoken_operator.observe.store import Store
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.observe.bodies import NAMESPACE, deployment, inference_deployment, node, pod, pool, replica_set
from tests.operator.run.looped import looped
from tests.operator.run.sizings import settled

MARKED = {"annotations": {DELETION_COST: "-1", OWN_DELETION_COST: "-1"}}


async def written(scaling: dict[str, int], **of_a_pod: Any) -> list[tuple[str, str]]:
    """Writes of a tick on four ready pods, in their order: `patch` is a pod's mark, and `patch_scale` the replicas."""
    resource = inference_deployment("rag", pool="h100", scaling=scaling)
    target = deployment("nim", replicas=4, status={"readyReplicas": 4})
    pods = [pod(f"nim-1-{name}", ready=60, **of_a_pod) for name in "abcd"]
    bodies = {"InferenceDeployment": [resource], "Deployment": [target], "ReplicaSet": [replica_set()], "Pod": pods}
    # NB: nodes that go by themselves: there pods are chosen though nothing is known of their requests.
    bodies |= {"GPUPool": [pool(location="Cloud")], "Node": [node("gpu-0")]}
    store, cluster = Store(), FakeCluster()
    for kind, several in bodies.items():
        for body in several:
            store.feed(kind, None, body)
    for api_version, kind, body in (
        ("firsttoken.dev/v1alpha1", "InferenceDeployment", resource),
        ("apps/v1", "Deployment", target),
        *(("v1", "Pod", each) for each in pods),
    ):
        cluster.objects[ObjectRef(api_version, kind, NAMESPACE, body["metadata"]["name"])] = body | {"kind": kind}
    loop, parts = looped(cluster, store, chooses_victims=True)
    await settled(parts.sizer, store)
    try:
        await loop.tick(time.monotonic())
    finally:
        parts.sizer.close()
    return [(name, kind) for name, kind in cluster.calls if name == "patch_scale" or (name, kind) == ("patch", "Pod")]


async def test_the_pod_that_ends_is_marked_before_the_replicas_are_written() -> None:
    calls = await written({"minReplicas": 1, "maxReplicas": 2})

    assert calls == [("patch", "Pod"), ("patch_scale", "Deployment")]


async def test_more_replicas_do_not_wait_until_marks_are_gone() -> None:
    calls = await written({"minReplicas": 6, "maxReplicas": 8}, **MARKED)

    assert calls == [("patch_scale", "Deployment"), *[("patch", "Pod")] * 4]
