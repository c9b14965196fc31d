"""Ages are counted on the clock that dates the objects: that of the API server, as its answers say."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate

from aiohttp import web
from kubernetes.aio import client

from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.decide import judge_facts
from firsttoken_operator.domain import FleetSnapshot, Target, TargetMissing
from firsttoken_operator.observe.store import Store
from firsttoken_operator.observe.targets import target_of
from tests.operator.decide.builders import metrics
from tests.operator.decide.builders import resource as snapshot_of
from tests.operator.observe import bodies

REF = ObjectRef("v1", "Pod", "call-center", "nim-1")
TWENTY_MINUTES = 1200.0


@asynccontextmanager
async def server(ahead_seconds: list[float], date: str | None = None) -> AsyncIterator[KubernetesCluster]:
    """An API server whose clock is so far ahead of ours."""

    async def answer(_: web.Request) -> web.Response:
        said = formatdate(time.time() + ahead_seconds[0], usegmt=True) if date is None else date
        return web.json_response({}, headers={"Date": said})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    cluster = KubernetesCluster(client.ApiClient(client.Configuration(host=f"http://{host}:{port}")))
    try:
        yield cluster
    finally:
        await cluster.close()
        await runner.cleanup()


async def test_before_any_answer_it_is_our_own_clock() -> None:
    async with server([0.0]) as cluster:
        assert abs(cluster.wall_seconds() - time.time()) < 5


async def test_a_server_that_is_ahead_or_behind_is_followed() -> None:
    for ahead in (TWENTY_MINUTES, -TWENTY_MINUTES):
        async with server([ahead]) as cluster:
            await cluster.read(REF)
            assert abs(cluster.wall_seconds() - (time.time() + ahead)) < 5
            assert abs(cluster.ahead_seconds() - ahead) < 5


async def test_a_clock_that_is_set_is_followed_with_the_next_answer() -> None:
    ahead = [TWENTY_MINUTES]
    async with server(ahead) as cluster:
        await cluster.read(REF)
        ahead[0] = 0.0
        await cluster.read(REF)
        assert abs(cluster.wall_seconds() - time.time()) < 5


async def test_a_date_that_says_nothing_changes_nothing() -> None:
    for nonsense in ("", "soon", "Mon, 99 Foo 2026 00:00:00 GMT"):
        async with server([0.0], nonsense) as cluster:
            await cluster.read(REF)
            assert abs(cluster.wall_seconds() - time.time()) < 5


def judged(observed: Target | TargetMissing) -> Target:
    (seen,) = judge_facts(FleetSnapshot(0, 15, (snapshot_of(observed, metrics(1.0)),))).resources
    assert isinstance(seen.target, Target)
    return seen.target


async def test_pods_that_start_are_no_older_on_a_machine_that_is_ahead() -> None:
    """The machine is 20 minutes ahead of the server: by its own clock every pod that starts would be stuck."""
    store = Store()
    store.feed("InferenceDeployment", None, bodies.inference_deployment())
    store.feed("Deployment", None, bodies.deployment(replicas=3))
    store.feed("ReplicaSet", None, bodies.replica_set())
    async with server([-TWENTY_MINUTES]) as cluster:
        await cluster.read(REF)
        made = cluster.wall_seconds() - bodies.EPOCH
        for i in range(3):
            store.feed("Pod", None, bodies.pod(f"p{i}", scheduled=made))
        (resource,) = (stored.parsed for stored in store.resources.values())
        assert resource is not None

        by_server = judged(target_of(store, resource, wall_seconds=cluster.wall_seconds()))
        by_machine = judged(target_of(store, resource, wall_seconds=time.time()))

    assert (by_server.starting, by_server.stuck) == (3, 0)
    assert (by_machine.starting, by_machine.stuck) == (0, 3)
