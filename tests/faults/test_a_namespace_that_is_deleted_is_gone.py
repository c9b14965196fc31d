"""A namespace is deleted after the operator is gone: nothing of ours holds it up, no finalizer and no owner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operator.act.objects import infd, workload
from tests.operator.run.process import Process, create, installed, nim
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.every_fault]

NAMESPACE = "leaving"


def test_it_disappears_with_what_was_scaled_and_what_was_rendered(control_plane: Path, tmp_path: Path) -> None:
    with installed() as (cluster, account):
        cluster.kubectl("create", "namespace", NAMESPACE)
        cluster.kubectl("label", "namespace", NAMESPACE, "firsttoken.dev/scale=true", "firsttoken.dev/render=true")
        scaled = infd("scaled", targetRef={"name": "scaled"}, scaling={"minReplicas": 3})
        objects = [workload(1, "scaled"), scaled, nim("rendered", minReplicas=2)]
        for each in objects:
            each["metadata"]["namespace"] = NAMESPACE
        create(cluster, *objects)
        process = Process(tmp_path, account)

        def sizes() -> str:
            return cluster.kubectl(
                "-n", NAMESPACE, "get", "deployments", "-o", "jsonpath={.items[*].spec.replicas}"
            ).stdout

        try:
            wait_until(lambda: sorted(sizes().split()) == ["2", "3"], 90, "one scaled and one rendered")
        finally:
            process.kill()
        cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=true", "--timeout=60s")

        assert cluster.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found", "-o", "name").stdout == ""
