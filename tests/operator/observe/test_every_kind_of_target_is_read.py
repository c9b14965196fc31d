"""Kinds beside Deployment: replicas, pods and GPUs of each, and what keeps its replicas from being ours."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from firsttoken_operator.decide import judge_owners
from firsttoken_operator.decide.hindered import hindrance
from firsttoken_operator.domain import Reason, ResourceSnapshot, ScalingMode, Target, TargetMissing
from firsttoken_operator.domain.target_kinds import NAMED, TargetKind
from firsttoken_operator.observe.config import DEFAULT
from firsttoken_operator.observe.readiness import TimeToReady
from firsttoken_operator.observe.snapshot import build_snapshot
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.settings import Settings
from firsttoken_operator.run.watches import FAILED_CREATES
from tests.operator.decide.builders import SIZED
from tests.operator.observe.bodies import (
    EPOCH,
    NAMESPACE,
    Body,
    at,
    autoscaler,
    deployment,
    inference_deployment,
    metadata,
    node,
    pod,
    pool,
    replica_set,
)

SERVER = TargetKind("Server", "example.com", "v1", "servers", replicas=("spec", "size"), selector=("status", "pods"))
KINDS = (*NAMED.values(), SERVER)
API = {kind.kind: kind.api_version for kind in KINDS}
NOW = 100.0
STANDARD = {"serving.kserve.io/deploymentMode": "Standard"}


def template(gpus: int) -> Body:
    return {"spec": {"containers": [{"name": "nim", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}}


def stateful_set(replicas: int = 3, **options: Any) -> Body:
    status = {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas} | options.pop("status", {})
    return {"metadata": metadata("nim", **options), "spec": {"replicas": replicas, "template": template(2)},
            "status": status}  # fmt: skip


def leader_worker_set(replicas: int = 3, *, size: int = 2, **status: Any) -> Body:
    group = {"size": size, "leaderTemplate": template(8), "workerTemplate": template(4)}
    return {"metadata": metadata("nim"), "spec": {"replicas": replicas, "leaderWorkerTemplate": group},
            "status": {"replicas": replicas, "updatedReplicas": replicas} | status}  # fmt: skip


def nim_service(replicas: int | None = 3, **spec: Any) -> Body:
    return {"metadata": metadata("nim"), "spec": ({} if replicas is None else {"replicas": replicas}) | spec}


def inference_service(
    replicas: int = 3,
    *,
    most: int | None = None,
    annotations: Body | None = None,
    status: Body | None = None,
    **more: Any,
) -> Body:
    predictor = {"minReplicas": replicas, "maxReplicas": replicas if most is None else most} | more
    made = metadata("nim", annotations=STANDARD if annotations is None else annotations)
    return {"metadata": made, "spec": {"predictor": predictor}, "status": status or {}}


def scaling_adapter(replicas: int = 3, selector: str | None = "graph=chat,component in (decode, worker)") -> Body:
    made = metadata("nim", owner=("DynamoGraphDeployment", "chat", "uid-chat"))
    return {
        "metadata": made,
        "spec": {"replicas": replicas},
        "status": {} if selector is None else {"selector": selector},
    }


def server(size: int | None = 3) -> Body:
    return {"metadata": metadata("nim"), "spec": {} if size is None else {"size": size}, "status": {"pods": "app=nim"}}


LEADER = {"leaderworkerset.sigs.k8s.io/name": "nim", "leaderworkerset.sigs.k8s.io/worker-index": "0"}
WORKER = LEADER | {"leaderworkerset.sigs.k8s.io/worker-index": "1"}
TARGETS: dict[str, tuple[Body, Body]] = {
    "StatefulSet": (stateful_set(), {"of": "nim"}),
    "LeaderWorkerSet": (leader_worker_set(), {"labels": LEADER}),
    "NIMService": (nim_service(), {"labels": {"app": "nim"}}),
    "InferenceService": (
        inference_service(),
        {"labels": {"serving.kserve.io/inferenceservice": "nim", "component": "predictor"}},
    ),
    "DynamoGraphDeploymentScalingAdapter": (scaling_adapter(), {"labels": {"graph": "chat", "component": "decode"}}),
    "Server": (server(), {"labels": {"app": "nim"}}),
}
"""Each kind's object, and what makes a pod one of its own."""
GPUS = {"StatefulSet": 2, "LeaderWorkerSet": 12}


def owned_pod(kind: str, name: str, **options: Any) -> Body:
    body = pod(name, **TARGETS[kind][1], **options)
    if kind == "StatefulSet":
        body["metadata"]["ownerReferences"] = [{"kind": kind, "name": "nim", "uid": "uid-nim", "controller": True}]
    return body


def cluster(kind: str, body: Body | None, *objects: tuple[str, Body]) -> Store:
    store = Store(KINDS)
    store.feed("InferenceDeployment", None, inference_deployment(target_ref=reference(kind)))
    for each, told in (*([] if body is None else [(kind, body)]), *objects):
        store.feed(each, None, told)
    return store


def reference(kind: str) -> Body:
    return {"apiVersion": API[kind], "kind": kind, "name": "nim"}


def only(store: Store, *, is_sized: bool = False) -> ResourceSnapshot:
    sized = dict.fromkeys(store.resources, SIZED) if is_sized else {}
    built = build_snapshot(store, {}, sized, Settings().timing, now_seconds=5.0, wall_seconds=EPOCH + NOW)
    (resource,) = judge_owners(built, {}, 600.0).snapshot.resources
    return resource


def there(store: Store, **options: Any) -> Target:
    found = only(store, **options).target
    assert isinstance(found, Target), found
    return found


def missing(store: Store) -> TargetMissing:
    found = only(store).target
    assert isinstance(found, TargetMissing), found
    return found


@pytest.mark.parametrize("kind", TARGETS)
def test_replicas_and_pods_are_found(kind: str) -> None:
    pods = [
        ("Pod", owned_pod(kind, "a", ready=30)), ("Pod", owned_pod(kind, "b")),
        ("Pod", owned_pod(kind, "c", ready=30, deletionTimestamp="2025-06-15T15:07:00Z")),
        ("Pod", pod("stranger", of="other-1", ready=1)), ("Pod", pod("job", owned=False, ready=1)),
    ]  # fmt: skip
    store = cluster(kind, TARGETS[kind][0], *pods)
    found = there(store)

    assert (found.kind.kind, found.replicas) == (kind, 3)
    assert (found.ready, found.starting, found.terminating) == (1, 1, 1)
    assert found.gpus_per_replica == GPUS.get(kind, 1)
    assert store.time_to_ready("uid-nim") == TimeToReady(30.0, 30.0, 30.0, 2)
    assert (found.rollout, only(store).conflict) == (False, "")


@pytest.mark.parametrize("kind", TARGETS)
def test_the_order_of_events_makes_no_difference(kind: str) -> None:
    told = ((kind, TARGETS[kind][0]), ("Pod", owned_pod(kind, "a", ready=30)), ("Pod", owned_pod(kind, "b", ready=40)))
    for order in itertools.permutations(told):
        store = cluster(kind, None, *order)
        assert [each.name for each in store.pods_of("uid-nim")] == ["a", "b"]
        assert store.time_to_ready("uid-nim") == TimeToReady(30.0, 40.0, 40.0, 2)
        store.feed("Pod", "DELETED", {"metadata": {"uid": "uid-a"}})
        assert [each.name for each in store.live_pods("uid-nim", EPOCH)] == ["b"]
        store.feed(kind, "DELETED", {"metadata": {"uid": "uid-nim"}})
        assert missing(store) == TargetMissing(Reason.TARGET_NOT_FOUND, f"{kind} nim not found in {NAMESPACE}")
        assert store.time_to_ready("uid-nim") is None


def test_pods_follow_a_selector_that_changes_and_labels_that_do() -> None:
    kind, here = "DynamoGraphDeploymentScalingAdapter", {"graph": "chat"}
    store = cluster(kind, scaling_adapter(selector="graph=rag"), ("Pod", pod("a", ready=1, labels=here)))
    assert there(store).ready == 0
    store.feed(kind, "MODIFIED", scaling_adapter(selector="graph=chat"))
    assert there(store).ready == 1
    store.feed("Pod", "MODIFIED", pod("a", ready=1, labels={"graph": "another"}))
    assert there(store).ready == 0


def test_a_replica_of_several_pods_is_ready_with_its_leader_and_holds_the_gpus_of_all() -> None:
    workers = [("Pod", pod(name, ready=1, labels=WORKER, node="gpu-0")) for name in ("a-1", "b-1")]
    leaders = [("Pod", pod(name, labels=LEADER, ready=ready)) for name, ready in (("a", 1), ("b", None))]
    store = cluster("LeaderWorkerSet", leader_worker_set(2, size=3), *workers, *leaders)
    found = there(store)

    assert (found.replicas, found.ready, found.starting, found.gpus_per_replica) == (2, 1, 1, 8 + 2 * 4)
    assert [each.name for each in store.members_of("uid-nim")] == ["a", "a-1", "b", "b-1"]


def in_group(number: int, labels: Body) -> Body:
    return labels | {"leaderworkerset.sigs.k8s.io/group-index": str(number)}


@pytest.mark.parametrize(
    ("worker", "counts"),
    [
        pytest.param({"unschedulable": True}, (1, 0, 1), id="no place"),
        pytest.param({"waiting": "ImagePullBackOff"}, (0, 1, 0), id="fails"),
        pytest.param({"ready": 1}, (0, 0, 0), id="starts"),
    ],
)
def test_a_group_waits_where_one_of_its_workers_does(worker: Body, counts: tuple[int, int, int]) -> None:
    pods = [
        ("Pod", pod(name, labels=in_group(number, labels), **options))
        for name, number, labels, options in (
            ("a", 0, LEADER, {}), ("a-1", 0, WORKER, worker), ("b", 1, LEADER, {}), ("b-1", 1, WORKER, {"ready": 1}),
            ("c", 2, LEADER, {"ready": 1}), ("c-1", 2, WORKER, {"unschedulable": True}),
        )
    ]  # fmt: skip
    seen = there(cluster("LeaderWorkerSet", leader_worker_set(3), *pods))

    assert (seen.ready, seen.starting) == (1, 2)
    assert (seen.unschedulable, seen.failing, seen.unplaced) == counts


def test_a_pool_is_not_charged_twice_for_the_workers_of_a_group() -> None:
    store = Store(KINDS)
    for kind, body in (
        ("InferenceDeployment", inference_deployment(target_ref=reference("LeaderWorkerSet"), pool="h100")),
        ("GPUPool", pool()), ("Node", node("gpu-0")), ("LeaderWorkerSet", leader_worker_set(1)),
        ("Pod", pod("a", labels=LEADER, gpus=8)), ("Pod", pod("a-1", labels=WORKER, gpus=4)),
        ("Pod", pod("stranger", owned=False, gpus=2)),
    ):  # fmt: skip
        store.feed(kind, None, body)
    built = build_snapshot(store, {}, {}, Settings().timing, now_seconds=5.0, wall_seconds=EPOCH)

    assert built.pools["h100"].charged_elsewhere_gpus == 2


def test_every_pod_that_is_labelled_as_a_worker_is_charged_to_its_set() -> None:
    """The labels are the tenant's to write: what they take from the pods of others has to be held by the set."""
    worker = LEADER | {"leaderworkerset.sigs.k8s.io/worker-index": "9"}
    others = [("Pod", pod(f"job-{number}", owned=False, gpus=8, labels=worker)) for number in range(5)]
    leader = ("Pod", pod("a", labels=LEADER, gpus=8, ready=1))
    store = cluster("LeaderWorkerSet", leader_worker_set(1), leader, *others)

    assert there(store).occupied_gpus == 8 + 5 * 8
    assert there(cluster("LeaderWorkerSet", leader_worker_set(1), leader)).occupied_gpus == 8 + 4


@pytest.mark.parametrize("kind", TARGETS)
def test_no_gpu_of_a_pod_that_counts_as_its_own_is_left_uncharged(kind: str) -> None:
    options = TARGETS[kind][1]
    labels = options.get("labels", {}) | {"leaderworkerset.sigs.k8s.io/worker-index": "3"}
    pods = [("Pod", owned_pod(kind, name, gpus=16)) for name in ("a", "b")]
    pods += [("Pod", pod("beside", gpus=16, labels=labels)), ("Pod", pod("job", owned=False, gpus=16, labels=labels))]
    store = cluster(kind, TARGETS[kind][0], *pods)

    assert there(store).occupied_gpus >= sum(each.gpus for each in store.members_of("uid-nim"))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("StatefulSet", stateful_set(status={"updatedReplicas": 1})),
        ("StatefulSet", stateful_set(generation=2)),
        ("LeaderWorkerSet", leader_worker_set(conditions=[{"type": "UpdateInProgress", "status": "True"}])),
        ("LeaderWorkerSet", leader_worker_set(updatedReplicas=1)),
    ],
)
def test_a_rollout_is_seen(kind: str, body: Body) -> None:
    assert there(cluster(kind, body)).rollout


def test_what_is_known_of_the_deployment_that_a_target_makes_is_known_of_the_target() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus"}
    made = deployment(
        "made", owner=("NIMService", "nim", "uid-nim"), gpus=4, status={"conditions": [failure], "updatedReplicas": 1}
    )
    made["spec"]["template"]["metadata"] = {"labels": {"app": "nim"}}
    beside = deployment("beside", owner=("NIMService", "nim", "uid-nim"), gpus=1)
    store = cluster("NIMService", nim_service(), ("Deployment", beside), ("Deployment", made))
    found = there(store)

    assert (found.gpus_per_replica, found.refused, found.rollout) == (4, "exceeded quota: gpus", True)
    assert found.ending is not None
    assert found.ending.grace_seconds == 30.0


def failed_create(name: str, said: str, seconds: float | None, uid: str = "e-1", **fields: Any) -> tuple[str, Body]:
    """An Event of a controller that was refused a pod (None: it does not say when)."""
    times = {} if seconds is None else {"lastTimestamp": at(seconds)}
    about = {"kind": "StatefulSet", "namespace": NAMESPACE, "name": name}
    return "Event", {
        "metadata": metadata(f"{name}.{uid}", uid=uid),
        "involvedObject": about,
        "message": said,
    } | times | fields


NO_NAME = "n" * 254
"""Longer than the name of any object."""
EVENT_TOLD = ("StatefulSet", "LeaderWorkerSet")


@pytest.mark.parametrize("kind", EVENT_TOLD)
@pytest.mark.parametrize(
    ("events", "refused"),
    [
        ([failed_create("nim", "exceeded quota: gpus", 50)], "exceeded quota: gpus"),
        ([failed_create("nim", "old", 50), failed_create("nim", "newest", 60, "e-2")], "newest"),
        ([failed_create("nim", "old", 9, series={"lastObservedTime": at(70)})], "old"),
        ([failed_create("nim", "before the last pod was made", 39)], ""),
        ([failed_create("other", "of another", 50)], ""),
        ([failed_create("nim", "of no time", None)], ""),
        ([failed_create("nim", "x" * 5000, 50)], "x" * 400),
        ([failed_create("nim", "of what now has no such name", 50), failed_create(NO_NAME, "x", 50)], ""),
        ([failed_create("nim", "by a clock that is ahead", NOW + 59)], "by a clock that is ahead"),
        ([failed_create("nim", "so far", 50), failed_create("nim", "in a year", NOW + 3e7, "e-2")], "so far"),
        ([failed_create("nim", "in 9999", None, lastTimestamp="9999-12-31T23:59:59Z")], ""),
        ([("Event", {"metadata": {"uid": "e-1"}}), ("Event", {})], ""),
    ],
    ids=[
        "refused",
        "the newest counts",
        "told again",
        "made since",
        "of another",
        "no time",
        "long",
        "no name",
        "ahead",
        "in the future",
        "for ever",
        "nonsense",
    ],
)
def test_what_an_event_says_of_a_refused_pod_is_known(kind: str, events: list[tuple[str, Body]], refused: str) -> None:
    made = owned_pod(kind, "a", ready=30, creationTimestamp=at(40))
    store = cluster(kind, TARGETS[kind][0], ("Pod", made), *events)

    assert there(store).refused == refused


@pytest.mark.parametrize(
    ("replicas", "written", "refused"), [(3, 45, "x"), (1, 45, ""), (3, 55, "")],
    ids=["missing since", "none is missing", "what is missing was asked for afterwards and may be there, unseen"],
)  # fmt: skip
def test_a_refusal_is_that_of_the_pods_that_are_missing(replicas: int, written: float, refused: str) -> None:
    scaled = {"manager": "kubectl", "time": at(written), "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    body = stateful_set(replicas, managedFields=[scaled])
    store = cluster("StatefulSet", body, ("Pod", owned_pod("StatefulSet", "a")), failed_create("nim", "x", 50))

    assert there(store).refused == refused


@pytest.mark.parametrize("ends", [False, True], ids=["live", "ending"])
def test_what_was_refused_before_the_newest_pod_stays_over_when_that_pod_ends(ends: bool) -> None:
    deletion = {"deletionTimestamp": at(70)} if ends else {}
    newest = owned_pod("StatefulSet", "b", creationTimestamp=at(60), **deletion)
    pods = [("Pod", owned_pod("StatefulSet", "a", creationTimestamp=at(40))), ("Pod", newest)]
    store = cluster("StatefulSet", stateful_set(), *pods, failed_create("nim", "before the newest", 50))

    assert (there(store).terminating, there(store).refused) == (int(ends), "")


def test_a_group_whose_workers_are_refused_is_named() -> None:
    def of_group(number: int, name: str, labels: Body, **options: Any) -> tuple[str, Body]:
        grouped = labels | {"leaderworkerset.sigs.k8s.io/group-index": str(number)}
        return "Pod", pod(name, labels=grouped, **options)

    store = cluster(
        "LeaderWorkerSet", leader_worker_set(size=3),
        of_group(0, "nim-0", LEADER, ready=30), of_group(0, "nim-0-1", WORKER, ready=30),
        of_group(1, "nim-1", LEADER), of_group(1, "nim-1-1", WORKER, creationTimestamp=at(40)),
        of_group(2, "nim-2", LEADER), of_group(2, "nim-2-1", WORKER, creationTimestamp=at(60)),
        failed_create("nim-0", "of a group that is ready", 50, "e-0"),
        failed_create("nim-1", "exceeded quota: gpus", 50, "e-1"),
        failed_create("nim-2", "before the last pod was made", 50, "e-2"),
    )  # fmt: skip
    found = there(store)

    assert (found.refused, found.hindrances.half_made, found.hindrances.refused) == ("", 1, "exceeded quota: gpus")
    assert hindrance(found) == (Reason.PODS_REFUSED, "pods of 1 groups are refused: exceeded quota: gpus")


def test_of_a_refusal_that_is_over_nothing_is_known() -> None:
    store = cluster("StatefulSet", stateful_set(), told := failed_create("nim", "exceeded quota: gpus", 50))
    assert there(store).unmade == 3
    store.feed("Event", "DELETED", told[1])

    assert there(store).unmade == 0


def test_a_deployment_says_itself_what_is_refused() -> None:
    store = Store(KINDS)
    store.feed("InferenceDeployment", None, inference_deployment())
    for kind, body in (("Deployment", deployment()), failed_create("nim", "of a StatefulSet of that name", 50)):
        store.feed(kind, None, body)

    assert there(store).refused == ""


@pytest.mark.parametrize(
    ("namespace", "name", "refused"),
    [
        ("hostile", "made-up", "exceeded quota: gpus"),
        (NAMESPACE, NO_NAME, "exceeded quota: gpus"),
        (NAMESPACE, NO_NAME[:253], ""),
    ],
)
def test_a_flood_of_events_is_bounded_and_hides_those_of_its_own_namespace_only(
    namespace: str, name: str, refused: str
) -> None:
    store = cluster("StatefulSet", stateful_set(), failed_create("nim", "exceeded quota: gpus", 50))
    for number in range(DEFAULT.kept_refusals):
        kind, body = failed_create(name, "x", 60, uid=f"made-up-{number}")
        body["metadata"]["namespace"] = namespace
        store.feed(kind, None, body)

    assert there(store).refused == refused


def test_events_of_the_controller_of_stateful_sets_are_asked_for_and_no_others() -> None:
    assert "source=statefulset-controller" in FAILED_CREATES.field_selector.split(",")


SERVICES = {"NIMService": "nim-chat", "InferenceService": "nim-predictor"}
"""Kinds that make a Deployment, and its name."""


@pytest.mark.parametrize("kind", SERVICES)
def test_pods_that_only_have_the_labels_of_a_replica_are_none(kind: str) -> None:
    name, labels = SERVICES[kind], TARGETS[kind][1]["labels"]
    made = deployment(name, owner=(kind, "nim", "uid-nim"), gpus=2)
    made["spec"]["template"]["metadata"] = {"labels": labels}
    chain = [("Deployment", made), ("ReplicaSet", replica_set("made-1", of=name)),
             ("ReplicaSet", replica_set("ui-1", of="ui"))]  # fmt: skip
    beside = [("Pod", pod(f"ui-{number}", of="ui-1", gpus=0, labels=labels, ready=1)) for number in range(7)]
    job = ("Pod", pod("job", owned=False, gpus=8, labels=labels, ready=1))
    replica = ("Pod", pod("a", of="made-1", gpus=2, labels=labels, ready=30))
    for order in ([*chain, replica, *beside, job], [job, *beside, replica, *chain]):
        store = cluster(kind, TARGETS[kind][0], *order)
        found = there(store)
        assert (found.ready, found.gpus_per_replica, found.occupied_gpus) == (1, 2, 2)
        assert [each.name for each in store.live_pods("uid-nim", EPOCH)] == ["a"]
        assert [each.name for each in store.members_of("uid-nim")] == ["a"]


@pytest.mark.parametrize("kind", ["NIMService", "InferenceService", "DynamoGraphDeploymentScalingAdapter", "Server"])
def test_beside_pods_with_gpus_those_without_are_no_replicas(kind: str) -> None:
    replica = ("Pod", owned_pod(kind, "a", gpus=2, ready=30))
    beside = [("Pod", owned_pod(kind, f"ui-{number}", gpus=0, ready=1)) for number in range(7)]
    store = cluster(kind, TARGETS[kind][0], replica, *beside)
    found = there(store)

    assert (found.ready, found.gpus_per_replica, found.occupied_gpus) == (1, 2, 2)
    assert store.time_to_ready("uid-nim") == TimeToReady(30.0, 30.0, 30.0, 1)


def test_a_target_without_gpus_has_the_pods_that_it_selects() -> None:
    store = cluster("Server", server(), *(("Pod", owned_pod("Server", name, gpus=0, ready=1)) for name in "ab"))

    assert (there(store).ready, there(store).gpus_per_replica) == (2, 0)


def test_pods_of_its_replica_sets_can_be_chosen_to_end_and_those_of_a_stateful_set_cannot() -> None:
    labels = {"app": "nim"}
    service = cluster("NIMService", nim_service(), ("ReplicaSet", replica_set()), ("Pod", pod("a", labels=labels)))
    ordered = cluster("StatefulSet", stateful_set(), ("Pod", owned_pod("StatefulSet", "a")))

    assert [each.name for each in service.replica_pods("uid-nim")] == ["a"]
    assert ordered.replica_pods("uid-nim") == ()


def test_without_template_and_pods_a_replica_is_as_it_was_sized() -> None:
    store = cluster("Server", server(0))

    assert there(store).gpus_per_replica == 1
    assert there(store, is_sized=True).gpus_per_replica == SIZED.configuration.gpus_per_replica
    store.feed("Pod", None, owned_pod("Server", "a", gpus=8))
    assert there(store, is_sized=True).gpus_per_replica == 8


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("Server", server(None), "Server nim has no spec.size"),
        (
            "DynamoGraphDeploymentScalingAdapter",
            scaling_adapter(selector=None),
            "DynamoGraphDeploymentScalingAdapter nim has no selector of its pods in status.selector",
        ),
        (
            "DynamoGraphDeploymentScalingAdapter",
            scaling_adapter(selector="graph in chat"),
            "DynamoGraphDeploymentScalingAdapter nim has no selector of its pods in status.selector",
        ),
    ],
)
def test_what_cannot_be_read_is_not_taken_for_nothing(kind: str, body: Body, message: str) -> None:
    assert missing(cluster(kind, body)) == TargetMissing(Reason.TARGET_UNREADABLE, message)


@pytest.mark.parametrize("kind", ["NIMService", "InferenceService"])
def test_replicas_that_are_not_set_are_one(kind: str) -> None:
    body = nim_service(None) if kind == "NIMService" else inference_service()
    body["spec"].get("predictor", {}).clear()

    assert there(cluster(kind, body)).replicas == 1


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"apiVersion": "ray.io/v1", "kind": "RayService"}, "RayService (ray.io/v1)"),
        ({"apiVersion": "apps/v1", "kind": "LeaderWorkerSet"}, "LeaderWorkerSet (apps/v1)"),
        ({"apiVersion": "apps/v1", "kind": "StatefulSet"}, "StatefulSet (apps/v1)"),
    ],
)
def test_a_kind_that_is_not_allowed_is_refused_with_the_value_that_allows_it(named: Body, said: str) -> None:
    store = Store([NAMED["LeaderWorkerSet"]])
    store.feed("InferenceDeployment", None, inference_deployment(target_ref=named | {"name": "nim"}))

    assert missing(store) == TargetMissing(
        Reason.TARGET_KIND_NOT_ALLOWED,
        f"{said} is not among the kinds that are scaled here: Deployment (apps/v1), LeaderWorkerSet "
        "(leaderworkerset.x-k8s.io/v1); the administrator allows others by scale.kinds of the chart",
    )


@pytest.mark.parametrize("refused", [{"apiVersion": "ray.io/v1", "kind": "RayService"},
                                     {"apiVersion": "x.io/v1", "kind": "Deployment"}], ids=str)  # fmt: skip
def test_a_kind_that_is_not_allowed_keeps_nothing_of_its_name_from_being_scaled(refused: Body) -> None:
    store = Store([NAMED["LeaderWorkerSet"]])
    older = inference_deployment(
        "older", target_ref=refused | {"name": "nim"}, creationTimestamp="2025-01-01T00:00:00Z"
    )
    for kind, body in (
        ("InferenceDeployment", older), ("InferenceDeployment", inference_deployment("younger")),
        ("Deployment", deployment()), ("HorizontalPodAutoscaler", autoscaler("hpa")),
    ):  # fmt: skip
        store.feed(kind, None, body)
    built = build_snapshot(store, {}, {}, Settings().timing, now_seconds=5.0, wall_seconds=EPOCH + 100)
    judged = {each.name: each.conflict for each in judge_owners(built, {}, 600.0).snapshot.resources}

    assert judged["older"] == ""
    assert judged["younger"].startswith("HorizontalPodAutoscaler hpa")
    store.feed("HorizontalPodAutoscaler", "DELETED", autoscaler("hpa"))
    built = build_snapshot(store, {}, {}, Settings().timing, now_seconds=5.0, wall_seconds=EPOCH + 100)
    assert [each.conflict for each in judge_owners(built, {}, 600.0).snapshot.resources] == ["", ""]


def test_another_version_of_a_kind_is_the_same_object() -> None:
    store = Store([NAMED["InferenceService"]])
    named = {"apiVersion": "serving.kserve.io/v1", "kind": "InferenceService", "name": "nim"}
    store.feed("InferenceDeployment", None, inference_deployment(target_ref=named))
    store.feed("InferenceService", None, inference_service())

    assert there(store).kind.api_version == "serving.kserve.io/v1beta1"


ITS_OWN_SCALING: dict[str, tuple[str, Body, str]] = {
    "its own HPA": ("NIMService", nim_service(None, scale={"enabled": True}), "has spec.scale.enabled"),
    "several nodes": ("NIMService", nim_service(multiNode={"parallelism": {}}), "over several nodes (spec.multiNode)"),
    "workers": ("InferenceService", inference_service(workerSpec={"pipelineParallelSize": 2}), "(workerSpec)"),
    "workers of defaults": ("InferenceService", inference_service(workerSpec={}), "(workerSpec)"),
    "a range": ("InferenceService", inference_service(1, most=4), "set both to the same number"),
    "Knative": ("InferenceService", inference_service(status={"deploymentMode": "Knative"}), "runs as Knative"),
    "an older word for it": (
        "InferenceService",
        inference_service(annotations={"serving.kserve.io/deploymentMode": "Serverless"}), "runs as Serverless",
    ),
    "an unknown mode": ("InferenceService", inference_service(annotations={}), "does not say how it runs"),
    "another autoscaler": (
        "InferenceService",
        inference_service(annotations=STANDARD | {"serving.kserve.io/autoscalerClass": "external"}), "set it to none",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "body", "said"), ITS_OWN_SCALING.values(), ids=ITS_OWN_SCALING)
def test_what_scales_itself_is_left_to_itself(kind: str, body: Body, said: str) -> None:
    assert said in only(cluster(kind, body)).conflict


@pytest.mark.parametrize("mode", ["RawDeployment", "Standard"])
def test_a_predictor_that_is_a_deployment_is_scaled(mode: str) -> None:
    told = inference_service(annotations={"serving.kserve.io/deploymentMode": mode}, status={"deploymentMode": mode})

    assert only(cluster("InferenceService", told)).conflict == ""


@pytest.mark.parametrize("kind", TARGETS)
def test_an_autoscaler_on_it_is_a_rival_and_one_on_another_kind_of_its_name_is_not(kind: str) -> None:
    ours, other = autoscaler("hpa"), autoscaler("other")
    ours["spec"]["scaleTargetRef"]["kind"] = kind
    store = cluster(kind, TARGETS[kind][0], ("HorizontalPodAutoscaler", other))
    assert only(store).conflict == ""
    store.feed("HorizontalPodAutoscaler", None, ours)

    assert "HorizontalPodAutoscaler hpa scales this target" in only(store).conflict


def test_what_a_target_makes_is_scaled_through_the_target() -> None:
    store = Store([NAMED["NIMService"]])
    for kind, body in (
        ("InferenceDeployment", inference_deployment(target="nim")),
        ("Deployment", deployment(owner=("NIMService", "nim", "uid-service"))),
    ):
        store.feed(kind, None, body)
    assert only(store).conflict == "owned by NIMService nim; point targetRef at it"
    store.feed("Deployment", "MODIFIED", deployment(owner=("RayService", "nim", "uid-service")))

    assert only(store).conflict == (
        "owned by RayService nim, which is not scaled here; point targetRef at it where scale.kinds of the chart "
        "allows it, or use scaling.mode: Advisory with the RayService's own autoscaler"
    )


def test_two_resources_may_name_objects_of_one_name_and_two_kinds() -> None:
    store = cluster("StatefulSet", stateful_set(), ("Deployment", deployment()))
    store.feed("InferenceDeployment", None, inference_deployment("other"))
    built = build_snapshot(store, {}, {}, Settings().timing, now_seconds=5.0, wall_seconds=EPOCH)

    assert [each.conflict for each in judge_owners(built, {}, 600.0).snapshot.resources] == ["", ""]


@pytest.mark.parametrize(
    ("kind", "body", "fields"),
    [
        ("NIMService", nim_service(), {"f:spec": {"f:replicas": {}}}),
        ("InferenceService", inference_service(), {"f:spec": {"f:predictor": {"f:minReplicas": {}}}}),
        ("Server", server(), {"f:spec": {"f:size": {}}}),
    ],
)
def test_another_writer_of_its_replicas_is_known_by_name(kind: str, body: Body, fields: Body) -> None:
    entry = {"manager": "argocd", "time": "2026-11-01T00:00:00Z", "fieldsV1": fields}
    body = body | {"metadata": body["metadata"] | {"managedFields": [entry, entry | {"manager": "firsttoken-scale"}]}}

    assert only(cluster(kind, body)).claims.writer == "argocd"


def test_advice_about_it_needs_no_ownership() -> None:
    store = Store(KINDS)
    told = inference_deployment(target_ref=reference("NIMService"), scaling={"mode": ScalingMode.ADVISORY.value})
    store.feed("InferenceDeployment", None, told)
    store.feed("NIMService", None, nim_service(None, scale={"enabled": True}))

    assert only(store).conflict == ""


@pytest.mark.parametrize(("owner", "scaled"), [("uid-nim-rendered", "LeaderWorkerSet"), ("another", "Deployment")])
def test_what_was_rendered_is_scaled_whichever_kind_it_is_of(owner: str, scaled: str) -> None:
    resource = inference_deployment("nim", uid="uid-nim-rendered")
    del resource["spec"]["targetRef"]
    resource["spec"]["runtime"] = {"type": "VLLM", "image": "vllm/vllm-openai:v0.33.0"}
    groups = leader_worker_set(3)
    groups["metadata"] = metadata("nim", owner=("InferenceDeployment", "nim", owner))
    store = Store(KINDS)
    for kind, body in (
        ("InferenceDeployment", resource),
        ("LeaderWorkerSet", groups),
        ("Pod", pod("a", labels=LEADER)),
    ):
        store.feed(kind, None, body)
    seen = only(store)

    assert seen.claims.kind.kind == scaled
    if scaled == "Deployment":
        assert isinstance(seen.target, TargetMissing)
        return
    assert isinstance(seen.target, Target)
    assert (seen.target.replicas, seen.target.gpus_per_replica, seen.conflict) == (3, 12, "")
