"""A start on a cluster where pods come and go and lists are slow, and a collection that answers 404 once."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as sync_client
from kubernetes.aio import client

from firsttoken_operator.act.kubernetes import KubernetesCluster, load_configuration
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.sync import CacheSync
from firsttoken_operator.run.watches import WATCHED
from tests.faults.actions import Delay, refused
from tests.faults.stage import MEBIBYTE, Stage, memory_limit_bytes
from tools.cluster import Cluster, wait_until

pytestmark = pytest.mark.cluster

PODS_PER_SECOND = 5.0
SLOW_SECONDS = 3.0
EVERY_LIST = f"/({'|'.join(kind.plural for kind in WATCHED)})$"
FOREIGN_PODS, FOREIGN_AUTOSCALERS = 10_000, 2_000
MEASURED_TICKS = 20
MOST_TIMES_THE_CPU, MOST_TIMES_THE_START = 2.0, 8.0
"""A tick and a start with thousands of strangers beside it take at most so many times what they take alone."""
RESOURCES = next(kind for kind in WATCHED if kind.kind == "InferenceDeployment")


@pytest.fixture(scope="module", autouse=True)
def resources(stage: Stage) -> None:
    stage.declare("seen", 2)


class Churn:
    """Pods that come as a Poisson process, each of them in the place of one of twenty."""

    def __init__(self, cluster: Cluster, workers: ThreadPoolExecutor) -> None:
        self._pods, self._workers = sync_client.CoreV1Api(cluster.client), workers
        self._random, self.ended, self.stop = random.Random(7), 0, threading.Event()

    def run(self) -> None:
        """Until `stop` is set. A pod that takes long to make does not hold up the next."""
        due_seconds, tasks = time.monotonic(), []
        for number in itertools.count():
            due_seconds += self._random.expovariate(PODS_PER_SECOND)
            if self.stop.wait(max(0.0, due_seconds - time.monotonic())):
                break
            tasks.append(self._workers.submit(self._exchange, number))
        for task in tasks:
            task.result()

    def _exchange(self, number: int) -> None:
        self._pods.create_namespaced_pod("default", pod(f"job-{number}"))
        if number >= 20:
            with contextlib.suppress(sync_client.ApiException):
                self._pods.delete_namespaced_pod(f"job-{number - 20}", "default", grace_period_seconds=0)
            self.ended += 1


def pod(name: str) -> dict[str, Any]:
    """A pod that is held back by a gate, so that nothing else ever touches it."""
    spec = {"schedulingGates": [{"name": "example.com/held"}], "containers": [{"name": "job", "image": "job:1"}]}
    return {"metadata": {"name": name}, "spec": spec}


def autoscaler(name: str) -> dict[str, Any]:
    """One of a Deployment that is not there."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {"metadata": {"name": name}, "spec": {"scaleTargetRef": target, "maxReplicas": 2}}


@contextmanager
def churning(cluster: Cluster) -> Iterator[Churn]:
    """Pods come and go inside the block."""
    with ThreadPoolExecutor(8) as workers:
        churn = Churn(cluster, workers)
        thread = threading.Thread(target=churn.run, name="churn", daemon=True)
        thread.start()
        try:
            wait_until(lambda: churn.ended > 0, 60, "pods that come and go")
            yield churn
        finally:
            churn.stop.set()
            thread.join(30)


def used(stage: Stage) -> float:
    """Seconds of CPU that the process has used."""
    fields = Path(f"/proc/{stage.process.child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def of_a_tick(stage: Stage) -> float:
    """Seconds of CPU that a tick takes, with all that happens beside it."""
    ticks, seconds = stage.process.ticks(), used(stage)
    stage.ticks(MEASURED_TICKS)
    return (used(stage) - seconds) / (stage.process.ticks() - ticks)


def started_again(stage: Stage) -> float:
    """Kill it, and wait until another one decides: the seconds between."""
    killed, began = stage.process, time.monotonic()
    killed.kill()
    wait_until(lambda: stage.process is not killed, 20, "started again")
    stage.settle()
    return time.monotonic() - began


def test_it_starts_while_pods_come_and_go_and_every_list_takes_seconds(stage: Stage) -> None:
    stage.settle()
    with churning(stage.cluster) as churn:
        with stage.proxy.injecting(Delay(SLOW_SECONDS), method="GET", path=EVERY_LIST, watch=False) as slow:
            before, began = churn.ended, time.monotonic()
            started_again(stage)
            per_second = (churn.ended - before) / (time.monotonic() - began)
        assert {entry.path.rpartition("/")[2] for entry in slow.entries} >= {kind.plural for kind in WATCHED}
        assert per_second > 0.8 * PODS_PER_SECOND
    stage.change("seen", minReplicas=3)
    stage.until("seen", 3, 60)


async def test_a_collection_that_answers_404_once_loses_nothing(stage: Stage) -> None:
    stage.settle()
    api = KubernetesCluster(client.ApiClient(await load_configuration(str(stage.kubeconfig))))
    store = Store()
    sync = CacheSync(api, store, (RESOURCES,))
    sync.feed(RESOURCES, None, {"metadata": {"uid": "gone", "name": "gone"}})
    sync.feed(RESOURCES, None, stage.resource("seen"))
    missing = refused(404, "the server could not find the requested resource")
    with stage.proxy.injecting(missing, method="GET", path="/inferencedeployments$", watch=False, times=1):
        await sync.resync()
    after_404 = {stored.name for stored in store.resources.values()}
    await sync.resync()
    await api.close()

    assert after_404 == {"gone", "seen"}
    assert {stored.name for stored in store.resources.values()} == {"seen"}


@pytest.mark.every_fault
@pytest.mark.timeout(900)
def test_ten_thousand_pods_of_others_cost_little_time_and_memory(stage: Stage) -> None:
    stage.settle()
    alone_seconds, alone_peak = started_again(stage), stage.peak_bytes()
    alone_cpu = of_a_tick(stage)
    pods = sync_client.CoreV1Api(stage.cluster.client)
    scalers = sync_client.AutoscalingV2Api(stage.cluster.client)
    with ThreadPoolExecutor(8) as workers:
        made = [
            *(workers.submit(pods.create_namespaced_pod, "default", pod(f"foreign-{n}")) for n in range(FOREIGN_PODS)),
            *(
                workers.submit(scalers.create_namespaced_horizontal_pod_autoscaler, "default", autoscaler(f"other-{n}"))
                for n in range(FOREIGN_AUTOSCALERS)
            ),
        ]
    assert all(each.exception() is None for each in made)
    seconds, peak = started_again(stage), stage.peak_bytes()
    cpu = of_a_tick(stage)
    stage.change("seen", minReplicas=4)
    stage.until("seen", 4, 60)
    for took, has, ticks in ((alone_seconds, alone_peak, alone_cpu), (seconds, peak, cpu)):
        print(f"ready in {took:.1f} s, {has / MEBIBYTE:.0f} MiB, {ticks * 1000:.0f} ms of CPU a tick")

    assert seconds < MOST_TIMES_THE_START * alone_seconds
    assert peak < memory_limit_bytes() / 2
    assert cpu < MOST_TIMES_THE_CPU * alone_cpu
    stage.assert_alive(restarts=0)
