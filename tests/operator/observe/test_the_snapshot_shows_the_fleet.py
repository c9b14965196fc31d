"""Targets, rivals and pools of one tick, from what the store was told."""

from __future__ import annotations

from typing import Any

import pytest

from firsttoken_operator.decide import judge_facts, judge_owners
from firsttoken_operator.domain import (
    FleetSnapshot,
    Missing,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    ScaleDown,
    ScalingMode,
    Sized,
    Target,
    TargetMissing,
    Unsized,
)
from firsttoken_operator.observe.measure import nothing
from firsttoken_operator.observe.projections import DELETION_COST, OWN_DELETION_COST
from firsttoken_operator.observe.snapshot import build_snapshot
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.settings import Settings
from tests.operator.act.test_a_rendered_pod_is_restricted import MINIMAL
from tests.operator.decide.builders import SIZED
from tests.operator.observe.bodies import (
    EPOCH,
    at,
    autoscaler,
    deployment,
    inference_deployment,
    node,
    pod,
    pool,
    replica_set,
)


def cluster(*objects: tuple[str, Any]) -> Store:
    store = Store()
    for kind, body in (("Deployment", deployment()), ("ReplicaSet", replica_set()), *objects):
        store.feed(kind, None, body)
    return store


def snapshot(store: Store, *, seconds: float = 100.0, sized: Sized | None = None) -> FleetSnapshot:
    timing = Settings(time_scale=10.0).timing
    sizings = {} if sized is None else dict.fromkeys(store.resources, sized)
    built = build_snapshot(store, {}, sizings, timing, now_seconds=5.0, wall_seconds=EPOCH + seconds)
    return judge_facts(built, time_scale=timing.scale)


def only(store: Store, **options: Any) -> ResourceSnapshot:
    (resource,) = snapshot(store, **options).resources
    return resource


def target(*objects: tuple[str, Any], seconds: float = 100.0) -> Target:
    found = only(cluster(("InferenceDeployment", inference_deployment()), *objects), seconds=seconds).target
    assert isinstance(found, Target)
    return found


def test_pods_are_counted_by_what_they_can_do() -> None:
    found = target(
        ("Pod", pod("ready-1", ready=10)),
        ("Pod", pod("ready-2", ready=10)),
        ("Pod", pod("starting", scheduled=20)),
        ("Pod", pod("no-room", unschedulable=True)),
        ("Pod", pod("no-image", waiting="ImagePullBackOff")),
        ("Pod", pod("leaving", ready=10, deletionTimestamp=at(60))),
        ("Pod", pod("stranger", of="other-1", ready=10)),
        seconds=95,
    )

    assert (found.ready, found.starting, found.stuck, found.terminating) == (2, 1, 2, 1)
    assert (found.unschedulable, found.failing, found.unplaced) == (1, 1, 1)
    assert (found.uid, found.replicas, found.gpus_per_replica) == ("uid-nim", 3, 1)


def placeless(name: str, said: str, **spec: Any) -> tuple[str, Any]:
    body = pod(name, unschedulable=True)
    body["spec"] |= spec
    body["status"]["conditions"][0]["message"] = said
    return "Pod", body


def test_pods_behind_a_gate_are_not_those_without_a_place() -> None:
    gated = pod("gated", scheduled=None)
    gated["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}, {"name": "kueue.x-k8s.io/admission"}]
    placed = pod("placed", ready=10)
    placed["spec"]["schedulingGates"] = []
    found = target(("Pod", gated), ("Pod", placed), placeless("full", "0/8 nodes are available"))

    assert (found.unplaced, found.unschedulable, found.hindrances.gated) == (2, 1, 1)
    assert found.hindrances.gates == "kueue.x-k8s.io/admission, kueue.x-k8s.io/topology"
    assert found.hindrances.said == "0/8 nodes are available"


def test_a_pod_that_waits_for_those_that_it_displaces_has_its_place() -> None:
    kind, waiting = placeless("next", "0/8 nodes are available")
    waiting["status"]["nominatedNodeName"] = "gpu-0"

    assert target((kind, waiting)).unschedulable == 0


def mounting(name: str, node: str, claim: str = "weights", *, done: bool = False, **options: Any) -> tuple[str, Any]:
    """A pod that was given its node at second 0, and has mounted its volumes there or waits for them."""
    body = pod(name, node=node, ready=10 if done else None, **options)
    body["spec"]["volumes"] = [
        {"name": "shm", "emptyDir": {}},
        {"name": "a", "persistentVolumeClaim": {"claimName": claim}},
    ]
    body["status"]["conditions"].append({"type": "PodReadyToStartContainers", "status": "True" if done else "False"})
    return "Pod", body


FIRST = mounting("first", "gpu-0", done=True)


@pytest.mark.parametrize(
    ("pods", "seconds", "unmounted"),
    [
        pytest.param([FIRST, mounting("next", "gpu-1")], 124, 1, id="a claim that another node has"),
        pytest.param([FIRST, mounting("next", "gpu-1")], 122, 0, id="not for long"),
        pytest.param([FIRST, mounting("next", "gpu-0")], 124, 0, id="on the same node"),
        pytest.param([FIRST, mounting("next", "gpu-1", "another")], 124, 0, id="another claim"),
        pytest.param([FIRST, mounting("next", "gpu-1", done=True)], 124, 0, id="mounted on both nodes"),
        pytest.param([FIRST, mounting("next", "gpu-1", deletionTimestamp=at(130))], 124, 0, id="ending"),
        pytest.param([mounting("next", "gpu-1"), mounting("more", "gpu-2")], 124, 0, id="mounted nowhere"),
        pytest.param([FIRST, ("Pod", pod("next", node="gpu-1"))], 124, 0, id="not told"),
    ],
)
def test_volumes_that_another_node_has_are_told(pods: list[tuple[str, Any]], seconds: float, unmounted: int) -> None:
    found = target(*pods, seconds=seconds).hindrances

    assert (found.unmounted, found.volume_claim) == (unmounted, "weights" if unmounted else "")


def test_claims_are_told_from_gpus_that_are_taken() -> None:
    asks = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}]}
    found = target(
        placeless("claims", "cannot allocate all claims", **asks), placeless("full", "Insufficient nvidia.com/gpu")
    )

    assert (found.hindrances.unclaimed, found.hindrances.said) == (1, "cannot allocate all claims")
    assert target(placeless("both", "Insufficient nvidia.com/gpu", **asks)).hindrances.unclaimed == 0


def test_pods_that_had_to_end_for_others_are_remembered_for_half_an_hour() -> None:
    ended = pod("ended", ready=10, deletionTimestamp=at(60))
    reason = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": at(50)}
    preempted = ended | {"status": {"conditions": [reason | {"reason": "PreemptionByScheduler"}]}}
    evicted = ended | {"status": {"conditions": [reason | {"reason": "EvictionByEvictionAPI"}]}}
    store = cluster(("InferenceDeployment", inference_deployment()), ("Pod", preempted))
    store.feed("Pod", "DELETED", preempted)

    def count(seconds: float) -> int:
        found = only(store, seconds=seconds).target
        assert isinstance(found, Target)
        return found.hindrances.preempted

    assert (count(100), count(1849), count(1851)) == (1, 1, 0)
    assert target(("Pod", evicted)).hindrances.preempted == 0


def test_a_pod_that_ends_may_answer_until_its_grace_period_is_over() -> None:
    leaving = ("Pod", pod("leaving", ready=10, deletionTimestamp=at(130)))

    assert target(leaving, seconds=100).draining == 1
    assert (target(leaving, seconds=131).draining, target(leaving, seconds=131).terminating) == (0, 1)


@pytest.mark.parametrize(("declared", "seconds"), [({}, 30), ({"terminationGracePeriodSeconds": 600}, 600)])
def test_the_grace_period_is_that_of_the_pods_to_come(declared: dict[str, int], seconds: float) -> None:
    body = deployment()
    body["spec"]["template"]["spec"] |= declared

    ending = target(("Deployment", body)).ending
    assert ending is not None
    assert ending.grace_seconds == seconds


@pytest.mark.parametrize(
    ("annotations", "cost", "is_ours"),
    [
        ({}, None, False),
        ({DELETION_COST: "-2", OWN_DELETION_COST: "-2"}, -2, True),
        ({DELETION_COST: "100"}, 100, False),
        ({DELETION_COST: "100", OWN_DELETION_COST: "-2"}, 100, False),
        ({DELETION_COST: "cheap"}, None, False),
        ({DELETION_COST: "99999999999"}, None, False),
        ({OWN_DELETION_COST: "-2"}, None, False),
    ],
)
def test_a_deletion_cost_is_read_as_kubernetes_does(
    annotations: dict[str, str], cost: int | None, is_ours: bool
) -> None:
    store = cluster(("Pod", pod("a", ready=10, annotations=annotations)))
    (found,) = store.replica_pods("uid-nim")

    assert (found.name, found.ready, found.deletion_cost, found.is_ours) == ("a", True, cost, is_ours)


def test_a_pod_that_takes_longer_than_its_deployment_ever_did_is_stuck() -> None:
    learned = [("Pod", pod(f"ready-{index}", ready=100)) for index in range(5)]
    slow = ("Pod", pod("slow", scheduled=150))

    assert target(*learned, slow, seconds=150 + 126).starting == 1
    assert target(*learned, slow, seconds=150 + 127).stuck == 1


def test_a_start_up_time_that_is_declared_is_given_to_pods_that_start() -> None:
    body = inference_deployment("nim")
    del body["spec"]["targetRef"]
    body["spec"]["runtime"] = {
        "type": "NIM", "image": "nvcr.io/nim/meta/llama3-8b-instruct:1.0.3", "startupTimeoutSeconds": 7200,
    }  # fmt: skip
    store = cluster(("InferenceDeployment", body), ("Pod", pod("slow", scheduled=0)))
    early, late = (only(store, seconds=seconds).target for seconds in (719, 721))

    assert (early.starting, early.stuck) == (1, 0)  # type: ignore[union-attr]
    assert (late.starting, late.stuck) == (0, 1)  # type: ignore[union-attr]


def test_a_crash_looping_pod_is_starting_first_and_stuck_later_and_failing_always() -> None:
    pods = ("Pod", pod("crash", waiting="CrashLoopBackOff", restarts=4))

    early, late = target(pods, seconds=30), target(pods, seconds=2000)

    assert (early.starting, early.stuck, early.failing) == (1, 0, 1)
    assert (late.starting, late.stuck, late.failing) == (0, 1, 1)


ROLLOUTS: dict[str, tuple[list[tuple[str, Any]], bool]] = {
    "nothing is going on": ([("Pod", pod("a", ready=1))], False),
    "the controller has not seen the spec": ([("Deployment", deployment(generation=2))], True),
    "some replicas are of the old template": ([("Deployment", deployment(status={"updatedReplicas": 1}))], True),
    "pods of two ReplicaSets live": (
        [("ReplicaSet", replica_set("nim-2")), ("Pod", pod("a", ready=1)), ("Pod", pod("b", of="nim-2"))], True,
    ),
    "the last old pod is leaving": (
        [
            ("ReplicaSet", replica_set("nim-2")), ("Pod", pod("a", ready=1, deletionTimestamp=at(9))),
            ("Pod", pod("b", of="nim-2")),
        ],
        False,
    ),
}  # fmt: skip


def test_a_pod_that_was_ready_is_told_from_one_that_starts() -> None:
    starting, lost = ("Pod", pod("new", scheduled=50, unready=51)), ("Pod", pod("old", scheduled=0, unready=60))
    found = target(("Pod", pod("fine", ready=5)), starting, lost, seconds=100)

    assert (found.ready, found.pods, found.lost_seconds) == (1, 3, (40.0,))


@pytest.mark.parametrize("case", ROLLOUTS)
def test_a_rollout_is_seen_when(case: str) -> None:
    objects, rollout = ROLLOUTS[case]

    assert target(*objects).rollout is rollout


def test_a_target_that_does_not_exist_is_missing() -> None:
    store = cluster(("InferenceDeployment", inference_deployment(target="absent")))

    assert only(store).target == TargetMissing(Reason.TARGET_NOT_FOUND, "Deployment absent not found in call-center")


def test_a_resource_that_does_not_parse_is_paused_with_its_problem_beside_a_good_one() -> None:
    bad = inference_deployment("bad")
    bad["spec"]["sla"] = {"timeToFirstToken": "soon"}
    store = cluster(("InferenceDeployment", bad), ("InferenceDeployment", inference_deployment("good")))

    first, second = snapshot(store).resources

    assert first.policy.mode is ScalingMode.PAUSED
    assert isinstance(first.sized, Unsized)
    assert first.sized.reason is Reason.INVALID_SPEC
    assert "spec.sla.timeToFirstToken" in first.sized.message
    assert isinstance(second.target, Target)


def test_a_resource_that_is_being_deleted_is_left_alone() -> None:
    store = cluster(("InferenceDeployment", inference_deployment(deletionTimestamp=at(9))))

    assert snapshot(store).resources == ()


def test_what_was_not_measured_or_sized_is_missing() -> None:
    resource = only(cluster(("InferenceDeployment", inference_deployment())))

    assert resource.metrics == nothing(Missing(Reason.NO_READY_PODS, "there are no pods to measure"), 0.0)
    assert isinstance(resource.sized, Unsized)


def test_durations_are_divided_by_the_time_scale_and_on_prem_waits_for_a_short_pool() -> None:
    resource = only(cluster(("InferenceDeployment", inference_deployment(pool="h100")), ("GPUPool", pool())))

    assert resource.policy.stabilization_seconds == 30.0
    assert resource.policy.scale_down is ScaleDown.WHEN_POOL_SHORT
    assert resource.pool == "h100"


def judged(store: Store) -> ResourceSnapshot:
    (resource,) = judge_owners(snapshot(store), {}, 600.0).snapshot.resources
    return resource


OWNED = deployment(owner=("NIMService", "x", "uid-x"))
RIVALS: dict[str, tuple[list[tuple[str, Any]], str]] = {
    "no controller": ([], ""),
    "a controller": (
        [("Deployment", OWNED)],
        "owned by NIMService x, which is not scaled here; point targetRef at it where scale.kinds of the chart allows "
        "it, or use scaling.mode: Advisory with the NIMService's own autoscaler",
    ),
    "an autoscaler": (
        [("HorizontalPodAutoscaler", autoscaler("hpa"))],
        "HorizontalPodAutoscaler hpa scales this target; delete it or set scaling.mode: Advisory",
    ),
    "an autoscaler of another target": ([("HorizontalPodAutoscaler", autoscaler("hpa", target="x"))], ""),
    "an autoscaler of another namespace": ([("HorizontalPodAutoscaler", autoscaler("hpa", namespace="x"))], ""),
}  # fmt: skip


@pytest.mark.parametrize("rival", RIVALS)
def test_the_replicas_are_not_ours_when_they_belong_to(rival: str) -> None:
    objects, text = RIVALS[rival]
    store = cluster(("InferenceDeployment", inference_deployment()), *objects)

    assert judged(store).conflict == text


@pytest.mark.parametrize("rival", ["an autoscaler", "a controller"])
def test_who_scales_on_the_advice_of_an_advisory_resource_is_no_rival(rival: str) -> None:
    objects, _ = RIVALS[rival]
    store = cluster(("InferenceDeployment", inference_deployment(scaling={"mode": "Advisory"})), *objects)

    assert judged(store).conflict == ""


@pytest.mark.parametrize("order", [1, -1])
def test_the_younger_of_two_claims_is_refused_whatever_the_order_of_events(order: int) -> None:
    older = inference_deployment("zz-older", creationTimestamp=at(1))
    younger = inference_deployment("aa-younger", creationTimestamp=at(2))
    resources = [("InferenceDeployment", older), ("InferenceDeployment", younger)][::order]

    owned = judge_owners(snapshot(cluster(*resources)), {}, 600.0).snapshot
    texts = {resource.name: resource.conflict for resource in owned.resources}

    refused = "InferenceDeployment zz-older scales Deployment nim already; delete one"
    assert texts == {"zz-older": "", "aa-younger": refused}


def test_a_rendered_deployment_is_owned_by_its_own_resource_without_conflict() -> None:
    body = inference_deployment()
    body["spec"].pop("targetRef")
    body["spec"]["runtime"] = {"type": "NIM", "image": "nvcr.io/nim/meta/llama3-8b-instruct:1.0.3"}
    rendered = deployment("rag", owner=("InferenceDeployment", "rag", "uid-rag"))

    resource = judged(cluster(("InferenceDeployment", body), ("Deployment", rendered)))

    assert isinstance(resource.target, Target), resource.sized
    assert (resource.target.name, resource.conflict) == ("rag", "")


def test_a_rendered_deployment_that_another_controller_owns_is_a_conflict_even_in_advisory_mode() -> None:
    body = inference_deployment(scaling={"mode": "Advisory"})
    body["spec"].pop("targetRef")
    body["spec"]["runtime"] = {"type": "NIM", "image": "nvcr.io/nim/meta/llama3-8b-instruct:1.0.3"}
    taken = deployment("rag", owner=("NIMService", "x", "uid-x"))

    found = judged(cluster(("InferenceDeployment", body), ("Deployment", taken)))

    assert found.conflict.startswith("owned by NIMService x")


def pool_of(*objects: tuple[str, Any], **spec: Any) -> PoolSnapshot:
    return snapshot(cluster(("GPUPool", pool(**spec)), *objects)).pools["h100"]


NODES = [("Node", node("gpu-0")), ("Node", node("gpu-1")), ("Node", node("l40", product="NVIDIA-L40S"))]


def test_the_budget_is_what_was_declared() -> None:
    assert pool_of(*NODES, peakGPUs=12).budget_gpus == 12
    assert pool_of(*NODES, location="Cloud", baseGPUs=4, burstGPUs=6).budget_gpus == 10


def test_the_gpus_of_a_node_that_is_not_ready_are_no_inventory() -> None:
    lost = node("n2")
    lost["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]

    assert pool_of(("Node", node("n1")), ("Node", lost)).inventory_gpus == 8


@pytest.mark.parametrize(("status", "since", "lost"), [("Unknown", 60, (40.0,)), ("False", 1, ()), ("True", 60, ())])
def test_a_node_that_was_ready_is_told_from_one_that_comes(status: str, since: float, lost: tuple[float, ...]) -> None:
    other = node("n2")
    other["status"]["conditions"] = [{"type": "Ready", "status": status, "lastTransitionTime": at(since)}]
    objects = (("GPUPool", pool()), ("Node", node("n1")), ("Node", other))
    found = snapshot(cluster(*objects), seconds=100).pools["h100"]

    assert (found.nodes, found.lost_seconds) == (2, lost)


def test_the_budget_is_else_the_inventory_of_the_nodes_that_report_the_gpu() -> None:
    found = pool_of(*NODES)

    assert (found.budget_gpus, found.inventory_gpus, found.on_prem) == (16, 16, True)


def test_a_node_selector_chooses_the_nodes() -> None:
    nodes = [("Node", node("gpu-0", team="rag")), ("Node", node("gpu-1"))]

    assert pool_of(*nodes, nodeSelector={"team": "rag"}).inventory_gpus == 8


@pytest.mark.parametrize("nodes", [[], NODES[2:], [("Node", node("gpu-0", gpus=None))]])
def test_an_inventory_that_is_not_reported_is_unknown_not_zero(nodes: list[tuple[str, Any]]) -> None:
    found = pool_of(*nodes)

    assert (found.budget_gpus, found.inventory_gpus) == (None, None)


def test_where_no_pool_is_named_it_is_told_on_whose_nodes_the_pods_run() -> None:
    objects = [*NODES, ("GPUPool", pool()), ("InferenceDeployment", inference_deployment())]

    assert only(cluster(*objects, ("Pod", pod("own", ready=1)))).guest_of == "h100"
    assert only(cluster(*objects, ("Pod", pod("own", ready=1, node="elsewhere")))).guest_of is None
    assert only(cluster(*objects)).guest_of is None
    named = [*NODES, ("GPUPool", pool()), ("InferenceDeployment", inference_deployment(pool="h100"))]
    assert only(cluster(*named, ("Pod", pod("own", ready=1)))).guest_of is None


H100, OWN = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, {"team": "own"}
OWN_NODE = ("Node", node("own-0", **OWN))


@pytest.mark.parametrize("is_rendered", [True, False], ids=["rendered", "referred to"])
@pytest.mark.parametrize(
    ("nodes", "pools", "selector", "name"),
    [
        (NODES, [pool()], {}, "h100"),
        (NODES, [pool()], H100, "h100"),
        ([], [pool()], {}, "h100"),
        ([], [pool(gpu="A100-SXM-80GB")], {}, None),
        ([], [pool(nodeSelector={"team": "rag"})], OWN, None),
        ([], [pool("b"), pool("a")], {}, "a"),
        ([*NODES, OWN_NODE], [pool("rag", nodeSelector={"team": "rag"})], {}, None),
        ([*NODES, OWN_NODE], [pool("own", nodeSelector=OWN, gpu="A100-SXM-80GB")], OWN, "own"),
        (NODES, [], {}, None),
    ],
    ids=[
        "by the GPU", "by the label of its nodes", "no node is there yet", "another GPU", "its own nodes are to come",
        "several pools", "there are other nodes", "nodes of a pool that is called otherwise", "no pool",
    ],
)  # fmt: skip
def test_where_no_pool_is_named_and_no_pod_has_a_node_it_is_told_where_they_would_run(
    nodes: list[tuple[str, Any]],
    pools: list[dict[str, Any]],
    selector: dict[str, str],
    name: str | None,
    is_rendered: bool,
) -> None:
    about = inference_deployment()
    if is_rendered:
        about["spec"]["runtime"] = dict(MINIMAL) | {"nodeSelector": selector}
        del about["spec"]["targetRef"]
    there = deployment()
    there["spec"]["template"]["spec"]["nodeSelector"] = selector
    waiting = pod("own", unschedulable=True)
    objects = [*nodes, *(("GPUPool", each) for each in pools), ("InferenceDeployment", about)]

    assert only(cluster(*objects, ("Deployment", there), ("Pod", waiting)), sized=SIZED).guest_of == name


@pytest.mark.parametrize("nodes", [[], NODES])
def test_a_cloud_pool_without_declared_gpus_has_no_budget(nodes: list[tuple[str, Any]]) -> None:
    found = pool_of(*nodes, location="Cloud")

    assert (found.budget_gpus, found.is_elastic) == (None, True)
    assert not pool_of(*nodes, location="Cloud", baseGPUs=4).is_elastic
    assert not pool_of(*nodes).is_elastic


def test_a_pool_that_does_not_parse_has_an_unknown_budget_and_says_why() -> None:
    unreadable = pool_of(*NODES, peakGPUs=-1)

    assert unreadable.budget_gpus is None
    assert unreadable.problem.startswith("spec.peakGPUs")
    assert pool_of(*NODES).problem == ""


def test_gpus_of_strangers_on_the_pool_s_nodes_are_charged() -> None:
    found = pool_of(
        *NODES,
        ("InferenceDeployment", inference_deployment(pool="h100")),
        ("Pod", pod("own", ready=1)),
        ("Pod", pod("own-leaving", ready=1, deletionTimestamp=at(9))),
        ("Pod", pod("notebook", owned=False, gpus=2, node="gpu-1")),
        ("Pod", pod("leaving", owned=False, gpus=1, deletionTimestamp=at(9))),
        ("Pod", pod("elsewhere", owned=False, gpus=4, node="l40")),
        ("Pod", pod("done", owned=False, gpus=8, phase="Succeeded")),
    )

    assert found.charged_elsewhere_gpus == 3


def test_pods_of_a_resource_without_this_pool_are_strangers_to_it() -> None:
    found = pool_of(*NODES, ("InferenceDeployment", inference_deployment()), ("Pod", pod("own", ready=1)))

    assert found.charged_elsewhere_gpus == 1


def test_resources_come_in_a_fixed_order() -> None:
    def resources(*names: str) -> list[tuple[str, Any]]:
        return [("InferenceDeployment", inference_deployment(name, target=name)) for name in names]

    one, other = snapshot(cluster(*resources("b", "a", "c"))), snapshot(cluster(*resources("c", "b", "a")))

    assert [resource.name for resource in one.resources] == ["a", "b", "c"]
    assert one == other


def test_one_that_names_a_pool_and_runs_on_nodes_of_another_is_seen_in_both() -> None:
    pools = [("GPUPool", pool()), ("GPUPool", pool("cloud", location="Cloud", nodeSelector={"in": "cloud"}))]
    shared = ("Node", node("both", **{"in": "cloud"}))
    about = ("InferenceDeployment", inference_deployment(pool="cloud"))

    def strays(*places: str) -> frozenset[str]:
        pods = [("Pod", pod(f"own-{place}", ready=1, node=place)) for place in places]
        return only(cluster(*NODES, shared, *pools, about, *pods)).strays

    assert strays("gpu-0", "both") == {"h100"}
    assert strays("both", "l40", "elsewhere") == frozenset()
    assert strays() == frozenset()
