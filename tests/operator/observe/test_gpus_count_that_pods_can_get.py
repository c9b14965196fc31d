"""Inventory, tenants and overlaps of a pool, from what nodes, namespaces and pods say."""

from __future__ import annotations

from typing import Any

import pytest

from firsttoken_operator.domain import Excluded, Exclusion, PoolSnapshot, ScaleDown, Server, Target
from tests.operator.observe.bodies import NAMESPACE, at, deployment, inference_deployment, metadata, node, pod, pool
from tests.operator.observe.test_the_snapshot_shows_the_fleet import cluster, only, snapshot

Object = tuple[str, dict[str, Any]]
TEAM_TAINT = {"key": "example.com/team", "value": "rag", "effect": "NoSchedule"}


def changed(name: str = "odd", *, product: str = "NVIDIA-H100-80GB-HBM3", **spec: Any) -> Object:
    body = node(name, product=product)
    body["spec"] |= spec
    return "Node", body


def labelled(**labels: str) -> Object:
    body = node("odd")
    body["metadata"]["labels"] |= {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return "Node", body


def unready() -> Object:
    body = node("odd")
    body["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    return "Node", body


def pool_of(*objects: Object, **spec: Any) -> PoolSnapshot:
    return snapshot(cluster(("GPUPool", pool(**spec)), *objects)).pools["h100"]


@pytest.mark.parametrize(
    ("odd", "cause"),
    [
        (unready(), Exclusion.NOT_READY),
        (changed(unschedulable=True), Exclusion.CORDONED),
        (changed(taints=[TEAM_TAINT]), Exclusion.TAINTED),
        (changed(product="NVIDIA-H100-80GB-HBM3-SHARED"), Exclusion.SHARED),
        (labelled(nvidia_com__gpu_replicas="4"), Exclusion.SHARED),
        (changed(product="NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"), Exclusion.PARTITIONED),
        (changed(product="NVIDIA-L40S"), Exclusion.OTHER_GPU),
    ],
    ids=lambda value: str(value) if isinstance(value, Exclusion) else "",
)
def test_gpus_that_no_pod_of_the_pool_can_get_do_not_count(odd: Object, cause: Exclusion) -> None:
    odd[1]["metadata"]["labels"]["team"] = "rag"
    found = pool_of(("Node", node("gpu-0", team="rag")), odd, nodeSelector={"team": "rag"})

    assert (found.inventory_gpus, found.excluded) == (8, (Excluded(cause, 1, 8),))
    assert found.servers == (Server("gpu-0", 8),)


@pytest.mark.parametrize(
    "taint",
    [
        {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
        {"key": "example.com/team", "value": "rag", "effect": "NoSchedule"},
        {"key": "example.com/spot", "effect": "PreferNoSchedule"},
    ],
    ids=["of the GPU itself", "tolerated by the pool", "only preferred"],
)
def test_a_taint_that_is_tolerated_excludes_nothing(taint: dict[str, str]) -> None:
    tolerations = [{"key": "example.com/team", "value": "rag", "effect": "NoSchedule"}]

    assert pool_of(changed(taints=[taint]), tolerations=tolerations).inventory_gpus == 8


@pytest.mark.parametrize(
    ("toleration", "inventory"),
    [
        ({"key": "example.com/team", "operator": "Exists"}, 8),
        ({"key": "example.com/team", "value": "other"}, 0),
        ({"key": "example.com/team", "operator": "Exists", "effect": "NoExecute"}, 0),
        ({"key": "example.com/else", "operator": "Exists"}, 0),
    ],
)
def test_a_toleration_is_compared_as_kubernetes_does(toleration: dict[str, str], inventory: int) -> None:
    assert pool_of(changed(taints=[TEAM_TAINT]), tolerations=[toleration]).inventory_gpus == inventory


def test_gpus_of_amd_count_as_those_of_nvidia() -> None:
    body = node("amd-0", gpus=None)
    body["metadata"]["labels"] = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
    body["status"]["allocatable"]["amd.com/gpu"] = "8"
    job = pod("job", owned=False, node="amd-0", gpus=0)
    job["spec"]["containers"][0]["resources"]["limits"] = {"amd.com/gpu": "2"}
    found = pool_of(("Node", body), ("Pod", job), gpu="MI300X-192GB")

    assert (found.inventory_gpus, found.charged_elsewhere) == (8, {NAMESPACE: 2})


def test_a_server_knows_what_all_pods_on_it_hold() -> None:
    found = pool_of(
        ("Node", node("gpu-0")),
        ("InferenceDeployment", inference_deployment(pool="h100")),
        ("Pod", pod("own", ready=1, gpus=4)),
        ("Pod", pod("own-leaving", gpus=1, deletionTimestamp=at(9))),
        ("Pod", pod("notebook", owned=False, gpus=2)),
    )

    assert found.servers == (Server("gpu-0", 8, used_gpus=7),)


def test_gpus_that_others_hold_on_a_cordoned_node_are_charged_and_no_room() -> None:
    found = pool_of(
        ("Node", node("gpu-0")),
        changed("gpu-1", unschedulable=True),
        ("Pod", pod("notebook", owned=False, gpus=2, node="gpu-1")),
    )

    assert (found.inventory_gpus, found.charged_elsewhere_gpus) == (8, 2)


@pytest.mark.parametrize(
    ("spec", "budget", "is_elastic"),
    [
        ({"peakGPUs": 16}, None, False),
        ({}, None, False),
        ({"location": "Cloud", "baseGPUs": 8}, 8, False),
        ({"location": "Cloud"}, None, True),
        ({"location": "Cloud", "baseGPUs": 8, "nodeProvisioning": "Manual"}, None, False),
        ({"location": "Cloud", "nodeProvisioning": "Manual"}, None, False),
    ],
)
def test_where_no_node_comes_by_itself_an_unknown_inventory_stops_growth(
    spec: dict[str, Any], budget: int | None, is_elastic: bool
) -> None:
    found = pool_of(**spec)

    assert (found.budget_gpus, found.is_elastic, found.servers) == (budget, is_elastic, None)


def test_a_peak_is_the_budget_where_nodes_are_there() -> None:
    assert pool_of(("Node", node("gpu-0")), peakGPUs=4).budget_gpus == 4
    assert pool_of(("Node", node("gpu-0")), location="Cloud", baseGPUs=99).servers is None


def test_a_node_of_two_pools_counts_in_one_and_both_say_so() -> None:
    objects = [("GPUPool", pool("b")), ("GPUPool", pool("a")), ("Node", node("gpu-0"))]
    pools = snapshot(cluster(*objects)).pools

    assert (pools["a"].inventory_gpus, pools["a"].overlaps) == (8, ("b",))
    assert (pools["b"].inventory_gpus, pools["b"].overlaps) == (0, ("a",))
    assert pools["b"].excluded == (Excluded(Exclusion.OTHER_POOL, 1, 8),)


def namespace(**labels: str) -> Object:
    return "Namespace", {"metadata": metadata(NAMESPACE, labels=labels)}


def tenant_of(selector: dict[str, Any], *objects: Object) -> str | None:
    found = pool_of(*objects, tenants=[{"name": "rag", "namespaceSelector": selector}]).tenant(NAMESPACE)
    return found.name if found else None


def expression(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "team", "operator": operator} | ({"values": list(values)} if values else {})]}


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ({}, "rag"),
        ({"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}, "rag"),
        ({"matchLabels": {"team": "rag"}}, "rag"),
        ({"matchLabels": {"team": "other"}}, None),
        (expression("In", "rag", "search"), "rag"),
        (expression("NotIn", "rag"), None),
        (expression("Exists"), "rag"),
        (expression("DoesNotExist"), None),
    ],
)
def test_a_tenant_is_told_by_the_labels_of_its_namespaces(selector: dict[str, Any], name: str | None) -> None:
    assert tenant_of(selector, namespace(team="rag")) == name


def test_a_namespace_is_of_the_first_tenant_that_selects_it() -> None:
    tenants = [{"name": "b", "namespaceSelector": {}}, {"name": "a", "namespaceSelector": {}}]
    found = pool_of(namespace(), tenants=tenants).tenant(NAMESPACE)

    assert found is not None
    assert found.name == "b"


def test_one_that_names_no_pool_is_in_its_tenants_default_pool() -> None:
    tenants = [{"name": "rag", "namespaceSelector": {}, "admits": "All"}]
    pools = [("GPUPool", pool(tenants=tenants)), ("GPUPool", pool("l40s", gpu="L40S-48GB", tenants=tenants))]
    found = only(cluster(*pools, ("InferenceDeployment", inference_deployment())))

    assert (found.pool, found.policy.scale_down) == ("h100", ScaleDown.WHEN_POOL_SHORT)


def test_a_default_pool_of_another_gpu_is_none() -> None:
    tenants = [{"name": "rag", "namespaceSelector": {}, "admits": "All"}]
    about = ("InferenceDeployment", inference_deployment())

    assert only(cluster(("GPUPool", pool(gpu="A100-SXM-80GB", tenants=tenants)), about)).pool is None
    assert only(cluster(("GPUPool", pool(tenants=[tenants[0] | {"admits": "Named"}])), about)).pool is None


def test_the_gpus_of_pods_are_told_as_they_are_during_a_change() -> None:
    store = cluster(
        ("InferenceDeployment", inference_deployment()),
        ("Deployment", deployment(replicas=3, gpus=2)),
        ("Pod", pod("old", ready=1, gpus=4)),
        ("Pod", pod("small", ready=1, gpus=1)),
        ("Pod", pod("ending", ready=1, gpus=4, deletionTimestamp=at(60))),
    )
    target = only(store).target

    assert isinstance(target, Target)
    assert target.occupied_gpus == 4 + 2 + 4


IN_DEFAULT = {"capacity": {"pool": "h100", "byDefault": True}}
ALL = [{"name": "rag", "namespaceSelector": {}, "admits": "All"}]


def unreadable(name: str = "h100") -> Object:
    body = pool(name, tenants=ALL)
    body["spec"]["location"] = "Edge"
    return "GPUPool", body


@pytest.mark.parametrize(
    "pools",
    [[], [unreadable()], [unreadable(), ("GPUPool", pool("second", tenants=ALL))]],
    ids=["deleted", "not readable", "beside another default"],
)
def test_one_stays_in_its_default_pool_while_that_cannot_be_read(pools: list[Object]) -> None:
    about = inference_deployment() | {"status": IN_DEFAULT}
    found = only(cluster(*pools, ("InferenceDeployment", about)))
    named = only(cluster(*pools, ("InferenceDeployment", inference_deployment(pool="h100"))))

    assert (found.pool, found.in_default_pool, found.policy.scale_down) == ("h100", True, ScaleDown.NEVER)
    assert (named.pool, named.policy.scale_down) == ("h100", ScaleDown.NEVER)


@pytest.mark.parametrize(
    ("pools", "about", "name"),
    [
        ([("GPUPool", pool())], inference_deployment() | {"status": IN_DEFAULT}, None),
        ([], inference_deployment(pool="other") | {"status": IN_DEFAULT}, "other"),
        ([], inference_deployment() | {"status": {"capacity": {"pool": "h100"}}}, None),
        ([("GPUPool", pool("second", tenants=ALL))], inference_deployment(), "second"),
    ],
    ids=["it is admitted no more", "it names another", "it named the pool before", "it was in none"],
)
def test_a_default_pool_is_left_for_what_is_known(pools: list[Object], about: dict[str, Any], name: str | None) -> None:
    assert only(cluster(*pools, ("InferenceDeployment", about))).pool == name


def test_a_status_tells_a_default_pool_from_one_that_is_named() -> None:
    pools = ("GPUPool", pool(tenants=ALL))

    assert only(cluster(pools, ("InferenceDeployment", inference_deployment()))).in_default_pool
    assert not only(cluster(pools, ("InferenceDeployment", inference_deployment(pool="h100")))).in_default_pool
