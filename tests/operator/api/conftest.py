"""One API server with the committed custom resource definitions, for all tests of this folder that need one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.cluster import Cluster

CRDS = Path(__file__).parents[3] / "crds"


@pytest.fixture(scope="session")
def cluster(control_plane: Path) -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        cluster.kubectl("apply", "--server-side", "-f", CRDS)
        cluster.wait_until_established()
        yield cluster
