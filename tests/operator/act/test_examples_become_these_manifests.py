"""Each example with `runtime` becomes the manifests that were read by eye, and a real API server takes them.

The API server judges without making anything (`--dry-run=server`), and a pod of each template passes the Pod Security
Standard `restricted` where that is enforced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from firsttoken_operator.act.manifests import WORKLOADS, manifests
from firsttoken_operator.domain.pods import KEEPER_KIND
from firsttoken_operator.runtimes import CONTAINERS
from tests.operator.act.golden import EXAMPLES, POD_KINDS, golden, rendering, templates, text
from tools.cluster import Cluster
from tools.cluster.definitions import LEADER_WORKER_SET, POD_MONITOR, definition_of

NAMES = [path.stem for path in EXAMPLES]


def test_every_server_has_an_example() -> None:
    shown = [rendering(path).container for path in EXAMPLES]

    assert all(any(container is one for one in shown) for container in CONTAINERS)


@pytest.mark.parametrize("path", EXAMPLES, ids=NAMES)
def test_an_example_becomes_what_was_read(path: Path) -> None:
    assert golden(path).read_text() == text(manifests(rendering(path))), "run: python -m tests.operator.act.golden"


def test_every_kind_of_workload_has_an_example() -> None:
    shown = {manifests(rendering(path))[-1]["kind"] for path in EXAMPLES}

    assert shown == {kind.kind for kind in WORKLOADS}


def test_an_image_is_kept_in_an_example() -> None:
    assert any(manifests(rendering(path))[0]["kind"] == KEEPER_KIND for path in EXAMPLES)


def _pod(template: dict[str, Any]) -> dict[str, Any]:
    metadata = template["metadata"] | {"name": "one", "namespace": "team"}
    return {"apiVersion": "v1", "kind": "Pod"} | template | {"metadata": metadata}


@pytest.fixture(scope="module")
def hardened(control_plane: Path) -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        for definition in (POD_MONITOR, LEADER_WORKER_SET):
            running.kubectl("apply", "--server-side", "-f", definition_of(definition))
        running.wait_until_established()
        running.kubectl("create", "namespace", "team")
        running.kubectl("label", "namespace", "team", "pod-security.kubernetes.io/enforce=restricted")
        yield running


@pytest.mark.cluster
@pytest.mark.parametrize("path", EXAMPLES, ids=NAMES)
def test_the_api_server_takes_each_object_and_its_pods(hardened: Cluster, path: Path) -> None:
    made = list(yaml.safe_load_all(golden(path).read_text()))
    pods = [_pod(template) for each in made if each["kind"] in POD_KINDS for template in templates(each)]
    # NB: strict: a field that the API does not know is an error, and not dropped.
    for manifest in (*made, *pods):
        told = hardened.kubectl(
            "create", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-",
            stdin=json.dumps(manifest), check=False,
        )  # fmt: skip
        assert told.returncode == 0, f"{manifest['kind']}: {told.stderr}"
        assert "would violate PodSecurity" not in told.stderr
