"""Pools declared before nodes were told apart: what was free still is, or a condition says what makes it so again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from firsttoken_operator.decide import Ledger, judge_pool
from firsttoken_operator.domain import Exclusion, FleetSnapshot, PoolSnapshot
from firsttoken_operator.observe.store import Store
from tests.operator.act.test_a_rendered_pod_is_restricted import MINIMAL
from tests.operator.observe.bodies import at, deployment, inference_deployment, metadata, node, pod, pool
from tests.operator.observe.test_every_kind_of_target_is_read import SERVER
from tests.operator.observe.test_the_snapshot_shows_the_fleet import cluster, snapshot

Object = tuple[str, dict[str, Any]]
TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
ALL = {"operator": "Exists"}
TOLERATED = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}


def nodes(count: int = 8, **changes: Any) -> list[Object]:
    return [changed(f"gpu-{each}", **changes) for each in range(count)]


def changed(
    name: str, *, gpus: str = "8", product: str = "", labelled: bool = True, ready: bool = True, **spec: Any
) -> Object:
    body = node(name, gpus=gpus, product=f"NVIDIA-H100-80GB-HBM3{product}")
    body["spec"] |= spec
    body["status"]["conditions"] = [{"type": "Ready", "status": str(ready), "lastTransitionTime": at(0)}]
    if not labelled:
        body["metadata"]["labels"] = {}
    return "Node", body


def own(*, tolerations: Sequence[dict[str, Any]] = (), on: Sequence[str] = ("gpu-0", "gpu-0")) -> list[Object]:
    """The pool's own deployment: pods of 4 GPUs."""
    about = deployment(replicas=len(on), gpus=4)
    about["spec"]["template"]["spec"]["tolerations"] = list(tolerations)
    pods = [("Pod", pod(f"own-{i}", ready=1, gpus=4, node=name)) for i, name in enumerate(on)]
    return [("Deployment", about), *pods, ("InferenceDeployment", inference_deployment(pool="h100"))]


def notebooks(count: int, on: str) -> list[Object]:
    return [("Pod", pod(f"notebook-{on}-{i}", owned=False, gpus=1, node=on)) for i in range(count)]


CLUSTERS: dict[str, tuple[list[Object], int, Exclusion | None]] = {
    "as it should be": ([*nodes(), *own()], 56, None),
    "tainted, and its pods tolerate it": ([*nodes(taints=[TAINT]), *own(tolerations=[TOLERATED])], 56, None),
    "tainted, and its pods tolerate all": ([*nodes(taints=[TAINT]), *own(tolerations=[ALL])], 56, None),
    "tainted, and no pod tolerates it": ([*nodes(taints=[TAINT]), *own(on=())], 0, Exclusion.TAINTED),
    "half of it cordoned": (
        [*nodes(4), *(changed(f"old-{i}", unschedulable=True) for i in range(4)), *own(on=("old-0", "old-0", "gpu-0")),
         *notebooks(8, "old-1")], 28, Exclusion.CORDONED,
    ),
    "all of it cordoned": ([*nodes(unschedulable=True), *own(), *notebooks(8, "gpu-1")], 0, Exclusion.CORDONED),
    "a node that is lost": (
        [*nodes(7), changed("lost", ready=False), *own(on=("lost", "gpu-0")), *notebooks(4, "lost")], 52, None,
    ),
    "a time-sliced node": (
        [*nodes(7), changed("sliced", gpus="32", product="-SHARED"), *own(), *notebooks(30, "sliced")], 48,
        Exclusion.SHARED,
    ),
    "its pods on a time-sliced node": (
        [*nodes(7), changed("sliced", gpus="32", product="-SHARED"), *own(on=("sliced",) * 4)], 56, Exclusion.SHARED,
    ),
    "a node of MIG slices": (
        [*nodes(7), changed("mig", gpus="56", product="-MIG-1g.10gb"), *own(), *notebooks(50, "mig")], 48,
        Exclusion.PARTITIONED,
    ),
}  # fmt: skip
DECLARED: dict[str, dict[str, Any]] = {
    "by its peak": {"peakGPUs": 64},
    "by its inventory": {},
    "in the cloud, by hand": {"location": "Cloud", "nodeProvisioning": "Manual", "baseGPUs": 48, "burstGPUs": 16},
}


def ledger(fleet: FleetSnapshot, name: str = "h100") -> Ledger:
    return Ledger(fleet.pools[name], [r for r in fleet.resources if r.pool == name], ())


def said(found: PoolSnapshot) -> str:
    return " ".join(each.message for each in judge_pool(found, ()))


@pytest.mark.parametrize("declared", DECLARED.values(), ids=DECLARED.keys())
@pytest.mark.parametrize(("objects", "free", "cause"), CLUSTERS.values(), ids=CLUSTERS.keys())
def test_gpus_that_pods_can_get_are_free_and_of_the_others_it_says_what_to_do(
    objects: list[Object], free: int, cause: Exclusion | None, declared: dict[str, Any]
) -> None:
    fleet = snapshot(cluster(("GPUPool", pool(**declared)), *objects))
    # NB: of declared GPUs, those are spent that its own pods hold on nodes of another kind.
    spent = free - ledger(fleet).free_gpus

    assert 0 <= spent <= (8 if declared else 0)
    if cause is not None:
        assert cause.remedy
        assert cause.remedy in said(fleet.pools["h100"])


@pytest.mark.parametrize("labelled", [0, 2, 7])
def test_declared_gpus_are_believed_while_nodes_do_not_tell_of_their_type(labelled: int) -> None:
    rest = [changed(f"bare-{i}", labelled=False) for i in range(8 - labelled)]
    fleet = snapshot(cluster(("GPUPool", pool(peakGPUs=64)), *nodes(labelled), *rest, *own(on=("bare-0", "bare-0"))))
    found = fleet.pools["h100"]

    assert (ledger(fleet).free_gpus, found.servers) == (56, None)
    assert Exclusion.UNLABELLED.remedy in said(found)


def test_what_is_labelled_is_believed_where_it_is_all_that_was_declared() -> None:
    fleet = snapshot(cluster(("GPUPool", pool(peakGPUs=64)), *nodes(), changed("bare", labelled=False)))

    assert len(fleet.pools["h100"].servers or ()) == 8


def test_an_inventory_without_any_label_says_that_labels_lack() -> None:
    fleet = snapshot(cluster(("GPUPool", pool()), *nodes(labelled=False)))

    assert fleet.pools["h100"].budget_gpus is None
    assert Exclusion.UNLABELLED.remedy in said(fleet.pools["h100"])


@pytest.mark.parametrize("spec", [{"nodeSelector": {"team": "rag"}}, {"location": "Cloud"}])
def test_nodes_without_a_label_are_no_matter_to_who_selects_its_own_or_has_them_made(spec: dict[str, Any]) -> None:
    objects = [("Node", node("mine", team="rag")), changed("bare", labelled=False)]

    assert snapshot(cluster(("GPUPool", pool(**spec)), *objects)).pools["h100"].excluded == ()


def shared_nodes(prod: dict[str, Any], dev: dict[str, Any]) -> FleetSnapshot:
    """Two pools without a selector on the same 64 GPUs: `h100` runs 40 of them, and notebooks hold 4."""
    pools = [("GPUPool", pool("h100", **prod)), ("GPUPool", pool("dev", **dev))]
    return snapshot(cluster(*pools, *nodes(), *own(on=[f"gpu-{i}" for i in range(5)] * 2), *notebooks(4, "gpu-7")))


def test_pools_on_the_same_nodes_have_each_what_they_declare() -> None:
    fleet = shared_nodes({"peakGPUs": 48}, {"peakGPUs": 16})

    assert (ledger(fleet).free_gpus, ledger(fleet, "dev").free_gpus) == (8, 12)
    assert Exclusion.OTHER_POOL.remedy in said(fleet.pools["h100"])


def test_pools_on_the_same_nodes_give_no_gpu_that_a_pod_holds() -> None:
    fleet = shared_nodes({"peakGPUs": 64}, {"peakGPUs": 64})

    assert (ledger(fleet).free_gpus, ledger(fleet, "dev").free_gpus) == (20, 20)


def test_an_inventory_on_the_same_nodes_counts_in_one_and_is_nowhere_negative() -> None:
    fleet = shared_nodes({}, {})

    assert (ledger(fleet).free_gpus, ledger(fleet, "dev").free_gpus) == (0, 20)
    assert Exclusion.OTHER_POOL.remedy in said(fleet.pools["h100"])


def test_a_pod_of_another_pool_is_charged_where_that_pool_has_no_part() -> None:
    pools = [pool("h100", nodeSelector={"team": "rag"}), pool("a", nodeSelector={"team": "a"})]
    fleet = snapshot(cluster(*(("GPUPool", each) for each in pools), ("Node", node("gpu-0", team="a")), *own()))

    assert (fleet.pools["a"].charged_elsewhere_gpus, ledger(fleet, "a").free_gpus) == (8, 0)


def test_a_pool_that_says_what_it_tolerates_is_believed() -> None:
    other = [{"key": "else", "operator": "Exists"}]
    about = ("GPUPool", pool(tolerations=other))
    fleet = snapshot(cluster(about, *nodes(taints=[TAINT]), *own(tolerations=[TOLERATED])))

    assert fleet.pools["h100"].inventory_gpus == 0


def test_a_taint_is_tolerated_where_pods_without_a_template_run() -> None:
    store = Store([SERVER])
    reference = {"apiVersion": SERVER.api_version, "kind": SERVER.kind, "name": "nim"}
    scaled = {"metadata": metadata("nim"), "spec": {"size": 1}, "status": {"pods": "app=nim"}}
    for kind, body in (
        ("GPUPool", pool()), ("InferenceDeployment", inference_deployment(pool="h100", target_ref=reference)),
        (SERVER.kind, scaled), ("Pod", pod("nim-0", ready=1, node="gpu-1", labels={"app": "nim"})),
        *nodes(2, taints=[TAINT]), changed("other", taints=[TAINT | {"value": "other"}]),
    ):  # fmt: skip
        store.feed(kind, None, body)

    assert snapshot(store).pools["h100"].inventory_gpus == 16


def test_what_is_to_be_rendered_tolerates_what_it_declares() -> None:
    about = inference_deployment(pool="h100")
    del about["spec"]["targetRef"]
    about["spec"]["runtime"] = dict(MINIMAL) | {"tolerations": [{"key": "dedicated", "value": "gpu"}]}
    fleet = snapshot(cluster(("GPUPool", pool()), ("InferenceDeployment", about), *nodes(taints=[TAINT])))

    assert fleet.pools["h100"].inventory_gpus == 64
