"""`minReplicas: 0`: the last replica goes when nothing comes, and a request that the gateway counts brings one back.

The counter is that of the emulated fleet's own gateway, which holds requests while no replica is ready.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from demo.scenario import Phase, Scenario
from demo.stage import EXAMPLE, SYSTEM_NAMESPACE, Place, Stage, prometheus_options
from tools.cluster import Cluster, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SCENARIO = Scenario(cold_start_seconds=30, initial_replicas=1)
STABILIZATION_SECONDS = 30
COUNTER = {"requestsTotal": "gateway_requests_total", "namespaceLabel": "backend_namespace", "nameLabel": "backend"}
LONG_SECONDS = 600.0


@pytest.fixture
def sleepy_example(tmp_path: Path) -> Path:
    """The call center, which may go to 0 at night."""
    documents = list(yaml.safe_load_all(EXAMPLE.read_text()))
    for document in documents:
        if document["kind"] == "InferenceDeployment":
            document["spec"]["scaling"] |= {
                "minReplicas": 0,
                "scaleDownStabilizationSeconds": STABILIZATION_SECONDS,
            }
    path = tmp_path / "sleepy.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return path


def test_it_sleeps_when_nothing_comes_and_wakes_up_for_a_request(sleepy_example: Path) -> None:
    with (
        Cluster(
            nodes=1,
            ready_delay_seconds=SCENARIO.scaled(SCENARIO.cold_start_seconds),
            prometheus=prometheus_options(SCENARIO),
        ) as cluster,
        Stage(Place(cluster.kubeconfig, cluster.prometheus_url, cluster.folder), SCENARIO, example=sleepy_example) as s,
        gateway_of(s) as counted,
    ):
        s.set_up()
        cluster.add_http_sd(s.discovery_url)
        cluster.add_http_sd(counted, job="gateway")
        s.start_operator(cluster.service_account_kubeconfig(SYSTEM_NAMESPACE, "firsttoken"), gateway=COUNTER)
        s.wait_until_ready(30)
        s.start_fleet((Phase(0, 0),), LONG_SECONDS, control=True)

        wait_until(lambda: s.status().get("replicas") == 0, 40, "the last replica gone")
        wait_until(lambda: s.condition("Ready") == ("True", "ScaledToZero"), 5, "scaled to zero")
        assert s.condition("MetricsHealthy") == ("True", "ScaledToZero")
        assert s.condition("ScalingActive") == ("True", "Active")
        time.sleep(2 * SCENARIO.tick_wall_seconds)
        assert s.status()["replicas"] == 0, "nothing wakes it up while nothing comes"

        s.control("load", {"requestsPerSecond": 3})
        wait_until(lambda: (s.stats() or {}).get("ended", 0) > 0, 15, "a request answered")
        s.control("load", {"requestsPerSecond": 0})
        stats = s.stats()
        assert stats is not None
        assert stats["failed"] == 0
        woken = next(record for record in s.status()["decisions"] if record["from"] == 0)
        assert woken["to"] >= 1
        assert woken["reason"] in ("DemandAboveCapacity", "Backlog")


@contextmanager
def gateway_of(stage: Stage) -> Iterator[str]:
    """Serves the requests that came to the emulated fleet as a gateway's counter; yields where it is discovered."""
    labels = f'backend_namespace="{stage.namespace}",backend="{stage.target}"'

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            stats = stage.stats() if stage.fleet is not None else None
            if self.path == "/sd":
                content = json.dumps([{"targets": [f"127.0.0.1:{server.server_port}"], "labels": {}}])
            else:
                content = f"gateway_requests_total{{{labels}}} {stats['arrived'] if stats else 0}\n"
            self.send_response(200)
            self.send_header("Content-Type", "application/json" if self.path == "/sd" else "text/plain")
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/sd"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
