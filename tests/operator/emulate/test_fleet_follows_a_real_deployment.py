"""`firsttoken emulate --fleet` beside a real API server, scheduler and Prometheus."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster import Cluster
from tests.cluster.waiting import wait_until

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[3]
CALL_CENTER = ROOT / "examples" / "call-center.yaml"
NAMESPACE, NAME = "fleet", "engines"


def a_deployment(replicas):
    container = {"name": "nim", "image": "nim", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": NAME}},
            "template": {"metadata": {"labels": {"app": NAME}}, "spec": {"containers": [container]}},
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
        wait_until(lambda: running.get("/stats")["readyReplicas"] == 3, 30, "three ready replicas")
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
    wait_until(seen, 30, "first tokens of three pods in Prometheus")


def test_a_scaled_deployment_changes_the_fleet_and_no_request_is_lost(cluster, fleet):
    cluster.kubectl("scale", "-n", NAMESPACE, f"deployment/{NAME}", "--replicas", "5")
    wait_until(lambda: fleet.get("/stats")["readyReplicas"] == 5, 30, "five ready replicas")
    assert len(fleet.pods()) == 5

    cluster.kubectl("scale", "-n", NAMESPACE, f"deployment/{NAME}", "--replicas", "2")
    wait_until(lambda: len(fleet.pods()) == 2, 30, "two replicas")
    gone = fleet.get("/stats")
    assert gone["readyReplicas"] == 2
    assert gone["failed"] == 0, "what the deleted pods held drained in their grace period"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{fleet.url}/pods/{NAMESPACE}/nobody/metrics", timeout=10)


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
