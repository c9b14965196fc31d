"""`make demo` as a user types it: it passes, and it fails when nothing is scaled."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from demo.scenario import Scenario
from demo.stage import prometheus_options
from tests.demo.made import LONGEST_SILENCE_SECONDS, make_demo
from tools.cluster import Cluster, lease_port

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.mark.timeout(600)
def test_the_demo_passes_and_leaves_its_page(tmp_path: Path) -> None:
    page = tmp_path / "demo.html"

    began = time.monotonic()
    done = make_demo(arguments=f"--page {page}")
    took_seconds = time.monotonic() - began

    assert done.returncode == 0, done.said
    assert took_seconds < 360, "it promises to take less than 6 minutes"
    rows = re.findall(r"^\d+  \d+  \d+  \d+  \d+  (?:\d+ ms|-)  300 ms .*  4  [\d,]+ ms ", done.said, re.MULTILINE)
    assert len(rows) > 45, "a row of both fleets every five seconds, without a terminal as well"
    assert "PASSED" in done.said
    assert done.silence_seconds < LONGEST_SILENCE_SECONDS
    assert "firsttoken demo: <span class=passed>" in page.read_text()


@pytest.mark.timeout(600)
def test_on_a_users_own_cluster_a_frozen_scaler_fails_the_demo(tmp_path: Path) -> None:
    leases = (lease_port(), lease_port())
    ports = [lease.port for lease in leases]
    with Cluster(prometheus=prometheus_options(Scenario())) as cluster:
        for port in ports:
            cluster.add_http_sd(f"http://127.0.0.1:{port}/sd", job=f"fleet-{port}")
        own = {"KUBECONFIG": str(cluster.kubeconfig), "PROMETHEUS_URL": cluster.prometheus_url}
        page = tmp_path / "demo.html"

        done = make_demo(arguments=f"--freeze --fleet-ports {ports[0]} {ports[1]} --page {page}", environment=own)
    for lease in leases:
        lease.release()

    # make turns the demo's exit status 1 into its own 2.
    assert done.returncode == 2, done.said
    assert "Error 1" in done.said
    assert "FAILED" in done.said
    assert "firsttoken demo: <span class=failed>" in page.read_text()
