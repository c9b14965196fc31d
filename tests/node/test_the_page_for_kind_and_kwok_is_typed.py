"""docs/ten-minutes.md on a real node beside kwok: what its reader types on kind, all but what Docker and kind do.

The operator, the emulated engines and Prometheus are pods of the node; the replicas are on servers that kwok plays.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import yaml

from tests.docs.pages import ROOT
from tests.docs.reader import Reader, equipped
from tests.fixtures.definitions import definition
from tools.cluster import Component, control_plane, wait_until
from tools.image.build import Image
from tools.node.components import ADDRESS
from tools.node.node import PROMETHEUS, Node, missing

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"no node runs here: {missing()}"),
]

PAGE = ROOT / "docs/ten-minutes.md"
KIND_AND_KWOK = "## kind and kwok"
SERVERS, RELEASE, FLEET, LOOK = 1, 3, 4, 5
"""Places of the page's blocks that need neither Docker nor kind."""
KWOK_OPTIONS = (
    "--enable-crds=Stage",
    "--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
    "--cidr=10.64.0.0/16", f"--node-ip={ADDRESS}", f"--server-address={ADDRESS}:10247", "--node-port=10247",
)  # fmt: skip
"""Options as the release of kwok sets them in its KwokConfiguration."""
REPLICAS_AT_FIRST = 4


@pytest.fixture(scope="module")
def node(image: Image) -> Iterator[Node]:
    """A node with kwok beside it, and with the images of the page."""
    with ExitStack() as parts:
        node = parts.enter_context(Node(images=[image.archive], gpus=0))
        (prometheus,) = (
            container["image"]
            for document in yaml.safe_load_all((ROOT / "examples/emulated/prometheus.yaml").read_text())
            if document["kind"] == "Deployment"
            for container in document["spec"]["template"]["spec"]["containers"]
        )
        for name, other in ((image.name, "localhost/firsttoken:try"), (PROMETHEUS, prometheus)):
            node.run("ctr", "--namespace=k8s.io", "images", "tag", name, other)
        stages = definition("kwok.x-k8s.io", "v1alpha1", "Stage", scope="Cluster")
        node.kubectl("apply", "-f", "-", stdin=json.dumps(stages))
        node.kubectl("wait", "--for=create", "crd/stages.kwok.x-k8s.io")
        node.kubectl("wait", "--for=condition=Established", "crd/stages.kwok.x-k8s.io")
        command = node.in_network(control_plane() / "kwok", f"--kubeconfig={node.kubeconfig}", *KWOK_OPTIONS)
        kwok = Component("kwok", command, node.folder / "kwok.log")
        parts.callback(kwok.stop)
        yield node


@pytest.mark.timeout(900)
def test_pods_on_paper_are_scaled_by_pods_that_run(node: Node) -> None:
    environment = equipped(os.environ | {"KUBECONFIG": str(node.kubeconfig), "NO_PROXY": "*"})
    environment["KUBECACHEDIR"] = str(node.folder / "kubectl-cache")
    with Reader(PAGE, ROOT, environment, shell=node.in_network("bash")) as reader:
        reader.follow(KIND_AND_KWOK, SERVERS)
        reader.follow(KIND_AND_KWOK, RELEASE, timeout_seconds=300)
        reader.follow(KIND_AND_KWOK, FLEET, timeout_seconds=300)
        wait_until(lambda: ready_replicas(node) > REPLICAS_AT_FIRST, 300, "more replicas are ready", poll_seconds=2)
        assert "ScaledUp" in reader.follow(KIND_AND_KWOK, LOOK)

    where = {
        pod["metadata"]["labels"]["app.kubernetes.io/name"]: pod["spec"]["nodeName"].partition("-")[0]
        for pod in json.loads(node.kubectl("get", "pods", "-A", "-o", "json").stdout)["items"]
    }
    assert where == {"firsttoken": "node", "fleet": "node", "prometheus": "node", "support-rag": "dgx"}


def ready_replicas(node: Node) -> int:
    ready = "jsonpath={.status.readyReplicas}"
    return int(node.kubectl("-n", "call-center", "get", "deployment", "support-rag", "-o", ready).stdout or 0)
