from __future__ import annotations

import asyncio
import json
import logging

import pytest
from kubernetes.aio import client

from firsttoken_lab.emulate import cluster
from firsttoken_lab.emulate.cluster import PodFollower, pod_of, selector_of

DEPLOYMENT = {"spec": {"selector": {"matchLabels": {"app": "nim"}}}}


def owned_by(kind, name):
    return [
        {"kind": "Something", "name": name, "controller": False},
        {"kind": kind, "name": name, "controller": True},
    ]


def a_pod(name, *, ready=True, deleted=False, owner="nim-1", phase="Running"):
    metadata = {"namespace": "ns", "name": name, "uid": f"uid-{name}"}
    if owner:
        metadata["ownerReferences"] = owned_by("ReplicaSet", owner)
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {"phase": phase, "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return {"metadata": metadata, "status": status}


def an_event(kind, body):
    return {"type": kind, "object": body}


class Response:
    """An answer of the API server: a JSON body, or a watch that ends after its events."""

    def __init__(self, body=None, *, status=200, events=()):
        self.status = status
        self._body = body
        self._events = events

    async def read(self):
        return json.dumps(self._body).encode()

    @property
    async def content(self):
        for event in self._events:
            yield json.dumps(event).encode()

    def close(self):
        pass


def a_list(*pods):
    return Response({"metadata": {"resourceVersion": "7"}, "items": list(pods)})


class Api:
    """Answers list requests with `lists` and watch requests with `watches`, in turn; then hangs.

    ReplicaSets `nim-<number>` belong to the Deployment `nim`, all others to one of another name; `gone` is not there.
    """

    def __init__(self, lists, watches):
        self._answers = {False: iter(lists), True: iter(watches)}
        self.asked = []

    async def read_namespaced_deployment_without_preload_content(self, *_):
        return Response(DEPLOYMENT)

    async def read_namespaced_replica_set_without_preload_content(self, name, _namespace):
        self.asked.append(name)
        if name == "gone":
            return Response({"message": "not found"}, status=404)
        return Response({"metadata": {"ownerReferences": owned_by("Deployment", name.partition("-")[0])}})

    async def list_namespaced_pod_without_preload_content(self, _namespace, *, label_selector, watch=False, **_options):
        assert label_selector == "app=nim"
        answer = next(self._answers[watch], None)
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer


async def followed(lists, watches, monkeypatch, *, asked=None):
    """The sets of (name, ready, terminating) that the follower reported; `asked` gets the ReplicaSets it read."""
    monkeypatch.setattr(cluster, "RETRY_SECONDS", 0.01)
    reports = []
    api = client.ApiClient()
    follower = PodFollower(
        api, "ns", "nim", lambda pods: reports.append({(p.name, p.ready, p.terminating) for p in pods})
    )
    fake = follower._apps = follower._core = Api(lists, watches)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(follower.run(), 0.3)
    await api.close()
    if asked is not None:
        asked += fake.asked
    return reports


@pytest.mark.slow
async def test_events_change_the_set_one_by_one(monkeypatch):
    events = [
        an_event("ADDED", a_pod("b", ready=False)),
        an_event("MODIFIED", a_pod("b")),
        an_event("BOOKMARK", {"metadata": {"resourceVersion": "9"}}),
        an_event("MODIFIED", a_pod("a", deleted=True)),
        an_event("DELETED", a_pod("a", deleted=True)),
    ]
    reports = await followed([a_list(a_pod("a"))], [Response(events=events)], monkeypatch)

    assert reports == [
        {("a", True, False)},
        {("a", True, False), ("b", False, False)},
        {("a", True, False), ("b", True, False)},
        {("a", True, True), ("b", True, False)},
        {("b", True, False)},
    ]


@pytest.mark.parametrize(
    "interruption",
    [
        Response(events=[an_event("ERROR", {"code": 410, "message": "too old resource version"})]),
        Response({"message": "too old"}, status=410),
        Response({"message": "etcd is away"}, status=500),
        Response(events=[]),
        TimeoutError(),
    ],
    ids=["410 in the watch", "410 for the watch", "500", "the watch ends", "timeout"],
)
async def test_after_an_interruption_a_new_list_brings_what_was_missed(monkeypatch, caplog, interruption):
    caplog.set_level(logging.CRITICAL)
    lists = [a_list(a_pod("a")), a_list(a_pod("b"))]
    assert await followed(lists, [interruption], monkeypatch) == [{("a", True, False)}, {("b", True, False)}]


async def test_a_deployment_that_is_not_there_yet_is_waited_for(monkeypatch, caplog):
    lists = [Response({"message": "not found"}, status=404), a_list(a_pod("a"))]
    assert await followed(lists, [], monkeypatch) == [{("a", True, False)}]
    assert "pods of ns/nim: 404 not found" in caplog.text


async def test_pods_of_another_deployment_with_the_same_labels_are_not_followed(monkeypatch):
    listed = a_list(a_pod("a"), a_pod("foreign", owner="canary-1"), a_pod("bare", owner=None))
    events = [
        an_event("ADDED", a_pod("stranger", owner="canary-1")),
        an_event("ADDED", a_pod("b", owner="nim-2")),
        an_event("DELETED", a_pod("foreign", owner="canary-1")),
    ]
    asked = []
    reports = await followed([listed], [Response(events=events)], monkeypatch, asked=asked)

    assert reports == [{("a", True, False)}, {("a", True, False), ("b", True, False)}]
    assert asked == ["nim-1", "canary-1", "nim-2"], "each ReplicaSet is read once"


async def test_a_pod_outlives_its_replica_set_until_it_is_deleted_itself(monkeypatch):
    events = [
        an_event("MODIFIED", a_pod("a", deleted=True, owner="gone")),
        an_event("ADDED", a_pod("orphan", owner="gone")),
    ]
    reports = await followed([a_list(a_pod("a"))], [Response(events=events)], monkeypatch)
    assert reports == [{("a", True, False)}, {("a", True, True)}]


async def test_a_pod_that_has_ended_is_gone_though_its_object_stays(monkeypatch):
    events = [an_event("MODIFIED", a_pod("a", ready=False, phase="Failed"))]
    reports = await followed([a_list(a_pod("a"), a_pod("b"))], [Response(events=events)], monkeypatch)
    assert reports == [{("a", True, False), ("b", True, False)}, {("b", True, False)}]


def test_a_pod_without_status_is_neither_ready_nor_addressed():
    pod = pod_of({"metadata": {"namespace": "n", "name": "p", "uid": "u"}})
    assert (pod.ready, pod.addressed) == (False, False)
    assert pod_of(a_pod("p", ready=False)).addressed


def test_every_form_of_selector_becomes_a_list_request():
    expressions = [
        {"key": "tier", "operator": "In", "values": ["gpu", "fast"]},
        {"key": "zone", "operator": "NotIn", "values": ["x"]},
        {"key": "model", "operator": "Exists"},
        {"key": "old", "operator": "DoesNotExist"},
    ]
    selector = {"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": expressions}
    assert selector_of({"spec": {"selector": selector}}) == "a=1,b=2,tier in (gpu,fast),zone notin (x),model,!old"
