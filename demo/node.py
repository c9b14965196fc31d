"""`python -m demo.node`: the demo on a real node of this machine (`make demo NODE=1`).

The operator is a release of the chart in two pods, Prometheus is a pod, and so is every replica: scheduled, started and
ended by the node. Only the engines in them are emulated, and the traffic, as everywhere. Options are the demo's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

import yaml

from demo.scenario import BUSY_HOUR
from demo.stage import ROOT, prometheus_options
from tools.cluster import SetupError, report, under_way
from tools.image.build import image
from tools.node.components import ADDRESS
from tools.node.node import PROMETHEUS, Node, missing

MANIFEST = ROOT / "examples" / "emulated" / "prometheus.yaml"
PROMETHEUS_URL = "http://prometheus-operated.monitoring.svc:9090"
FLEET_PORTS = (9464, 9465)
GPUS = BUSY_HOUR.servers * BUSY_HOUR.gpus_per_server
ROLLOUT_SECONDS = 120


def main() -> int:
    """Run the demo on a node; 0 as well where this machine cannot run one, which is said."""
    if reason := missing():
        print(f"demo: skipped, no node runs here: {reason}", flush=True)
        return 0
    try:
        return play(sys.argv[1:])
    except (SetupError, TimeoutError, AssertionError) as error:
        print(f"demo: {' '.join(str(error).split())}", file=sys.stderr)
        return 1


def play(options: list[str]) -> int:
    """Start a node with Prometheus, and the demo in its network; the demo's exit status."""
    built = image()
    with ExitStack() as parts:
        with under_way("node"):
            node = parts.enter_context(Node(images=[built.archive], gpus=GPUS))
        with under_way("Prometheus"):
            node.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(prometheus()))
            status = ["rollout", "status", "deployment/prometheus", f"--timeout={ROLLOUT_SECONDS}s"]
            node.kubectl("-n", "monitoring", *status, timeout_seconds=2 * ROLLOUT_SECONDS)
        report(node.kubectl("get", "nodes", "-o", "wide").stdout)
        own = {"KUBECONFIG": str(node.kubeconfig), "PROMETHEUS_URL": PROMETHEUS_URL, "NO_PROXY": "*"}
        ports = [str(port) for port in FLEET_PORTS]
        demo = [
            sys.executable,
            "-m",
            "demo",
            "--image",
            built.name,
            "--fleet-address",
            ADDRESS,
            "--fleet-ports",
            *ports,
        ]
        return subprocess.run(node.in_network(*demo, *options), cwd=ROOT, env=os.environ | own, check=False).returncode


def prometheus() -> list[dict[str, Any]]:
    """Manifests of examples/emulated with the node's image, and with both fleets, at the scenario's intervals."""
    options = prometheus_options(BUSY_HOUR)
    scrape, refresh = (
        f"{round(1000 * seconds)}ms"
        for seconds in (options.scrape_interval_seconds, options.discovery_interval_seconds)
    )
    jobs = [
        {
            "job_name": f"fleet-{port}",
            "scrape_interval": scrape,
            "scrape_timeout": scrape,
            "http_sd_configs": [{"url": f"http://{ADDRESS}:{port}/sd", "refresh_interval": refresh}],
        }
        for port in FLEET_PORTS
    ]
    documents: list[dict[str, Any]] = list(yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")))
    by_kind = {document["kind"]: document for document in documents}
    by_kind["ConfigMap"]["data"] = {"prometheus.yml": yaml.safe_dump({"scrape_configs": jobs})}
    (container,) = by_kind["Deployment"]["spec"]["template"]["spec"]["containers"]
    container["image"] = PROMETHEUS
    container["args"].append(f"--scrape.discovery-reload-interval={refresh}")
    return documents


if __name__ == "__main__":
    sys.exit(main())
