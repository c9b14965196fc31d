"""The operator process: puts the parts together, starts them in order, and ends when one of them ends.

Order matters. The HTTP port is opened first, so that probes are answered while the caches fill; kopf cancels every
task that is younger than itself when it exits, so everything else exists before it. No decision is made before every
watch has delivered its first list. A watcher that dies ends the process with an error: a loop on a frozen cache would
look alive and decide on the past. So does a Lease that names another operator after it named this one: what was
remembered as written here is not what was written last.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import kopf
from kubernetes.aio import client

from firsttoken_operator.act.backlog import Budget
from firsttoken_operator.act.errors import ClusterError
from firsttoken_operator.act.events import EventRecorder
from firsttoken_operator.act.kubernetes import KubernetesCluster, load_configuration
from firsttoken_operator.act.pool_status import PoolPublisher
from firsttoken_operator.act.publish import Publisher
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.render import Renderer
from firsttoken_operator.act.scale import ScaleWriter
from firsttoken_operator.domain.target_kinds import LEADER_WORKER_SET
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run import kopf_wiring
from firsttoken_operator.run.election import REQUEST_SECONDS, Elector
from firsttoken_operator.run.health import HealthServer, Heartbeats
from firsttoken_operator.run.history import Histories
from firsttoken_operator.run.kopf_watches import KopfWatches
from firsttoken_operator.run.lookout import Lookout
from firsttoken_operator.run.loop import Loop, Parts
from firsttoken_operator.run.measuring import Measuring, source_configs
from firsttoken_operator.run.metrics import OperatorMetrics
from firsttoken_operator.run.namespaces import readable, until_readable
from firsttoken_operator.run.reflector import Reflector
from firsttoken_operator.run.rendering import Rendered
from firsttoken_operator.run.settings import Settings, SettingsError
from firsttoken_operator.run.sizer import Sizer
from firsttoken_operator.run.sizing_store import SAVE_TICKS, SizingStore
from firsttoken_operator.run.switch import WriteSwitch
from firsttoken_operator.run.sync import CacheSync
from firsttoken_operator.run.victims import Victims
from firsttoken_operator.run.watches import Watched, missing_definitions, watched_with

logger = logging.getLogger(__name__)

DEFINITIONS_SECONDS = 5.0
"""Interval between looks for custom resource definitions that are not installed yet."""
LAST_TICK_SECONDS = 2.0
"""Time that the tick under way, and what it has to write, may take to finish after a signal: the rest is the next
operator's, which begins at once."""
LEAST_DEADLINE_SECONDS = 10.0
"""Shortest deadline of a write, where a tick is shorter."""


async def run_operator(settings: Settings, kubeconfig: str | None) -> int:
    """Run until SIGTERM or SIGINT (exit status 0), or until a part fails (1).

    Raises `kubernetes.aio.config.ConfigException` without usable credentials, `SettingsError` where the port is taken.
    """
    configuration = await load_configuration(kubeconfig)
    # NB: with connections of its own: writes that hang must not keep the Lease from being renewed.
    lease_cluster = KubernetesCluster(client.ApiClient(configuration), timeout_seconds=REQUEST_SECONDS)
    elector = _elector(settings, lease_cluster)
    write_seconds = elector.write_seconds if elector else lambda: math.inf
    cluster = KubernetesCluster(client.ApiClient(configuration), write_seconds=write_seconds)
    # NB: with connections of its own too: a replica waits for no status.
    scaling = KubernetesCluster(client.ApiClient(configuration), write_seconds=write_seconds, beside=cluster)
    configuration = await load_configuration(kubeconfig)
    # NB: watches keep their connections, and writes must not wait for one.
    configuration.connection_pool_maxsize = 0
    watching = KubernetesCluster(client.ApiClient(configuration))
    parts = _parts(settings, cluster, scaling, elector.leads if elector else lambda: True)
    role = (lambda: elector.says) if elector else lambda: "ok"
    health = HealthServer(parts.heartbeats, parts.metrics.render, time.monotonic, role)
    try:
        try:
            port = await health.start(settings.host, settings.port)
        except OSError as error:
            text = f"port {settings.port}: {error.strerror}; set --host or --port"
            raise SettingsError(text) from error
        logger.info("serving /metrics, /healthz and /readyz on port %d", port)
        await _definitions(cluster, parts.heartbeats)
        everything = watched_with(settings.target_kinds, claims=bool(settings.device_classes))
        kinds = tuple(kind for kind in everything if kind.namespaced or settings.cluster_scoped)
        namespaces = await readable(cluster, kinds[0], settings.namespaces) or settings.namespaces
        unreadable = tuple(name for name in settings.namespaces if name not in namespaces)
        settings = settings.model_copy(update={"namespaces": namespaces})
        sync = CacheSync(cluster, parts.store, kinds, settings.namespaces)
        parts = replace(parts, catch_up=sync.catch_up)
        reflectors = [
            Reflector(watching, kind, namespace, sync.feed)
            for kind in kinds
            if not kind.is_ours
            for namespace in ((settings.namespaces or ("",)) if kind.namespaced else ("",))
        ]
        rights = partial(until_readable, cluster, kinds[0], unreadable) if unreadable else None
        switch = WriteSwitch(cluster, settings.writes_switch) if settings.writes_switch else None
        store = SizingStore(cluster, parts.writes, settings.sizing_store) if settings.sizing_store else None
        if store is not None:
            parts.sizer.restore(await store.load())
        wall = cluster.wall_seconds
        parts.metrics.clock_ahead.set_function(cluster.ahead_seconds)
        ours = tuple(kind for kind in kinds if kind.is_ours)
        paths = [kind.path(namespace) for kind in ours for namespace in settings.namespaces or ("",)]
        kept = KopfWatches(paths, lambda: watching.heard_seconds)
        return await _run(
            settings, kubeconfig, parts, ours, kept, sync, reflectors, rights, switch, elector, store, wall
        )
    finally:
        await health.stop()
        parts.histories.close()
        parts.sizer.close()
        parts.measuring.close()
        await parts.writes.close()
        parts.writer.close()
        for connected in (cluster, scaling, lease_cluster, watching):
            await connected.close()


def write_deadline_seconds(tick_seconds: float) -> float:
    """Time that a write may take, its wait for a turn included."""
    return max(tick_seconds, LEAST_DEADLINE_SECONDS)


def _elector(settings: Settings, cluster: KubernetesCluster) -> Elector | None:
    if not settings.leader_elect:
        return None
    # NB: unique for each start: a container that starts again must not take itself for the one before.
    identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    return Elector(cluster, settings.lease_namespace, settings.lease_name, identity)


def _parts(
    settings: Settings, cluster: KubernetesCluster, scaling: KubernetesCluster, leads: Callable[[], bool]
) -> Parts:
    timing, limits = settings.timing, settings.api_server
    writes = WriteQueue(
        Budget(limits.requests_per_second, limits.burst),
        deadline_seconds=write_deadline_seconds(timing.tick_seconds),
    )
    recorder = EventRecorder(cluster, writes)
    spans_servers = LEADER_WORKER_SET in settings.target_kinds
    rendered = Rendered(
        Renderer(
            cluster,
            writes,
            settings.render_namespaces or settings.namespaces,
            spans_servers=spans_servers,
            pre_pulls=settings.pre_pull,
        ),
        monitor_labels=settings.pod_monitor_labels,
        scrape_interval_seconds=timing.scrape_interval_seconds,
        spans_servers=spans_servers,
        pre_pulls=settings.pre_pull,
    )
    measuring = Measuring(settings)
    lookout = Lookout(measuring.names, measuring.arriving, timing.tick_seconds)
    return Parts(
        store=Store(settings.target_kinds, settings.device_classes),
        writes=writes,
        measuring=measuring,
        lookout=lookout,
        histories=Histories(source_configs(settings), timing),
        # NB: a new deployment need not wait for its size until the next tick is due.
        sizer=Sizer(lookout.rising.set),
        writer=ScaleWriter(scaling, writes, settings.namespaces or ("",)),
        publisher=Publisher(cluster, recorder, writes),
        recorder=recorder,
        pools=PoolPublisher(cluster, writes),
        metrics=OperatorMetrics(),
        heartbeats=Heartbeats(timing.tick_seconds, time.monotonic()),
        rendered=rendered if settings.render else None,
        victims=Victims(scaling, writes) if settings.choose_victims else None,
        leads=leads,
    )


async def _definitions(cluster: KubernetesCluster, beats: Heartbeats) -> None:
    """Return when the server knows our kinds: kopf looks once, and would never watch a kind that comes later."""
    while True:
        try:
            missing = [kind.plural for kind in await missing_definitions(cluster)]
        except ClusterError as error:
            logger.warning("cannot ask the API server for the custom resource definitions: %s", error)
        else:
            if not missing:
                return
            # NB: no reason to restart, however long an administrator takes to install them.
            beats.note(f"no definition of {', '.join(missing)}", time.monotonic())
            logger.warning("custom resource definitions are missing: %s; install crds/", ", ".join(missing))
        await asyncio.sleep(DEFINITIONS_SECONDS)


async def _run(
    settings: Settings,
    kubeconfig: str | None,
    parts: Parts,
    ours: tuple[Watched, ...],
    kept: KopfWatches,
    sync: CacheSync,
    reflectors: Sequence[Reflector],
    rights: Callable[[], Coroutine[Any, Any, None]] | None,
    switch: WriteSwitch | None,
    elector: Elector | None,
    store: SizingStore | None,
    wall: Callable[[], float],
) -> int:
    stop, stop_watching, watching, synced = (asyncio.Event() for _ in range(4))

    async def tick_when_synced() -> None:
        beats = parts.heartbeats
        await sync.wait_until_complete(lambda awaited: beats.note(awaited, time.monotonic()), reflectors)
        beats.synced = True
        beats.step(time.monotonic())
        parts.metrics.leader.set_function(parts.leads)
        synced.set()
        logger.info("caches are complete; the first tick starts")
        await Loop(settings, parts, wall=wall).run(stop)

    async def lead_when_synced(elector: Elector) -> None:
        await synced.wait()
        await elector.run()

    ticking = asyncio.create_task(tick_when_synced(), name="loop")
    beside = [asyncio.create_task(sync.resync_forever(), name="resync")]
    beside.append(asyncio.create_task(parts.lookout.run(parts.leads), name="lookout"))
    beside += [asyncio.create_task(r.run(), name=f"watch of {r.kind.plural}") for r in reflectors]
    beside.append(asyncio.create_task(kept.run(), name="watch of our kinds"))
    if rights is not None:
        beside.append(asyncio.create_task(rights(), name="the wait for rights"))
    if switch is not None:
        beside.append(asyncio.create_task(switch.poll_forever(settings.timing.tick_seconds / 2), name="switch"))
    if elector is not None:
        beside.append(asyncio.create_task(lead_when_synced(elector), name="election"))
    if store is not None:
        saving = store.save_forever(parts.sizer.kept, SAVE_TICKS * settings.timing.tick_seconds)
        beside.append(asyncio.create_task(saving, name="sizings"))
    stopped = asyncio.create_task(stop.wait(), name="stop")
    kopf_task = asyncio.create_task(
        kopf.operator(
            registry=kopf_wiring.registry(sync.feed, kubeconfig, ours, kept),
            settings=kopf_wiring.settings(initial_streaming=settings.initial_streaming),
            standalone=True,
            # NB: kopf would ask for the name of the user, and an image need not have one for the chart's user id.
            identity="firsttoken",  # type: ignore[arg-type]  # a name of its own for a string
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            stop_flag=stop_watching,
            ready_flag=watching,
        ),
        name="kopf",
    )
    taking_signals = asyncio.create_task(_take_signals(watching, stop), name="signals")
    watched = (ticking, *beside, kopf_task)
    await asyncio.wait({*watched, stopped}, return_when=asyncio.FIRST_COMPLETED)
    failed = [task for task in watched if task.done() and not stop.is_set()]
    for task in failed:
        error = None if task.cancelled() else task.exception()
        logger.error("%s ended: %r", task.get_name(), error)
    stop.set()
    await asyncio.wait({ticking}, timeout=LAST_TICK_SECONDS)
    others = (ticking, *beside, stopped, taking_signals)
    for ending in others:
        ending.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    if elector is not None:
        # NB: only when nothing is under way: the next one writes as soon as the Lease is free.
        await parts.writes.close()
        await elector.release()
    stop_watching.set()
    await asyncio.gather(kopf_task, return_exceptions=True)
    return 1 if failed else 0


async def _take_signals(watching: asyncio.Event, stop: asyncio.Event) -> None:
    """Once kopf has installed its own handlers, put ours in their place: the tick ends first, then the watches."""
    await watching.wait()
    running = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, stop.set)
