"""A start on a cluster where pods come and go and lists are slow, and a collection that answers 404 once."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kubernetes import client as sync_client
from kubernetes.aio import client

from firsttoken_operator.act.kubernetes import KubernetesCluster, load_configuration
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.sync import CacheSync
from firsttoken_operator.run.watches import WATCHED
from tests.faults.actions import Delay, refused
from tests.faults.stage import Stage
from tools.cluster import Cluster, wait_until

pytestmark = pytest.mark.cluster

PODS_PER_SECOND = 5.0
RESOURCES = next(kind for kind in WATCHED if kind.kind == "InferenceDeployment")


@pytest.fixture(scope="module", autouse=True)
def resources(stage: Stage) -> None:
    stage.declare("seen", 2)


class Churn(threading.Thread):
    """Pods that come as a Poisson process, each of them in the place of the oldest of twenty."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(name="churn", daemon=True)
        self._pods = sync_client.CoreV1Api(cluster.client)
        self._random, self.ended, self.stop = random.Random(7), 0, threading.Event()

    def run(self) -> None:
        """Until `stop` is set."""
        names: list[str] = []
        # NB: held back by a gate, so that nothing but this thread ever touches them.
        spec = {"schedulingGates": [{"name": "example.com/held"}], "containers": [{"name": "job", "image": "job:1"}]}
        while not self.stop.wait(self._random.expovariate(PODS_PER_SECOND)):
            name = f"job-{self.ended}-{len(names)}"
            self._pods.create_namespaced_pod("default", {"metadata": {"name": name}, "spec": spec})
            names.append(name)
            if len(names) > 20:
                with contextlib.suppress(sync_client.ApiException):
                    self._pods.delete_namespaced_pod(names.pop(0), "default", grace_period_seconds=0)
                self.ended += 1


@contextmanager
def churning(cluster: Cluster) -> Iterator[Churn]:
    """Pods come and go inside the block."""
    churn = Churn(cluster)
    churn.start()
    try:
        wait_until(lambda: churn.ended > 0, 60, "pods that come and go")
        yield churn
    finally:
        churn.stop.set()
        churn.join(10)


def test_it_starts_while_pods_come_and_go_and_every_list_takes_seconds(stage: Stage) -> None:
    stage.settle()
    with churning(stage.cluster) as churn:
        slow = "/(replicasets|horizontalpodautoscalers)$"
        with stage.proxy.injecting(Delay(3.0), method="GET", path=slow, watch=False):
            before = churn.ended
            stage.process.kill()
            stage.settle()
        assert churn.ended > before
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
