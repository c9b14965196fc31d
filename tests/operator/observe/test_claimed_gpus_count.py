"""GPUs of a DRA driver: what nodes have by ResourceSlices, and what pods hold by claims."""

from __future__ import annotations

from typing import Any

import pytest

from firsttoken_operator.domain import PoolSnapshot, Server, Target
from firsttoken_operator.observe.store import Store
from tests.operator.observe.bodies import Body, deployment, inference_deployment, metadata, node, pod, pool, replica_set
from tests.operator.observe.test_the_snapshot_shows_the_fleet import only, snapshot

CLASS = "gpu.nvidia.com"
H100 = "NVIDIA H100 80GB HBM3"


def device(name: str, *, kind: str = "gpu", product: str = H100, **fields: Any) -> Body:
    return {"name": name, "attributes": {"type": {"string": kind}, "productName": {"string": product}}, **fields}


def published(on: str, *devices: Body, generation: int = 1, slices: int = 1, **spec: Any) -> tuple[str, Body]:
    told = {"name": on, "generation": generation, "resourceSliceCount": slices}
    name = f"{on}-{generation}-{devices[0]['name'] if devices else ''}"
    found = {"driver": CLASS, "nodeName": on, "pool": told, "devices": list(devices)} | spec
    return "ResourceSlice", {"metadata": metadata(name), "spec": found}


def eight(on: str = "gpu-0", **options: Any) -> tuple[str, Body]:
    return published(on, *(device(f"gpu-{number}") for number in range(8)), **options)


def exactly(count: int = 1, **fields: Any) -> Body:
    """A request of so many devices."""
    return {"name": "gpus", "exactly": {"deviceClassName": CLASS, "count": count} | fields}


def template(*requests: Body, name: str = "four") -> tuple[str, Body]:
    return "ResourceClaimTemplate", {"metadata": metadata(name), "spec": {"spec": {"devices": {"requests": requests}}}}


def claim(
    *requests: Body, name: str, given: int | None = None, of: str = "gpu-{}", by: tuple[str, ...] = ()
) -> tuple[str, Body]:
    """A claim. `given`: devices that it has; `by`: names of the pods that hold them."""
    one = {"request": "gpus", "driver": CLASS, "pool": "gpu-0"}
    results = [one | {"device": of.format(number)} for number in range(given or 0)]
    held = [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in by]
    status = {} if given is None else {"allocation": {"devices": {"results": results}}, "reservedFor": held}
    return "ResourceClaim", {"metadata": metadata(name), "spec": {"devices": {"requests": requests}}, "status": status}


def claiming(body: Body, *, by: str = "", named: str = "", made: str = "") -> Body:
    """A pod that asks for GPUs by a claim, and not by limits."""
    of = {"resourceClaimTemplateName": by} if by else {"resourceClaimName": named}
    body["spec"]["resourceClaims"] = [{"name": "gpus", **of}]
    del body["spec"]["containers"][0]["resources"]
    if made:
        body["status"]["resourceClaimStatuses"] = [{"name": "gpus", "resourceClaimName": made}]
    return body


def claimed(target: Body) -> Body:
    """A Deployment of which each pod claims by the template `four`."""
    claiming(target["spec"]["template"], by="four")
    return target


def store(*objects: tuple[str, Body], classes: tuple[str, ...] = (CLASS,)) -> Store:
    found = Store(device_classes=classes)
    for kind, body in (("GPUPool", pool()), *objects):
        found.feed(kind, None, body)
    return found


def bare(name: str = "gpu-0", **labels: str) -> tuple[str, Body]:
    """A node on which no device plugin runs."""
    body = node(name, gpus=None, **labels)
    del body["metadata"]["labels"]["nvidia.com/gpu.product"]
    return "Node", body


def seen(*objects: tuple[str, Body]) -> PoolSnapshot:
    return snapshot(store(*objects)).pools["h100"]


def test_a_node_has_the_gpus_that_a_driver_publishes_for_it_whatever_comes_first() -> None:
    for objects in ((bare(), eight()), (eight(), bare())):
        found = seen(*objects)
        assert (found.inventory_gpus, found.servers) == (8, (Server("gpu-0", 8),))


@pytest.mark.parametrize(("allocatable", "inventory"), [("8", 8), ("10", 10), ("0", 8)])
def test_what_a_device_plugin_and_a_driver_tell_of_is_the_same(allocatable: str, inventory: int) -> None:
    assert seen(("Node", node("gpu-0", gpus=allocatable)), eight()).inventory_gpus == inventory


TAINTED = {"taints": [{"key": "nvidia.com/xid", "effect": "NoExecute"}]}


@pytest.mark.parametrize(
    "odd",
    [
        published("gpu-0", device("gpu-0-mig-1", kind="mig")),
        published("gpu-0", device("gpu-vfio-0", kind="vfio")),
        published("gpu-0", device("gpu-0", **TAINTED)),
        published("gpu-0", device("gpu-0", consumesCounters=[{"counterSet": "gpu-0"}])),
        published("gpu-0", device("gpu-0"), driver="gpu.example.com"),
        published("gpu-0", device("gpu-0"), slices=2),
        published("", device("gpu-0"), nodeName=None, allNodes=True),
    ],
    ids=[
        "a partition",
        "passed through",
        "tainted",
        "may be partitioned",
        "of another driver",
        "not all told",
        "no node",
    ],
)
def test_a_device_that_is_no_whole_gpu_to_be_had_counts_for_nothing(odd: tuple[str, Body]) -> None:
    found = seen(bare("gpu-1"), eight("gpu-1"), bare("gpu-0"), odd)

    assert found.inventory_gpus == 8


def test_a_driver_that_publishes_anew_is_counted_once() -> None:
    old, new = eight(generation=1), published("gpu-0", device("gpu-9"), generation=2)
    found = store(bare(), old)
    assert snapshot(found).pools["h100"].inventory_gpus == 8

    found.feed(*(new[0], None, new[1]))
    assert snapshot(found).pools["h100"].inventory_gpus == 1
    found.feed("ResourceSlice", "DELETED", old[1])
    assert snapshot(found).pools["h100"].inventory_gpus == 1
    found.feed("ResourceSlice", "DELETED", new[1])
    assert snapshot(found).pools["h100"].inventory_gpus is None, "no node tells of GPUs: that is not none"


def test_gpus_of_another_type_are_none_of_the_pool() -> None:
    assert seen(bare(), published("gpu-0", device("gpu-0", product="NVIDIA L40S"))).inventory_gpus is None


@pytest.mark.parametrize(
    ("requests", "gpus"),
    [
        ([exactly(4)], 4),
        ([exactly(1), exactly(2)], 3),
        ([{"name": "gpus", "exactly": {"deviceClassName": CLASS}}], 1),
        ([exactly(1, deviceClassName="mig.nvidia.com")], 0),
        ([exactly(1, adminAccess=True)], 0),
        ([exactly(allocationMode="All")], 8),
        ([{"name": "gpus", "firstAvailable": [{"deviceClassName": CLASS, "count": n} for n in (2, 4)]}], 4),
    ],
    ids=["four", "two requests", "one unless told", "of another class", "to look at it", "all of a node", "the first"],
)
def test_a_replica_takes_what_its_claims_ask_for(requests: list[Body], gpus: int) -> None:
    objects = (
        bare(), eight(), template(*requests), ("Deployment", claimed(deployment(replicas=0))),
        ("InferenceDeployment", inference_deployment(pool="h100")),
    )  # fmt: skip
    target = only(store(*objects)).target

    assert isinstance(target, Target)
    assert target.gpus_per_replica == gpus


def charged(*objects: tuple[str, Body]) -> dict[str, int]:
    return dict(seen(bare(), eight(), *objects).charged_elsewhere)


def test_a_pod_holds_what_its_claim_was_given_before_and_after_it_is_told() -> None:
    by_template = ("Pod", claiming(pod("other", owned=False), by="four"))
    made = ("Pod", claiming(pod("other", owned=False), by="four", made="other-gpus"))
    named = ("Pod", claiming(pod("other", owned=False), named="mine"))
    by = ("other",)

    assert charged(by_template, template(exactly(4))) == {"call-center": 4}
    assert charged(template(exactly(4)), made) == {"call-center": 4}
    assert charged(made, claim(exactly(allocationMode="All"), name="other-gpus", given=6)) == {"call-center": 6}
    assert charged(named, claim(exactly(3), name="mine", given=3, by=by)) == {"call-center": 3}
    odd = exactly(3, deviceClassName="of-the-cluster")
    assert charged(named, claim(odd, name="mine", given=3, by=by)) == {"call-center": 3}, "its class is not known here"
    assert charged(named, claim(odd, name="mine", given=3, of="gpu-0-mig-{}", by=by)) == {}


def test_however_many_pods_share_a_claim_its_gpus_are_charged_once_and_one_replica_more_takes_none() -> None:
    names = tuple(f"pod-{number}" for number in range(20))
    pods = [("Pod", claiming(pod(name, owned=False), named="shared")) for name in names]
    assert charged(*pods, claim(exactly(4), name="shared", given=4, by=names[7:])) == {"call-center": 4}

    target = deployment(replicas=1)
    claiming(target["spec"]["template"], named="shared")
    found = only(
        store(
            ("Deployment", target), claim(exactly(4), name="shared", given=4, by=names),
            ("InferenceDeployment", inference_deployment(pool="h100")),
        )
    ).target  # fmt: skip
    assert isinstance(found, Target)
    assert found.gpus_per_replica == 0


def test_what_a_pod_claimed_is_charged_until_it_is_gone_also_when_its_template_is() -> None:
    made, given = claiming(pod("other", owned=False), by="four", made="c"), claim(exactly(4), name="c", given=4)
    found = store(bare(), eight(), template(exactly(4)), ("Pod", made), given)
    found.feed("ResourceClaimTemplate", "DELETED", template()[1])
    assert snapshot(found).pools["h100"].charged_elsewhere == {"call-center": 4}

    found.feed("Pod", "DELETED", made)
    assert snapshot(found).pools["h100"].charged_elsewhere == {}


def test_pods_of_a_deployment_that_claim_are_its_own() -> None:
    own = claiming(pod("nim-1-a", ready=10), by="four", made="c")
    objects = (
        bare(), eight(), template(exactly(4)), ("Deployment", claimed(deployment(replicas=1))),
        ("ReplicaSet", replica_set()), ("Pod", own), claim(exactly(4), name="c", given=4),
        ("InferenceDeployment", inference_deployment(pool="h100")),
    )  # fmt: skip
    found = store(*objects)
    target = only(found).target

    assert isinstance(target, Target)
    assert (target.gpus_per_replica, target.occupied_gpus) == (4, 4)
    assert snapshot(found).pools["h100"].charged_elsewhere == {}


def test_where_no_class_is_named_nothing_of_claims_is_kept() -> None:
    found = store(("Pod", claiming(pod("other", owned=False), by="four")), template(exactly(4)), classes=())

    assert found.gpu_pods() == []


@pytest.mark.parametrize("body", [{}, {"spec": {}}, {"spec": {"pool": {}}}, {"spec": {"devices": {"requests": [7]}}}])
@pytest.mark.parametrize("kind", ["ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"])
def test_one_that_cannot_be_read_hides_no_other(kind: str, body: Body) -> None:
    found = store(bare(), eight())
    found.feed(kind, None, {"metadata": metadata("odd"), **body})

    assert snapshot(found).pools["h100"].inventory_gpus == 8
