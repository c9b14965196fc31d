"""The check of the caches: nothing is decided before all lists have arrived, and nothing gone stays."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from firsttoken_operator.act.errors import NotFound, Unavailable
from firsttoken_operator.domain.target_kinds import NAMED, TargetKind
from firsttoken_operator.run import sync
from firsttoken_operator.run.sync import CacheSync
from firsttoken_operator.run.watches import WATCHED, Watched, watched_with

PODS = next(kind for kind in WATCHED if kind.kind == "Pod")
DEPLOYMENTS = next(kind for kind in WATCHED if kind.kind == "Deployment")
NODES = next(kind for kind in WATCHED if kind.kind == "Node")
RESOURCES = next(kind for kind in WATCHED if kind.kind == "InferenceDeployment")
POOLS = next(kind for kind in WATCHED if kind.kind == "GPUPool")
OURS = "/apis/firsttoken.dev/v1alpha1"


class Server:
    """Uids by path; `failures` are raised first."""

    def __init__(self) -> None:
        self.collections: dict[str, set[str]] = {}
        self.failures: list[Exception] = []
        self.asked: list[tuple[str, str]] = []
        self.unserved: set[str] = set()
        self.versioned: dict[str, dict[str, str]] = {}

    async def versions(self, path: str, field_selector: str) -> dict[str, str]:
        if self.failures:
            raise self.failures.pop(0)
        return self.versioned.get(path, {})

    async def uids(self, path: str, field_selector: str) -> set[str]:
        self.asked.append((path, field_selector))
        if self.failures:
            raise self.failures.pop(0)
        return set(self.collections.get(path, set()))

    async def serves(self, api_version: str, kind: str, plural: str) -> bool:
        return kind not in self.unserved


class Sink:
    """Sink of what arrives in the store."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str | None, str]] = []
        self.bodies: list[Mapping[str, Any]] = []

    def feed(self, kind: str, event_type: str | None, body: Mapping[str, Any]) -> None:
        self.events.append((kind, event_type, body["metadata"]["uid"]))
        self.bodies.append(body)


def pod(uid: str) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "name": f"pod-{uid}", "namespace": "a"}}


def ignore(awaited: str) -> None:
    """Progress that is not looked at."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(sync, "RELIST_SECONDS", 0.01)


def made(*kinds: Watched, namespaces: tuple[str, ...] = ()) -> tuple[CacheSync, Server, Sink]:
    server, sink = Server(), Sink()
    return CacheSync(server, sink, kinds, namespaces), server, sink


async def test_it_waits_for_every_object_of_every_kind() -> None:
    caches, server, _ = made(RESOURCES, POOLS)
    server.collections = {f"{OURS}/inferencedeployments": {"p1", "p2"}, f"{OURS}/gpupools": {"n1"}}
    waiting = asyncio.create_task(caches.wait_until_complete(ignore))
    caches.feed(RESOURCES, None, pod("p1"))
    caches.feed(POOLS, None, pod("n1"))
    await asyncio.sleep(0.05)
    assert not waiting.done()

    caches.feed(RESOURCES, None, pod("p2"))
    await asyncio.wait_for(waiting, 1)


async def test_an_empty_cluster_is_complete_at_once() -> None:
    caches, _, _ = made(*WATCHED)
    await asyncio.wait_for(caches.wait_until_complete(ignore), 1)


class Told:
    """A watch that says itself when its list is complete."""

    kind, namespace, listed, lacking = PODS, "", False, ""


async def test_a_kind_with_a_reflector_is_complete_when_that_says_so() -> None:
    caches, server, _ = made(PODS, RESOURCES)
    reflector, told = Told(), list[str]()
    waiting = asyncio.create_task(caches.wait_until_complete(told.append, [reflector]))
    caches.feed(PODS, None, pod("p1"))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    reflector.listed = True
    await asyncio.wait_for(waiting, 1)

    assert told == ["still awaited are Pod: 1 so far"]
    assert {path for path, _ in server.asked} == {f"{OURS}/inferencedeployments"}


async def test_an_object_deleted_before_its_watch_began_is_not_waited_for() -> None:
    caches, server, _ = made(RESOURCES)
    server.collections = {f"{OURS}/inferencedeployments": {"gone"}}
    waiting = asyncio.create_task(caches.wait_until_complete(ignore))
    await asyncio.sleep(0.005)
    server.collections = {}
    await asyncio.wait_for(waiting, 1)


async def test_a_server_that_is_down_is_waited_for() -> None:
    caches, server, _ = made(RESOURCES)
    server.failures = [Unavailable("503"), Unavailable("503")]
    await asyncio.wait_for(caches.wait_until_complete(ignore), 1)

    assert len(server.asked) == 3


async def test_a_kind_that_the_server_does_not_know_has_no_objects() -> None:
    caches, server, _ = made(RESOURCES)
    server.failures, server.unserved = [NotFound("404")], {"InferenceDeployment"}
    await asyncio.wait_for(caches.wait_until_complete(ignore), 1)

    assert len(server.asked) == 1


async def test_one_404_for_a_kind_that_is_served_does_not_mean_that_there_is_nothing() -> None:
    caches, server, _ = made(RESOURCES)
    server.collections, server.failures = {f"{OURS}/inferencedeployments": {"p1"}}, [NotFound("404")]
    waiting = asyncio.create_task(caches.wait_until_complete(ignore))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    caches.feed(RESOURCES, None, pod("p1"))

    await asyncio.wait_for(waiting, 1)


async def test_objects_that_come_and_go_all_the_time_do_not_hold_up_the_start() -> None:
    """Every list has objects that ended before their watch began, and others by the next list."""
    caches, server, _ = made(RESOURCES, POOLS)
    lists = 0

    async def churn(path: str, field_selector: str) -> set[str]:
        nonlocal lists
        lists += path.endswith("deployments")
        return {f"p{lists}-{number}" for number in range(15)} if path.endswith("deployments") else set()

    server.uids = churn  # type: ignore[method-assign]
    await asyncio.wait_for(caches.wait_until_complete(ignore), 1)

    assert lists == 2


async def test_what_was_told_and_is_gone_again_is_not_waited_for() -> None:
    caches, server, _ = made(RESOURCES)
    server.collections = {f"{OURS}/inferencedeployments": {"p1", "p2"}}
    waiting = asyncio.create_task(caches.wait_until_complete(ignore))
    await asyncio.sleep(0.002)
    caches.feed(RESOURCES, "ADDED", pod("p1"))
    caches.feed(RESOURCES, "DELETED", pod("p1"))
    caches.feed(RESOURCES, "ADDED", pod("p2"))

    await asyncio.wait_for(waiting, 1)


async def test_nothing_is_listed_again_while_the_watches_tell_of_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pod every six polls, where ten polls without news are a reason to list again."""
    caches, server, _ = made(RESOURCES)
    server.collections = {f"{OURS}/inferencedeployments": {f"p{number}" for number in range(5)}}
    polls, pause = itertools.count(1), asyncio.sleep

    async def poll(seconds: float) -> None:
        told, rest = divmod(next(polls), 6)
        if rest == 0:
            caches.feed(RESOURCES, None, pod(f"p{told - 1}"))
        await pause(0)

    monkeypatch.setattr(asyncio, "sleep", poll)
    await asyncio.wait_for(caches.wait_until_complete(ignore), 5)

    assert (len(server.asked), next(polls)) == (1, 31)


async def test_what_is_awaited_is_told_while_it_becomes_less() -> None:
    caches, server, _ = made(RESOURCES, POOLS)
    server.collections = {f"{OURS}/inferencedeployments": {"p1", "p2"}, f"{OURS}/gpupools": {"n1"}}
    server.failures = [Unavailable("503")]
    told: list[str] = []
    waiting = asyncio.create_task(caches.wait_until_complete(told.append))
    while len(told) < 2:
        await asyncio.sleep(0.001)
    caches.feed(POOLS, None, pod("n1"))
    while len(told) < 3:
        await asyncio.sleep(0.001)
    caches.feed(RESOURCES, None, pod("p1"))
    while len(told) < 4:
        await asyncio.sleep(0.001)
    caches.feed(RESOURCES, None, pod("p2"))
    await asyncio.wait_for(waiting, 1)

    prefix = "still awaited are "
    assert told == [
        f"{prefix}InferenceDeployment: not listed, GPUPool: 1",
        f"{prefix}InferenceDeployment: 2, GPUPool: 1",
        f"{prefix}InferenceDeployment: 2",
        f"{prefix}InferenceDeployment: 1",
    ]


async def test_finished_pods_are_left_out_as_in_the_watch() -> None:
    caches, server, _ = made(PODS)
    await caches.resync()

    assert server.asked == [("/api/v1/pods", "status.phase!=Succeeded,status.phase!=Failed")]


async def test_only_the_watched_namespaces_are_listed() -> None:
    caches, server, _ = made(RESOURCES, POOLS, namespaces=("a", "b"))
    await caches.wait_until_complete(ignore)

    assert [path for path, _ in server.asked] == [
        f"{OURS}/namespaces/a/inferencedeployments", f"{OURS}/namespaces/b/inferencedeployments", f"{OURS}/gpupools",
    ]  # fmt: skip


async def test_a_deletion_that_no_watch_told_is_found() -> None:
    caches, server, sink = made(PODS)
    for uid in ("p1", "p2"):
        caches.feed(PODS, "ADDED", pod(uid))
    server.collections = {"/api/v1/pods": {"p2"}}
    await caches.resync()

    assert sink.events[2:] == [("Pod", "DELETED", "p1")]


def at_version(version: str) -> dict[str, Any]:
    return {"metadata": {**pod("p1")["metadata"], "resourceVersion": version}}


async def test_an_event_that_is_older_than_what_is_known_is_no_news() -> None:
    caches, _, sink = made(PODS)
    for event, version in (("ADDED", "99"), ("MODIFIED", "101"), ("MODIFIED", "100"), ("MODIFIED", "101")):
        caches.feed(PODS, event, at_version(version))
    versions = [body["metadata"]["resourceVersion"] for body in sink.bodies]

    assert versions == ["99", "101", "101"]


async def test_what_a_server_lists_is_believed_also_after_its_backup_was_restored() -> None:
    caches, _, sink = made(PODS)
    for event, version in (("MODIFIED", "101"), (None, "7"), ("MODIFIED", "8"), ("DELETED", "9")):
        caches.feed(PODS, event, at_version(version))

    assert [event for _, event, _ in sink.events] == ["MODIFIED", None, "MODIFIED", "DELETED"]


async def test_of_an_object_only_its_identity_is_kept() -> None:
    caches, _, sink = made(PODS)
    whole = pod("p1")
    whole["metadata"] |= {"managedFields": ["long"], "annotations": {"a": "long"}}
    caches.feed(PODS, "ADDED", whole)
    await caches.resync()

    assert sink.bodies[1:] == [{"metadata": {"uid": "p1"}}]


async def test_an_object_created_while_listing_stays() -> None:
    caches, server, sink = made(PODS)

    async def create_meanwhile(path: str, field_selector: str) -> set[str]:
        caches.feed(PODS, "ADDED", pod("new"))
        return set()

    server.uids = create_meanwhile  # type: ignore[method-assign]
    await caches.resync()

    assert sink.events == [("Pod", "ADDED", "new")]


@pytest.mark.parametrize("failure", [Unavailable("503"), NotFound("404")], ids=str)
async def test_a_list_that_fails_drops_nothing_and_hinders_no_other(failure: Exception) -> None:
    caches, server, sink = made(PODS, NODES)
    caches.feed(PODS, "ADDED", pod("p1"))
    caches.feed(NODES, "ADDED", pod("n1"))
    server.failures = [failure]
    await caches.resync()

    assert sink.events == [("Pod", "ADDED", "p1"), ("Node", "ADDED", "n1"), ("Node", "DELETED", "n1")]


def at(uid: str, version: str) -> dict[str, Any]:
    body = pod(uid)
    body["metadata"]["resourceVersion"] = version
    return body


async def test_who_begins_to_lead_waits_for_what_the_last_leader_wrote() -> None:
    caches, server, _ = made(DEPLOYMENTS, PODS, NODES)
    server.versioned = {"/apis/apps/v1/deployments": {"d": "9"}, "/api/v1/pods": {"p": "5", "gone": "4"}}
    caches.feed(DEPLOYMENTS, None, at("d", "7"))
    caches.feed(PODS, None, at("p", "6"))
    caches.feed(PODS, None, at("gone", "3"))
    catching_up = asyncio.create_task(caches.catch_up())
    await asyncio.sleep(0.02)
    assert not catching_up.done()

    caches.feed(DEPLOYMENTS, "MODIFIED", at("d", "9"))
    await asyncio.sleep(0.02)
    assert not catching_up.done()

    caches.feed(PODS, "DELETED", at("gone", "4"))
    assert await catching_up is True


async def test_who_cannot_know_what_the_last_leader_wrote_does_not_lead_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    caches, server, _ = made(DEPLOYMENTS)
    server.failures = [Unavailable("down")]
    assert await caches.catch_up() is False

    monkeypatch.setattr(sync, "CATCH_UP_SECONDS", 0.01)
    server.versioned = {"/apis/apps/v1/deployments": {"d": "9"}}
    assert await caches.catch_up() is False


async def test_a_kind_that_cannot_be_read_keeps_no_leader_from_writing_others() -> None:
    sets = next(kind for kind in watched_with([NAMED["LeaderWorkerSet"]]) if kind.may_be_absent)
    caches, server, _ = made(sets, DEPLOYMENTS)
    reflector = Told()
    reflector.kind, reflector.listed = sets, True
    await caches.wait_until_complete(ignore, [reflector])
    server.failures = [Unavailable("conversion webhook")]
    assert await caches.catch_up() is False

    reflector.lacking, server.failures = "conversion webhook", []
    server.versioned = {sets.path(): {"never told": "9"}, DEPLOYMENTS.path(): {"d": "9"}}
    caches.feed(DEPLOYMENTS, None, at("d", "9"))
    assert await caches.catch_up() is True


async def test_kinds_of_one_plural_are_told_apart() -> None:
    kind = TargetKind("ModelDeployment", "a.example.com", "v1", "deployments")
    (others,) = (each for each in watched_with([kind]) if each.may_be_absent)
    caches, server, sink = made(DEPLOYMENTS, others)
    caches.feed(DEPLOYMENTS, None, at("d", "9"))
    caches.feed(others, None, at("m", "9"))
    server.collections = {DEPLOYMENTS.path(): {"d"}, others.path(): {"m"}}
    await caches.resync()
    assert [told for _, told, _ in sink.events] == [None, None]

    server.collections = {DEPLOYMENTS.path(): {"d"}}
    await caches.resync()
    assert sink.events[2:] == [("ModelDeployment", "DELETED", "m")]
