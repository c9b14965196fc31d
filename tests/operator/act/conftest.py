"""A small cluster with the custom resource definitions, and the operator's own client to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from firsttoken_operator.act.kubernetes import KubernetesCluster
from tests.fixtures.connected import connected
from tools.cluster import Cluster

CRDS = Path(__file__).parents[3] / "crds"


@pytest.fixture(scope="module")
def cluster(control_plane: Path) -> Iterator[Cluster]:
    with Cluster(nodes=2) as running:
        running.kubectl("apply", "--server-side", "-f", CRDS)
        running.wait_until_established()
        yield running


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[KubernetesCluster]:
    async with connected(cluster.kubeconfig) as made:
        yield made
