"""`firsttoken emulate --fleet` beside a real API server, scheduler and Prometheus."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes import client

from firsttoken_operator.domain import Reason
from firsttoken_operator.observe import Collector, MeasureSettings, Store, measure
from firsttoken_operator.observe.prometheus import PrometheusSource, SourceConfig
from firsttoken_sizing.workload import Limit, Percentile
from tools.cluster import Cluster
from tools.cluster.waiting import wait_until

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[3]
CALL_CENTER = ROOT / "examples" / "call-center.yaml"
NAMESPACE, NAME = "fleet", "engines"
READY_AFTER_SECONDS = 9
"""Longer than Prometheus takes to act on a changed list of targets (7.5 s at most)."""
SCRAPE_SECONDS = 0.5
"""Interval of the module's Prometheus (tests/conftest.py)."""


def a_deployment(replicas, name=NAME, ready_after_seconds=READY_AFTER_SECONDS):
    """The labels of its pods are always the same, whatever its name."""
    pod_metadata = {
        "labels": {"app": NAME},
        "annotations": {"firsttoken.dev/ready-after": f"{ready_after_seconds}s"},
    }
    container = {"name": "nim", "image": "nim", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": NAME}},
            "template": {"metadata": pod_metadata, "spec": {"containers": [container]}},
        },
    }


class RunningFleet:
    def __init__(self, url: str, process: subprocess.Popen[str], truth: Path) -> None:
        self.url = url
        self.process = process
        self.truth = truth

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as response:
            return json.load(response)

    def pods(self):
        return {group["labels"]["pod"] for group in self.get("/sd")}


@pytest.fixture(scope="module")
def fleet(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("fleet")
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(a_deployment(3)))
    command = [
        *(sys.executable, "-m", "firsttoken_operator.cli", "emulate", "--fleet", "-f", CALL_CENTER),
        *("--kubeconfig", cluster.kubeconfig, "--namespace", NAMESPACE, "--deployment", NAME),
        *("--rate", "10", "--seconds", "600", "--start-when-ready", "3", "--routing", "least-loaded"),
        *("--port-file", folder / "port", "--truth", folder / "truth.jsonl", "--allow-control"),
    ]
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    try:
        wait_until((folder / "port").exists, 60, "the emulated fleet's port")
        url = f"http://127.0.0.1:{int((folder / 'port').read_text())}"
        running = RunningFleet(url, process, folder / "truth.jsonl")
        wait_until(lambda: running.get("/stats")["readyReplicas"] == 3, 60, "three ready replicas")
        cluster.add_http_sd(f"{url}/sd", job="fleet")
        yield running
    finally:
        process.kill()
        process.communicate()


def test_prometheus_sees_one_target_a_pod_with_namespace_and_pod_labels(cluster, fleet):
    names = {item["metadata"]["name"] for item in pods_of(cluster)}
    query = f'sum by (namespace, pod) (rate(time_to_first_token_seconds_count{{namespace="{NAMESPACE}"}}[5s]))'

    def seen():
        found = cluster.prometheus.query(query)
        return {item["metric"]["pod"] for item in found if float(item["value"][1]) > 0} == names

    assert len(names) == 3
    wait_until(seen, 60, "first tokens of three pods in Prometheus")


async def test_starting_pods_are_down_targets_that_spoil_no_health_and_are_scraped_once_they_are_ready(cluster, fleet):
    source = PrometheusSource(SourceConfig("default", cluster.prometheus_url), deadline_seconds=5.0)
    settings = MeasureSettings(window_seconds=4.0, scrape_interval_seconds=SCRAPE_SECONDS)

    async def look():
        reading = await Collector(
            source, window_seconds=settings.window_seconds, recent_seconds=settings.longest_gap_seconds
        ).read()
        uid, store = observed(cluster)
        return (
            reading.up,
            measure(reading, store.live_pods(uid, time.time()), Limit(200.0, Percentile.P95), settings),
            store,
        )

    ends = time.monotonic() + 60
    while (await look())[1].health is not Reason.PRESENT:
        assert time.monotonic() < ends, "three pods are never measured completely"
        await asyncio.sleep(0.2)

    cluster.kubectl("scale", "-n", NAMESPACE, f"deployment/{NAME}", "--replicas", "5")
    healths, down_while_starting, seen_ready, seen_up = set(), set(), {}, {}
    while len(seen_up) < 5:
        assert time.monotonic() < ends, f"up: {seen_up}, ready: {seen_ready}"
        up, metrics, store = await look()
        healths.add(metrics.health)
        view = store.workload(NAMESPACE, NAME)
        for pod in store.pods_of(view.uid) if view else ():
            value = up.get((pod.namespace, pod.name))
            if pod.ready:
                seen_ready.setdefault(pod.name, time.monotonic())
            elif value == 0:
                down_while_starting.add(pod.name)
            if value == 1:
                seen_up.setdefault(pod.name, time.monotonic())
        await asyncio.sleep(0.1)
    source.close()

    assert len(down_while_starting) == 2, "both new pods were targets before they were ready"
    assert max(seen_up[name] - seen_ready[name] for name in seen_up) < 2.0, "and were scraped at once when they were"
    assert healths == {Reason.PRESENT}


def test_pods_of_another_deployment_with_the_same_labels_are_not_followed(cluster, fleet):
    before = fleet.pods()
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(a_deployment(1, "others", ready_after_seconds=0)))
    cluster.kubectl("rollout", "status", "-n", NAMESPACE, "deployment/others", "--timeout=30s")
    assert len(pods_of(cluster)) == len(before) + 1
    assert fleet.pods() == before
    cluster.kubectl("delete", "-n", NAMESPACE, "deployment/others", "--wait=true")


def test_a_scaled_deployment_changes_the_fleet_and_no_request_is_lost(cluster, fleet):
    cluster.kubectl("scale", "-n", NAMESPACE, f"deployment/{NAME}", "--replicas", "6")
    wait_until(lambda: len(fleet.pods()) == 6, 60, "six targets")
    wait_until(lambda: fleet.get("/stats")["readyReplicas"] == 6, 60, "six ready replicas")

    cluster.kubectl("scale", "-n", NAMESPACE, f"deployment/{NAME}", "--replicas", "2")
    wait_until(lambda: len(fleet.pods()) == 2, 60, "two replicas")
    gone = fleet.get("/stats")
    assert gone["readyReplicas"] == 2
    assert gone["failed"] == 0, "what the deleted pods held drained in their grace period"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{fleet.url}/pods/{NAMESPACE}/unknown/metrics", timeout=10)


def test_the_run_ends_with_a_truth_file_and_a_verdict_on_its_lateness(cluster, fleet):
    wait_until(lambda: fleet.get("/stats")["ended"] > 20, 60, "twenty requests")
    fleet.process.terminate()
    output, _ = fleet.process.communicate(timeout=30)
    records = [json.loads(line) for line in fleet.truth.read_text().splitlines()]

    assert fleet.process.returncode == 0, output
    assert "emulation lateness p99" in output
    assert len(records) > 20
    assert all(record["ok"] for record in records)
    assert all(0 < record["ttft_seconds"] < record["e2e_seconds"] for record in records)


def pods_of(cluster):
    done = cluster.kubectl("get", "pods", "-n", NAMESPACE, "-o", "json")
    return json.loads(done.stdout)["items"]


def observed(cluster):
    """The Deployment's uid, and the cluster as the operator sees it."""
    store = Store()
    core, apps = client.CoreV1Api(cluster.client), client.AppsV1Api(cluster.client)
    lists = {
        "Deployment": apps.list_namespaced_deployment,
        "ReplicaSet": apps.list_namespaced_replica_set,
        "Pod": core.list_namespaced_pod,
    }
    for kind, objects in lists.items():
        for body in json.loads(objects(NAMESPACE, _preload_content=False).data)["items"]:
            store.feed(kind, None, body)
    return store.workload(NAMESPACE, NAME).uid, store
