"""The emulated cluster does what the tests and the demo take for granted: GPUs, model loading, RBAC, metrics."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from kubernetes import client

from tools.cluster import Cluster, GpuServers, PrometheusOptions, wait_until

pytestmark = pytest.mark.cluster

READY_DELAY_SECONDS = 3.0
SERVERS = (GpuServers(count=2), GpuServers(count=1, gpus=4, product="NVIDIA-L40S", memory_mib=46_068, prefix="l40s"))


@pytest.fixture(scope="module")
def gpu_cluster(control_plane, request):
    failed_before = request.session.testsfailed
    started = time.monotonic()
    options = PrometheusOptions(scrape_interval_seconds=0.3, discovery_interval_seconds=0.2, lookback_seconds=3)
    with Cluster(servers=SERVERS, ready_delay_seconds=READY_DELAY_SECONDS, prometheus=options) as cluster:
        cluster.seconds_to_start = time.monotonic() - started
        yield cluster
        if request.session.testsfailed > failed_before:
            cluster.keep_logs()


def deployment(name, replicas, *, gpus=1, annotations=None):
    labels = {"app": name}
    container = {"name": "engine", "image": "engine:1", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    template = {"metadata": {"labels": labels, "annotations": annotations or {}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})


def pods(cluster, name):
    return client.CoreV1Api(cluster.client).list_namespaced_pod("default", label_selector=f"app={name}").items


def condition(pod, kind):
    return next((entry for entry in pod.status.conditions or [] if entry.type == kind), None)


def ready_pods(cluster, name):
    return [pod for pod in pods(cluster, name) if (found := condition(pod, "Ready")) and found.status == "True"]


def seconds_from_apply_to_ready(cluster, name, replicas, **options):
    started = time.monotonic()
    cluster.kubectl("apply", "-f", "-", stdin=deployment(name, replicas, **options))
    wait_until(lambda: len(ready_pods(cluster, name)) == replicas, 60, f"{replicas} pods of {name} ready")
    return time.monotonic() - started


@pytest.fixture
def targets():
    """A server with a changeable list of targets, each answering one series `sample_value`."""
    names = ["a", "b"]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/targets":
                kind, body = "application/json", json.dumps([target(self.server, name) for name in names])
            else:
                kind, body = "text/plain; version=0.0.4", f"sample_value {len(self.path)}\n"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            """Say nothing."""

    def target(server, name):
        return {"targets": [f"127.0.0.1:{server.server_port}"], "labels": {"__metrics_path__": f"/{name}", "pod": name}}

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/targets", names
        server.shutdown()
        thread.join()


def test_it_is_ready_in_under_fifteen_seconds(gpu_cluster):
    assert gpu_cluster.seconds_to_start < 15


def test_nodes_offer_the_gpus_their_labels_promise(gpu_cluster):
    nodes = {node.metadata.name: node for node in client.CoreV1Api(gpu_cluster.client).list_node().items}

    assert {name: node.status.allocatable["nvidia.com/gpu"] for name, node in nodes.items()} == {
        "dgx-0": "8",
        "dgx-1": "8",
        "l40s-0": "4",
    }
    labels = nodes["dgx-0"].metadata.labels
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert labels["nvidia.com/gpu.count"] == "8"
    assert labels["nvidia.com/gpu.memory"] == "81559"
    assert nodes["l40s-0"].metadata.labels["nvidia.com/gpu.product"] == "NVIDIA-L40S"


def test_a_pod_runs_unready_until_its_model_is_loaded(gpu_cluster):
    gpu_cluster.kubectl("apply", "-f", "-", stdin=deployment("loading", 1))
    (pod,) = wait_until(
        lambda: [pod for pod in pods(gpu_cluster, "loading") if pod.status.pod_ip], 10, "a pod with an address"
    )
    assert pod.status.phase == "Running"
    assert condition(pod, "Ready").status == "False"
    assert pod.status.container_statuses[0].ready is False

    (pod,) = wait_until(lambda: ready_pods(gpu_cluster, "loading"), 60, "the pod ready")
    loaded = condition(pod, "Ready").last_transition_time - pod.status.start_time
    assert loaded.total_seconds() == pytest.approx(READY_DELAY_SECONDS, abs=1.5)  # Kubernetes times are whole seconds
    gpu_cluster.kubectl("delete", "deployment", "loading")


def test_an_annotation_sets_a_pods_own_loading_time(gpu_cluster):
    quick = seconds_from_apply_to_ready(gpu_cluster, "quick", 2, annotations={"firsttoken.dev/ready-after": "100ms"})
    slow = seconds_from_apply_to_ready(gpu_cluster, "slow", 2, annotations={"firsttoken.dev/ready-after": "5s"})

    assert quick < READY_DELAY_SECONDS
    assert slow >= 5
    gpu_cluster.kubectl("delete", "deployment", "quick", "slow")


def test_deleted_pods_are_gone_at_once_or_after_their_own_time(gpu_cluster):
    late = {"firsttoken.dev/ready-after": "0s", "firsttoken.dev/terminate-after": "4s"}
    seconds_from_apply_to_ready(gpu_cluster, "prompt", 3, annotations={"firsttoken.dev/ready-after": "0s"})
    seconds_from_apply_to_ready(gpu_cluster, "late", 1, annotations=late)
    started = time.monotonic()
    gpu_cluster.kubectl("scale", "deployment", "prompt", "late", "--replicas=0")

    wait_until(lambda: not pods(gpu_cluster, "prompt"), 60, "prompt pods gone")
    (terminating,) = pods(gpu_cluster, "late")
    wait_until(lambda: not pods(gpu_cluster, "late"), 60, "the late pod gone")

    assert terminating.metadata.deletion_timestamp is not None
    assert time.monotonic() - started >= 4
    gpu_cluster.kubectl("delete", "deployment", "prompt", "late")


def test_pods_beyond_the_gpus_stay_unschedulable(gpu_cluster):
    gpu_cluster.kubectl("apply", "-f", "-", stdin=deployment("big", 6, gpus=4))

    def unschedulable():
        states = [condition(pod, "PodScheduled") for pod in pods(gpu_cluster, "big")]
        return [state for state in states if state and state.reason == "Unschedulable"]

    (state,) = wait_until(unschedulable, 60, "one pod without room")

    assert "Insufficient nvidia.com/gpu" in state.message
    wait_until(lambda: len(ready_pods(gpu_cluster, "big")) == 5, 60, "the others ready")
    gpu_cluster.kubectl("delete", "deployment", "big")


def test_a_service_account_may_do_only_what_its_role_says(gpu_cluster):
    gpu_cluster.kubectl("create", "serviceaccount", "reader")
    gpu_cluster.kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    gpu_cluster.kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:reader")
    own = gpu_cluster.service_account_kubeconfig("default", "reader")
    assert own.stat().st_mode & 0o077 == 0

    wait_until(
        lambda: gpu_cluster.kubectl("get", "configmaps", kubeconfig=own, check=False).returncode == 0,
        5,
        "the role to take effect",
    )
    refused = gpu_cluster.kubectl("get", "pods", kubeconfig=own, check=False)

    assert refused.returncode != 0
    assert 'User "system:serviceaccount:default:reader" cannot list resource "pods"' in refused.stderr


def test_prometheus_follows_the_list_of_targets(gpu_cluster, targets):
    url, names = targets
    gpu_cluster.add_http_sd(url)

    def scraped():
        return sorted(series["metric"]["pod"] for series in gpu_cluster.prometheus.query("sample_value"))

    wait_until(lambda: scraped() == ["a", "b"], 60, "both targets scraped")
    names.append("c")
    wait_until(lambda: scraped() == ["a", "b", "c"], 60, "the new target scraped")
    names.remove("a")
    wait_until(lambda: scraped() == ["b", "c"], 60, "the removed target gone")


def test_prometheus_answers_with_old_samples_while_scraping_is_paused(gpu_cluster, targets):
    gpu_cluster.add_http_sd(targets[0])
    prometheus = gpu_cluster.prometheus
    count = "max_over_time(count(sample_value)[60s:300ms])"
    wait_until(lambda: prometheus.query("sample_value"), 60, "targets scraped")

    prometheus.pause_scraping()
    wait_until(lambda: not prometheus.query("sample_value"), 60, "no fresh sample")
    assert prometheus.query(count)

    prometheus.resume_scraping()
    wait_until(lambda: prometheus.query("sample_value"), 60, "targets scraped again")


def test_prometheus_keeps_its_address_over_an_outage_and_its_samples_unless_emptied(gpu_cluster, targets):
    gpu_cluster.add_http_sd(targets[0])
    address, prometheus = gpu_cluster.prometheus_url, gpu_cluster.prometheus
    wait_until(lambda: prometheus.query("sample_value"), 60, "targets scraped")
    before = time.time()
    past = f"count(count_over_time(sample_value[1h] @ {before:.3f}))"

    gpu_cluster.stop_prometheus()
    with pytest.raises(OSError, match="Connection refused"):
        prometheus.query("up")
    gpu_cluster.start_prometheus()
    assert prometheus.query(past)

    gpu_cluster.restart_prometheus(empty=True)
    assert prometheus.query(past) == []
    assert gpu_cluster.prometheus_url == address
    wait_until(lambda: prometheus.query("sample_value"), 60, "targets scraped again after the restart")
