"""Deletion costs against a real API server and its real ReplicaSet controller: the pods with most to do stay."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firsttoken_operator.act.kubernetes import KubernetesCluster
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.domain import ResourceSnapshot, ScalingMode
from firsttoken_operator.observe.projections import DELETION_COST, OWN_DELETION_COST
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.victims import Victims
from tests.fixtures.connected import connected
from tests.operator.act.objects import NAMESPACE, decision, infd, seen, workload
from tests.operator.decide.builders import POLICY
from tools.cluster import Cluster, wait_until

pytestmark = pytest.mark.cluster

KINDS = {"Deployment": "deployments", "ReplicaSet": "replicasets", "Pod": "pods"}


@pytest.fixture(scope="module")
def cluster(control_plane: Path) -> Iterator[Cluster]:
    with Cluster(nodes=4) as running:
        yield running


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[KubernetesCluster]:
    async with connected(cluster.kubeconfig) as made:
        yield made


class Fleet:
    """A Deployment of four ready pods, and what a tick would see of it. The n-th pod by name has 10 n requests."""

    def __init__(self, cluster: Cluster, api: KubernetesCluster, name: str) -> None:
        self._cluster, self._name, self._api = cluster, name, api
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(workload(4, name)))
        wait_until(lambda: self._get("deployment", name)["status"].get("readyReplicas") == 4, 60, "four pods are ready")
        self.names = sorted(pod["metadata"]["name"] for pod in self._pods())
        self.under_way = {pod: 10.0 * place for place, pod in enumerate(self.names)}

    async def decided(self, replicas: int, **changes: Any) -> None:
        """Prepare the pods for a decision to go from four to so many replicas."""
        about, store = self._seen(**changes), Store()
        for kind, plural in KINDS.items():
            for body in json.loads(self._cluster.kubectl("get", plural, "-n", NAMESPACE, "-o", "json").stdout)["items"]:
                store.feed(kind, None, body)
        writes = WriteQueue()
        await Victims(self._api, writes).prepare(decision(about, 4, replicas), about, store)
        await writes.close()

    def scale(self, replicas: int) -> list[str]:
        """Write the replicas; the names of the pods that stay."""
        self._cluster.kubectl("scale", "deployment", self._name, "-n", NAMESPACE, f"--replicas={replicas}")
        wait_until(lambda: len(self._pods()) == replicas, 60, "pods are gone")
        return sorted(pod["metadata"]["name"] for pod in self._pods())

    def costs(self) -> dict[str, str]:
        """Deletion costs by name; both annotations agree."""
        found = {}
        for pod in self._pods():
            annotations = pod["metadata"].get("annotations", {})
            assert annotations.get(DELETION_COST) == annotations.get(OWN_DELETION_COST)
            if DELETION_COST in annotations:
                found[pod["metadata"]["name"]] = annotations[DELETION_COST]
        return found

    def _seen(self, **changes: Any) -> ResourceSnapshot:
        resource, live = infd(), self._get("deployment", self._name)
        resource["metadata"] |= {"uid": "r-1", "generation": 1}
        about = seen(resource, live, **changes)
        return replace(about, metrics=replace(about.metrics, under_way=self.under_way))

    def _get(self, kind: str, name: str) -> dict[str, Any]:
        return dict(json.loads(self._cluster.kubectl("get", kind, name, "-n", NAMESPACE, "-o", "json").stdout))

    def _pods(self) -> list[dict[str, Any]]:
        answer = self._cluster.kubectl("get", "pods", "-n", NAMESPACE, "-l", f"app={self._name}", "-o", "json").stdout
        return [pod for pod in json.loads(answer)["items"] if "deletionTimestamp" not in pod["metadata"]]


async def test_the_pods_with_the_fewest_requests_go(cluster: Cluster, api: KubernetesCluster) -> None:
    fleet = Fleet(cluster, api, "idlest")
    # Turned round, so that neither names nor ages say the same.
    fleet.under_way = dict(zip(reversed(fleet.names), fleet.under_way.values(), strict=True))
    await fleet.decided(2)

    assert fleet.costs() == {fleet.names[3]: "-2", fleet.names[2]: "-1"}
    assert fleet.scale(2) == fleet.names[:2]
    assert fleet.costs() == {}


async def test_where_the_write_does_not_follow_the_costs_are_taken_away(
    cluster: Cluster, api: KubernetesCluster
) -> None:
    fleet = Fleet(cluster, api, "refused")
    await fleet.decided(3)
    marked = fleet.costs()
    await fleet.decided(4)

    assert marked == {fleet.names[0]: "-1"}
    assert fleet.costs() == {}


async def test_costs_of_another_are_left_alone(cluster: Cluster, api: KubernetesCluster) -> None:
    fleet = Fleet(cluster, api, "chosen")
    cluster.kubectl("annotate", "pod", fleet.names[1], "-n", NAMESPACE, f"{DELETION_COST}=-5")
    await fleet.decided(3)

    assert fleet.scale(3) == [fleet.names[0], *fleet.names[2:]]


@pytest.mark.parametrize(
    "changes",
    [{"policy": replace(POLICY, mode=ScalingMode.ADVISORY)}, {"conflict": "HPA x"}],
    ids=["advice", "conflict"],
)
async def test_what_is_not_written_marks_no_pod(
    cluster: Cluster, api: KubernetesCluster, changes: dict[str, Any]
) -> None:
    fleet = Fleet(cluster, api, f"only-{'advised' if 'policy' in changes else 'claimed'}")
    await fleet.decided(3, **changes)

    assert fleet.costs() == {}


async def test_a_server_that_denies_it_stops_no_scale_down(cluster: Cluster) -> None:
    account = cluster.service_account_kubeconfig(NAMESPACE, "default")
    async with connected(account) as without_rights:
        fleet = Fleet(cluster, without_rights, "denied")
        await fleet.decided(3)

    assert fleet.costs() == {}
    assert len(fleet.scale(3)) == 3
