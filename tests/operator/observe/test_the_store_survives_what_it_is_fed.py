"""The store: owner chains in any order of events, bad objects that hide no others, learned start times."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.api.status import GPUPoolStatus, InferenceDeploymentStatus
from firsttoken_operator.domain import DEPLOYMENT
from firsttoken_operator.observe.readiness import TimeToReady
from firsttoken_operator.observe.store import Store
from firsttoken_operator.observe.workloads import project_workload
from tests.fixtures.hypothesis_scale import examples
from tests.operator.observe.bodies import (
    EPOCH,
    NAMESPACE,
    at,
    autoscaler,
    deployment,
    inference_deployment,
    node,
    pod,
    pool,
    replica_set,
)

KINDS = (
    "InferenceDeployment", "GPUPool", "BenchmarkProfile", "Deployment", "ReplicaSet", "Pod", "Node",
    "HorizontalPodAutoscaler",
)  # fmt: skip
CHAIN = (("Deployment", deployment()), ("ReplicaSet", replica_set()), ("Pod", pod("a", ready=30)))


def names(store: Store) -> list[str]:
    return [pod.name for pod in store.pods_of("uid-nim")]


@pytest.mark.parametrize("order", list(itertools.permutations(CHAIN)))
def test_the_owner_chain_is_found_in_any_order_of_events(order: tuple[tuple[str, Any], ...]) -> None:
    store = Store()
    for kind, body in order:
        store.feed(kind, None, body)

    assert names(store) == ["a"]
    assert store.time_to_ready("uid-nim") == TimeToReady(30.0, 30.0, 30.0, 1)


def test_pods_that_share_labels_but_not_the_owner_are_strangers() -> None:
    store = Store()
    for kind, body in CHAIN:
        store.feed(kind, None, body)
    store.feed("Pod", "ADDED", pod("job", owned=False, ready=1))
    store.feed("Pod", "ADDED", pod("other", of="other-1", ready=1))

    assert names(store) == ["a"]


def test_deleted_and_finished_pods_are_gone() -> None:
    store = Store()
    for kind, body in CHAIN:
        store.feed(kind, None, body)
    store.feed("Pod", "ADDED", pod("b"))
    store.feed("Pod", "DELETED", {"metadata": {"uid": "uid-a"}})
    store.feed("Pod", "MODIFIED", pod("b", phase="Succeeded"))

    assert names(store) == []


def test_a_target_that_was_made_anew_is_found_although_the_old_one_is_deleted_later() -> None:
    store = Store()
    store.feed("Deployment", "ADDED", deployment())
    store.feed("Deployment", "ADDED", deployment(uid="uid-new", replicas=9))
    store.feed("Deployment", "DELETED", deployment())

    found = store.workload(NAMESPACE, "nim")

    assert found is not None
    assert (found.uid, found.replicas) == ("uid-new", 9)


def test_an_event_told_twice_changes_nothing() -> None:
    store = Store()
    for kind, body in (*CHAIN, *CHAIN):
        store.feed(kind, None, body)

    assert names(store) == ["a"]
    known = store.time_to_ready("uid-nim")
    assert known is not None
    assert known.pods == 1


def test_a_resource_that_does_not_parse_is_kept_with_field_and_fix() -> None:
    store = Store()
    bad = inference_deployment("bad")
    bad["spec"]["traffic"]["inputTokens"] = -1
    store.feed("InferenceDeployment", "ADDED", bad)
    store.feed("InferenceDeployment", "ADDED", inference_deployment("good"))

    assert store.resources["uid-bad"].parsed is None
    assert store.resources["uid-bad"].problem.startswith("spec.traffic.inputTokens: ")
    assert store.resources["uid-good"].parsed is not None
    assert store.resources["uid-good"].problem == ""


def test_a_status_of_a_newer_operator_does_not_spoil_the_spec() -> None:
    store = Store()
    body = inference_deployment() | {"status": {"replicas": "many", "conditions": 7}}
    store.feed("InferenceDeployment", "ADDED", body)

    assert store.resources["uid-rag"].parsed is not None
    assert store.resources["uid-rag"].status == InferenceDeploymentStatus()


def test_a_spec_that_cannot_be_read_does_not_hide_the_status() -> None:
    store = Store()
    body = inference_deployment() | {"spec": {"model": 7}}
    store.feed("InferenceDeployment", "ADDED", body | {"status": {"replicas": 3}})
    store.feed("GPUPool", "ADDED", pool() | {"spec": 7, "status": 7})

    assert store.resources["uid-rag"].parsed is None
    assert store.resources["uid-rag"].status == InferenceDeploymentStatus(replicas=3)
    assert next(iter(store.pools.values())).status == GPUPoolStatus()


def test_a_status_is_in_memory_once() -> None:
    store = Store()
    store.feed("InferenceDeployment", "ADDED", inference_deployment() | {"status": {"replicas": 3}})
    stored = store.resources["uid-rag"]

    assert stored.parsed is not None
    assert stored.status is stored.parsed.status


def test_annotations_that_hold_whole_bodies_are_not_kept() -> None:
    store = Store()
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 10_000}
    store.feed("Deployment", "ADDED", deployment(annotations=annotations))

    found = store.workload(NAMESPACE, "nim")

    assert found is not None
    assert "xxx" not in repr(found)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
BODIES: dict[str, Any] = {
    "InferenceDeployment": inference_deployment(), "GPUPool": pool(), "BenchmarkProfile": pool(),
    "Deployment": deployment(), "ReplicaSet": replica_set(), "Pod": pod("a", ready=1), "Node": node("n"),
    "HorizontalPodAutoscaler": autoscaler("h"),
}  # fmt: skip


@given(st.sampled_from(KINDS), st.data())
@settings(max_examples=examples(400))
def test_a_spoiled_object_never_raises_and_hides_no_other(kind: str, data: st.DataObject) -> None:
    store = Store()
    for other, body in CHAIN:
        store.feed(other, None, body)
    part = data.draw(st.sampled_from(["metadata", "spec", "status"]))
    spoiled = {**BODIES[kind], "metadata": {**BODIES[kind]["metadata"], "uid": "uid-spoiled"}}
    inner = spoiled.get(part)
    keys = sorted(inner) if isinstance(inner, dict) and inner else [""]
    spoiled[part] = {**(inner or {}), data.draw(st.sampled_from(keys)): data.draw(JSON)}
    if data.draw(st.booleans()) and part != "metadata":
        spoiled[part] = data.draw(JSON)

    store.feed(kind, "ADDED", spoiled)
    store.feed(kind, "MODIFIED", spoiled)
    store.feed(kind, "DELETED", spoiled)

    assert "a" in names(store)


def test_a_restarted_container_says_no_start_time() -> None:
    store = Store()
    for kind, body in (*CHAIN[:2], ("Pod", pod("a", ready=9000, restarts=1))):
        store.feed(kind, None, body)

    assert store.time_to_ready("uid-nim") is None


def test_readiness_that_came_back_after_days_is_no_start_time() -> None:
    store = Store()
    for kind, body in (*CHAIN[:2], ("Pod", pod("a", ready=2 * 86400)), ("Pod", pod("b", ready=3000))):
        store.feed(kind, None, body)

    assert store.time_to_ready("uid-nim") == TimeToReady(3000.0, 3000.0, 3000.0, 1)


def test_a_probe_that_failed_for_a_while_says_nothing_new() -> None:
    store = Store()
    for kind, body in (*CHAIN, ("Pod", pod("a")), ("Pod", pod("a", ready=2000))):
        store.feed(kind, None, body)

    assert store.time_to_ready("uid-nim") == TimeToReady(30.0, 30.0, 30.0, 1)


def test_only_the_last_fifty_starts_count() -> None:
    store = Store()
    for kind, body in CHAIN[:2]:
        store.feed(kind, None, body)
    for index in range(60):
        store.feed("Pod", None, pod(f"p{index}", ready=1000 if index < 10 else index))

    known = store.time_to_ready("uid-nim")

    assert known == TimeToReady(p50_seconds=34.0, p90_seconds=54.0, p99_seconds=59.0, pods=50)


def test_how_long_a_pod_has_been_ready_is_told_to_measure() -> None:
    store = Store()
    for kind, body in CHAIN:
        store.feed(kind, None, body)
    store.feed("Pod", "ADDED", pod("b"))
    store.feed("Pod", "ADDED", pod("c", ready=10, deletionTimestamp=at(40)))

    live = {pod.name: (pod.ready_seconds, pod.terminating) for pod in store.live_pods("uid-nim", EPOCH + 50)}

    assert live == {"a": (20.0, False), "b": (None, False), "c": (40.0, True)}


def kept(store: Store) -> dict[str, int]:
    """Size of each collection of a store, those of what it learns included."""
    parts = vars(store) | {f"readiness{name}": value for name, value in vars(store._readiness).items()}
    return {name: len(value) for name, value in parts.items() if isinstance(value, dict | set)}


def test_nothing_is_kept_of_a_deployment_whose_pods_go_after_it() -> None:
    """Such a pod may still become ready, before the garbage collector comes for it."""
    store = Store()
    before = kept(store)
    for number in range(3):
        name = f"d{number}"
        workload, replicas = deployment(name), replica_set(f"s{number}", of=name)
        first, late = pod(f"a{number}", of=f"s{number}", ready=5), pod(f"b{number}", of=f"s{number}")
        for kind, body in (("Deployment", workload), ("ReplicaSet", replicas), ("Pod", first), ("Pod", late)):
            store.feed(kind, "ADDED", body)
        store.feed("HorizontalPodAutoscaler", "ADDED", autoscaler(f"h{number}", target=name))
        store.feed("Deployment", "DELETED", workload)
        late = pod(f"b{number}", of=f"s{number}", ready=9)
        store.feed("Pod", "MODIFIED", late)
        for kind, body in (("ReplicaSet", replicas), ("Pod", first), ("Pod", late)):
            store.feed(kind, "DELETED", body)
        store.feed("HorizontalPodAutoscaler", "DELETED", autoscaler(f"h{number}", target=name))

    assert kept(store) == before


def test_what_no_decision_reads_is_not_kept() -> None:
    store = Store()
    before = kept(store)
    daemon = pod("daemon", gpus=0, owned=False) | {
        "metadata": pod("daemon")["metadata"] | {"ownerReferences": [{"kind": "DaemonSet", "controller": True}]}
    }
    other = autoscaler("web")
    other["spec"]["scaleTargetRef"]["kind"] = "StatefulSet"
    store.feed("Pod", "ADDED", daemon)
    store.feed("Pod", "ADDED", pod("job", gpus=0, owned=False))
    store.feed("HorizontalPodAutoscaler", "ADDED", other)
    assert kept(store) == before

    store.feed("Pod", "ADDED", pod("job", gpus=2, owned=False))
    assert [found.name for found in store.gpu_pods()] == ["job"]


def test_an_autoscaler_that_turns_to_another_deployment_leaves_the_first() -> None:
    store = Store()
    for name in ("z", "a"):
        store.feed("HorizontalPodAutoscaler", "ADDED", autoscaler(name))
    store.feed("HorizontalPodAutoscaler", "MODIFIED", autoscaler("a", target="other"))

    assert store.autoscalers_of(NAMESPACE, "nim") == ["z"]
    assert store.autoscalers_of(NAMESPACE, "other") == ["a"]


def test_the_writer_of_the_replicas_beside_us_is_known() -> None:
    def entry(manager: str, at: str, fields: Any) -> Any:
        return {"manager": manager, "time": at, "fieldsV1": {"f:spec": fields}}

    body = deployment()
    body["metadata"]["managedFields"] = [
        entry("kubectl", "2026-01-01T00:00:00Z", {"f:replicas": {}}),
        entry("argocd-controller", "2026-01-02T00:00:00Z", {"f:replicas": {}}),
        entry("firsttoken-scale", "2026-01-03T00:00:00Z", {"f:replicas": {}}),
        entry("kube-controller-manager", "2026-01-04T00:00:00Z", {"f:template": {}}),
        {"manager": "nothing"},
    ]

    assert project_workload(DEPLOYMENT, body).replicas_writer == "argocd-controller"
    assert project_workload(DEPLOYMENT, deployment()).replicas_writer == ""


@pytest.mark.parametrize(
    ("condition", "refused"),
    [
        ({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded"}, "exceeded"),
        ({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "x" * 9000}, "x" * 400),
        ({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}, "FailedCreate"),
        ({"type": "ReplicaFailure", "status": "False", "message": "exceeded"}, ""),
        ({"type": "Progressing", "status": "True", "message": "exceeded"}, ""),
    ],
)
def test_why_pods_are_refused_is_what_the_deployment_says(condition: dict[str, str], refused: str) -> None:
    assert project_workload(DEPLOYMENT, deployment(status={"conditions": [condition]})).refused == refused
