"""Scale writes against a scripted API server: every way in which the world may change between decision and write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from firsttoken_operator.act.errors import ClusterError, Rejected, Unavailable
from firsttoken_operator.act.kubernetes import ObjectRef
from firsttoken_operator.act.live import FRESH_SECONDS, MANY, TOO_SLOW_SECONDS, LiveResources
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.scale import MAX_ATTEMPTS, ScaleWriter, Write
from firsttoken_operator.domain import Reason, ResourceSnapshot, ScalingMode, Target
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.act.objects import NAMESPACE, TARGET, decision, infd, seen, workload
from tests.operator.decide.builders import POLICY

RESOURCE = ObjectRef("firsttoken.dev/v1alpha1", "InferenceDeployment", NAMESPACE, "support-rag")
DEPLOYMENT = ObjectRef("apps/v1", "Deployment", NAMESPACE, TARGET)


def fleet(replicas: int = 5) -> tuple[FakeCluster, ResourceSnapshot]:
    live_resource, live_target = infd(), workload(replicas)
    live_resource["metadata"] |= {"uid": "r-1", "generation": 3, "resourceVersion": "1"}
    live_target["metadata"] |= {"uid": "d-1", "resourceVersion": "1"}
    snapshot = seen(live_resource, live_target)
    return FakeCluster({RESOURCE: live_resource, DEPLOYMENT: live_target}), snapshot


def replicas_of(cluster: FakeCluster) -> int:
    return int(cluster.objects[DEPLOYMENT]["spec"]["replicas"])


async def test_a_change_is_written_once() -> None:
    cluster, snapshot = fleet(5)
    result = await ScaleWriter(cluster, WriteQueue()).execute(decision(snapshot, 5, 9), snapshot)

    assert (result.write, result.replicas) == (Write.DONE, 9)
    assert cluster.writes() == ["patch_scale"]


@pytest.mark.parametrize(("before", "after"), [(1, 0), (0, 1)])
async def test_none_is_a_number_of_replicas_like_any_other(before: int, after: int) -> None:
    cluster, snapshot = fleet(before)
    result = await ScaleWriter(cluster, WriteQueue()).execute(decision(snapshot, before, after), snapshot)

    assert (result.write, result.replicas, replicas_of(cluster)) == (Write.DONE, after, after)


async def test_a_decision_without_change_asks_the_server_nothing() -> None:
    cluster, snapshot = fleet(5)
    result = await ScaleWriter(cluster, WriteQueue()).execute(decision(snapshot, 5, 5), snapshot)

    assert result.write is Write.NONE
    assert cluster.calls == []


def _recreate_resource(cluster: FakeCluster) -> None:
    cluster.objects[RESOURCE]["metadata"]["uid"] = "r-2"


def _delete_resource(cluster: FakeCluster) -> None:
    del cluster.objects[RESOURCE]


def _mark_for_deletion(cluster: FakeCluster) -> None:
    cluster.objects[RESOURCE]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def _edit_spec(cluster: FakeCluster) -> None:
    cluster.objects[RESOURCE]["metadata"]["generation"] = 4


def _travel_back(cluster: FakeCluster) -> None:
    cluster.objects[RESOURCE]["metadata"]["generation"] = 2


def _set_mode(mode: Any) -> Callable[[FakeCluster], None]:
    def change(cluster: FakeCluster) -> None:
        cluster.objects[RESOURCE]["spec"]["scaling"] = {"mode": mode}

    return change


def _recreate_target(cluster: FakeCluster) -> None:
    cluster.objects[DEPLOYMENT]["metadata"]["uid"] = "d-2"


def _delete_target(cluster: FakeCluster) -> None:
    del cluster.objects[DEPLOYMENT]


def _scale_by_hand(cluster: FakeCluster) -> None:
    cluster.set_replicas(DEPLOYMENT, 7)


@pytest.mark.parametrize(
    ("change", "write", "reason"),
    [
        pytest.param(_recreate_resource, Write.REDECIDE, Reason.WRITE_CONFLICT, id="resource recreated"),
        pytest.param(_delete_resource, Write.REDECIDE, Reason.TARGET_NOT_FOUND, id="resource deleted"),
        pytest.param(_mark_for_deletion, Write.REDECIDE, Reason.WRITE_CONFLICT, id="resource being deleted"),
        pytest.param(_edit_spec, Write.REDECIDE, Reason.WRITE_CONFLICT, id="spec edited"),
        pytest.param(_travel_back, Write.REDECIDE, Reason.WRITE_CONFLICT, id="decided on a spec of the future"),
        pytest.param(_set_mode("Paused"), Write.NONE, Reason.PAUSED, id="paused"),
        pytest.param(_set_mode("Advisory"), Write.NONE, Reason.ADVISORY, id="advisory"),
        pytest.param(_set_mode("Frozen"), Write.NONE, Reason.PAUSED, id="a mode of a later version"),
        pytest.param(_set_mode(False), Write.NONE, Reason.PAUSED, id="a mode that is no word"),
        pytest.param(_recreate_target, Write.REDECIDE, Reason.WRITE_CONFLICT, id="target recreated"),
        pytest.param(_delete_target, Write.REDECIDE, Reason.TARGET_NOT_FOUND, id="target deleted"),
        pytest.param(_scale_by_hand, Write.REDECIDE, Reason.WRITE_CONFLICT, id="target scaled by hand"),
    ],
)
async def test_nothing_is_written_when_the_world_has_changed(
    change: Callable[[FakeCluster], None], write: Write, reason: Reason
) -> None:
    cluster, snapshot = fleet(5)
    change(cluster)
    changed = deepcopy(cluster.objects)
    result = await ScaleWriter(cluster, WriteQueue()).execute(decision(snapshot, 5, 9), snapshot)

    assert (result.write, result.reason) == (write, reason)
    assert cluster.objects == changed


@pytest.mark.parametrize("mode", [ScalingMode.PAUSED, ScalingMode.ADVISORY])
async def test_a_mode_that_does_not_scale_asks_the_server_nothing(mode: ScalingMode) -> None:
    cluster, snapshot = fleet(5)
    snapshot = replace(snapshot, policy=replace(POLICY, mode=mode))
    result = await ScaleWriter(cluster, WriteQueue()).execute(decision(snapshot, 5, 9), snapshot)

    assert result.write is Write.NONE
    assert cluster.calls == []


async def test_a_conflict_forbids_writing() -> None:
    cluster, snapshot = fleet(5)
    snapshot = replace(snapshot, conflict="HorizontalPodAutoscaler x")
    result = await ScaleWriter(cluster, WriteQueue()).execute(decision(snapshot, 5, 9), snapshot)

    assert result.write is Write.REDECIDE
    assert cluster.calls == []


async def test_a_target_whose_status_moves_is_written_after_reading_again() -> None:
    cluster, snapshot = fleet(5)
    conflicts = iter([True, True, False])

    def before(name: str, ref: ObjectRef) -> None:
        if name == "patch_scale" and next(conflicts):
            cluster.touch(DEPLOYMENT)

    cluster.before = before
    result = await ScaleWriter(cluster, WriteQueue()).execute(decision(snapshot, 5, 9), snapshot)

    assert (result.write, replicas_of(cluster)) == (Write.DONE, 9)
    assert cluster.writes() == ["patch_scale"] * 3


async def test_a_foreign_write_between_read_and_patch_is_not_overwritten() -> None:
    cluster, snapshot = fleet(5)

    def before(name: str, ref: ObjectRef) -> None:
        if name == "patch_scale" and replicas_of(cluster) == 5:
            cluster.set_replicas(DEPLOYMENT, 7)

    cluster.before = before
    result = await ScaleWriter(cluster, WriteQueue()).execute(decision(snapshot, 5, 9), snapshot)

    assert (result.write, replicas_of(cluster)) == (Write.REDECIDE, 7)


async def test_a_rival_without_end_is_given_up_on_until_the_next_tick() -> None:
    cluster, snapshot = fleet(5)

    def before(name: str, ref: ObjectRef) -> None:
        if name == "patch_scale":
            cluster.touch(DEPLOYMENT)

    cluster.before = before
    result = await ScaleWriter(cluster, WriteQueue()).execute(decision(snapshot, 5, 9), snapshot)

    assert (result.write, result.reason) == (Write.REDECIDE, Reason.WRITE_CONFLICT)
    assert cluster.writes() == ["patch_scale"] * MAX_ATTEMPTS
    assert replicas_of(cluster) == 5


async def test_a_lost_answer_is_no_second_step() -> None:
    cluster, snapshot = fleet(5)
    cluster.lose_answer_of = "patch_scale"
    first = await ScaleWriter(cluster, WriteQueue()).execute(decision(snapshot, 5, 9), snapshot)
    second = await ScaleWriter(cluster, WriteQueue()).execute(decision(snapshot, 5, 9), snapshot)

    assert (first.write, first.reason) == (Write.FAILED, Reason.WRITE_FAILED)
    assert (second.write, second.replicas, replicas_of(cluster)) == (Write.DONE, 9, 9)
    assert cluster.objects[DEPLOYMENT]["metadata"]["resourceVersion"] == "2", "written once"


async def test_the_intent_is_told_before_a_write_is_sent_and_only_then() -> None:
    cluster, snapshot = fleet(5)
    told: list[int] = []
    cluster.lose_answer_of = "patch_scale"
    change = decision(snapshot, 5, 9)
    for attempt in (1, 2):
        writer = ScaleWriter(cluster, WriteQueue())
        result = await writer.execute(change, snapshot, lambda about: told.append(about.to_replicas))
        assert told == [9] * attempt == [9] * cluster.writes().count("patch_scale")

    assert result.write is Write.DONE


@pytest.mark.parametrize(
    ("error", "reason"),
    [(Unavailable("503"), Reason.WRITE_FAILED), (Rejected("403 forbidden", 403), Reason.WRITE_DENIED)],
)
async def test_a_server_that_refuses_is_an_outcome_and_is_not_asked_again_at_once(
    error: ClusterError, reason: Reason
) -> None:
    cluster, snapshot = fleet(5)
    cluster.error = error
    writer = ScaleWriter(cluster, WriteQueue())
    first = await writer.execute(decision(snapshot, 5, 9), snapshot)
    asked = len(cluster.calls)
    again = await writer.execute(decision(snapshot, 5, 9), snapshot)

    assert first == again
    assert (first.write, first.reason, first.message) == (Write.FAILED, reason, str(error))
    assert len(cluster.calls) == asked


async def test_a_server_that_takes_another_number_has_not_taken_it() -> None:
    cluster, snapshot = fleet(5)

    def capped(name: str, ref: ObjectRef) -> None:
        if name == "patch_scale":
            cluster.most = 7

    cluster.before = capped
    result = await ScaleWriter(cluster, WriteQueue()).execute(decision(snapshot, 5, 9), snapshot)

    assert (result.write, result.reason) == (Write.FAILED, Reason.WRITE_FAILED)
    assert "but shows 7" in result.message


async def test_a_slow_server_is_waited_for_twice_and_for_twice_more_where_the_target_moved() -> None:
    cluster, snapshot = fleet(5)
    cluster.delay_seconds = 0.01
    result = await ScaleWriter(cluster, WriteQueue()).execute(decision(snapshot, 5, 9), snapshot)

    assert result.write is Write.DONE
    assert [name for name, _ in cluster.calls] == ["read", "patch_scale"]

    cluster.touch(DEPLOYMENT)
    cluster.calls.clear()
    again = replace(snapshot, target=replace(snapshot.target, replicas=9))
    result = await ScaleWriter(cluster, WriteQueue()).execute(decision(snapshot, 9, 12), again)

    assert result.write is Write.DONE
    assert [name for name, _ in cluster.calls] == ["read", "patch_scale", "read", "read_scale", "patch_scale"]
    assert cluster.most_in_flight == 2


MANY_RESOURCES = 2 * MANY


def fleets() -> tuple[FakeCluster, list[ResourceSnapshot]]:
    """As many as are listed at once, each with a target of its own."""
    objects: dict[ObjectRef, Any] = {}
    snapshots = []
    for number in range(MANY_RESOURCES):
        cluster, snapshot = fleet(5)
        name, target = f"r{number}", f"d{number}"
        resource, deployment = cluster.objects[RESOURCE], cluster.objects[DEPLOYMENT]
        resource["metadata"] |= {"name": name, "uid": f"u{number}"}
        deployment["metadata"]["name"] = target
        objects[replace(RESOURCE, name=name)], objects[replace(DEPLOYMENT, name=target)] = resource, deployment
        assert isinstance(snapshot.target, Target)
        there = replace(snapshot.target, name=target)
        snapshots.append(replace(snapshot, name=name, uid=f"u{number}", target=there))
    return FakeCluster(objects), snapshots


async def write_all(cluster: FakeCluster, snapshots: list[ResourceSnapshot]) -> list[Write]:
    writer = ScaleWriter(cluster, WriteQueue())
    asked = (writer.execute(decision(snapshot, 5, 9), snapshot) for snapshot in snapshots)
    return [result.write for result in await asyncio.gather(*asked)]


async def test_many_are_read_at_once_and_written_in_a_request_each() -> None:
    cluster, snapshots = fleets()
    cluster.delay_seconds = 0.01
    edited = replace(RESOURCE, name="r3")
    cluster.objects[edited]["metadata"]["generation"] = 4
    del cluster.objects[replace(RESOURCE, name="r4")]
    written = await write_all(cluster, snapshots)
    names = [name for name, _ in cluster.calls]

    assert written[3:5] == [Write.REDECIDE] * 2
    assert {*written[:3], *written[5:]} == {Write.DONE}
    assert names.count("read_all") == 1
    assert names.count("patch_scale") == MANY_RESOURCES - 2
    assert names.count("read") < MANY


async def test_where_they_cannot_be_listed_each_is_read() -> None:
    cluster, snapshots = fleets()
    cluster.delay_seconds = 0.01

    def before(name: str, ref: ObjectRef) -> None:
        if name == "read_all":
            raise Rejected("no list", 403)

    cluster.before = before

    assert set(await write_all(cluster, snapshots)) == {Write.DONE}
    assert [name for name, _ in cluster.calls].count("read") == MANY_RESOURCES


async def test_replicas_that_may_not_become_fewer_may_become_more_at_once() -> None:
    cluster, snapshot = fleet(5)

    def deny_fewer(name: str, ref: ObjectRef) -> None:
        if name == "patch_scale" and asked < 5:
            raise Rejected("no fewer", 403)

    cluster.before = deny_fewer
    writer = ScaleWriter(cluster, WriteQueue())
    asked = 3
    denied = await writer.execute(decision(snapshot, 5, asked), snapshot)
    asked = 9
    done = await writer.execute(decision(snapshot, 5, asked), snapshot)

    assert (denied.reason, done.write, replicas_of(cluster)) == (Reason.WRITE_DENIED, Write.DONE, 9)


class Lists:
    """An API server that lists when it is told to; `asked`: lists that were begun."""

    def __init__(self) -> None:
        self.asked, self.goes_on, self.error = 0, asyncio.Event(), False
        self.goes_on.set()

    async def metadata(self, *_: object) -> dict[ObjectRef, Any]:
        self.asked += 1
        number = self.asked
        await self.goes_on.wait()
        if self.error:
            raise Unavailable("no list")
        return {RESOURCE: {"list": number}}

    async def read(self, _: ObjectRef) -> Any:
        return {"metadata": "read alone"}


async def test_writes_go_on_while_the_next_list_is_read() -> None:
    server, now = Lists(), [0.0]
    live = LiveResources(server, lambda: MANY, ("",), lambda: now[0])  # type: ignore[arg-type]
    told = []
    for at, goes_on in ((0.0, True), (0.9, True), (1.1, False), (1.9, False), (1.9, True), (2.1, True)):
        now[0] = at
        (server.goes_on.set if goes_on else server.goes_on.clear)()
        told.append((await live.read(NAMESPACE, RESOURCE.name))["metadata"]["list"])
        await asyncio.sleep(0)

    assert told == [1, 1, 1, 1, 1, 2]
    assert server.asked == 2


async def test_a_list_that_is_too_old_is_waited_for_and_one_that_failed_is_not_asked_for_by_each() -> None:
    server, now = Lists(), [0.0]
    live = LiveResources(server, lambda: MANY, ("",), lambda: now[0])  # type: ignore[arg-type]
    first = await live.read(NAMESPACE, RESOURCE.name)
    now[0] = FRESH_SECONDS + 0.1
    second = await live.read(NAMESPACE, RESOURCE.name)
    now[0], server.error = 2 * now[0] + 0.1, True
    alone = [await live.read(NAMESPACE, RESOURCE.name) for _ in range(3)]

    assert (first, second) == ({"metadata": {"list": 1}}, {"metadata": {"list": 2}})
    assert alone == [{"metadata": "read alone"}] * 3
    assert server.asked == 3


async def while_listing(server: Lists, now: list[float]) -> tuple[LiveResources, asyncio.Task[dict[str, Any]]]:
    """Ask for one of many; the list that it waits for goes on when the server does."""
    live = LiveResources(server, lambda: MANY, ("",), lambda: now[0])  # type: ignore[arg-type]
    server.goes_on.clear()
    waits = asyncio.create_task(live.read(NAMESPACE, RESOURCE.name))
    await asyncio.sleep(0)
    return live, waits


async def test_a_list_that_takes_too_long_is_not_waited_for() -> None:
    server, now = Lists(), [0.0]
    live, waits = await while_listing(server, now)
    now[0] = FRESH_SECONDS
    alone = await live.read(NAMESPACE, RESOURCE.name)
    server.goes_on.set()

    assert alone == {"metadata": "read alone"}
    assert await waits == {"metadata": {"list": 1}}
    assert await live.read(NAMESPACE, RESOURCE.name) == {"metadata": {"list": 1}}
    assert server.asked == 1


async def test_a_list_is_as_old_as_its_beginning_and_after_one_too_slow_none_is_asked_for_a_while() -> None:
    server, now = Lists(), [0.0]
    live, waits = await while_listing(server, now)
    now[0] = FRESH_SECONDS + 0.1
    server.goes_on.set()
    await waits
    told = []
    for at in (now[0], now[0] + TOO_SLOW_SECONDS - 0.1, now[0] + TOO_SLOW_SECONDS):
        now[0] = at
        told.append((await live.read(NAMESPACE, RESOURCE.name))["metadata"])

    assert told == ["read alone", "read alone", {"list": 2}]
    assert server.asked == 2
