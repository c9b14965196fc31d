"""Holds a cluster up to try things on, until Ctrl-C: `python -m tools.cluster.hold` (`make cluster`).

The local control plane with eight GPU servers, a Prometheus, and engines with traffic for the Deployment that
examples/call-center.yaml names, from the moment that it is there. Nothing else is installed into it: that is what one
tries. How to reach it is in `artifacts/cluster`.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import yaml

from tools.cluster.local_cluster import Cluster
from tools.cluster.ports import lease_port
from tools.cluster.process import Component
from tools.cluster.progress import exit_status, report, under_way
from tools.cluster.prometheus import PrometheusOptions
from tools.cluster.tools import kubectl

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "artifacts" / "cluster"
EXAMPLE = "examples/call-center.yaml"
REQUESTS_PER_SECOND = 60
REPLICAS_AT_FIRST = 4
"""Replicas of examples/emulated/deployment.yaml; the traffic waits for them."""
TRAFFIC_SECONDS = 4 * 3600
INTERVAL_SECONDS = 5
"""Time between two scrapes, and between two decisions."""
POLL_SECONDS = 0.5
FLEET_STOP_SECONDS = 20.0
HOW_TO_GO_ON = f"""
A cluster is up: 64 emulated GPUs and a Prometheus, until Ctrl-C. In another terminal, in this folder:

  . artifacts/cluster/env
  kubectl apply --server-side -f crds/
  until kubectl get infd > /dev/null 2>&1; do sleep 1; done
  firsttoken operator --config artifacts/cluster/operator.yaml > artifacts/cluster/operator.log 2>&1 &
  kubectl apply -f {EXAMPLE} -f examples/emulated/deployment.yaml

See it scale:  kubectl -n call-center get infd,deployment
More traffic:  curl -d '{{"requestsPerSecond": 160}}' "$FLEET/load"
"""


def hold() -> None:
    """Hold the cluster until a signal comes, or the traffic ends."""
    # NB: both, as a shell starts what it puts into the background with Ctrl-C ignored.
    for ends in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ends, signal.default_int_handler)
    with ExitStack() as parts:
        try:
            fleet = _started(parts)
            print(HOW_TO_GO_ON, flush=True)
            while fleet.running:
                time.sleep(POLL_SECONDS)
            report(f"the emulated fleet has ended:\n{fleet.log_tail()}")
        except KeyboardInterrupt:
            report("ending the cluster")


def _started(parts: ExitStack) -> Component:
    options = PrometheusOptions(scrape_interval_seconds=INTERVAL_SECONDS, discovery_interval_seconds=2)
    with under_way("cluster"):
        cluster = parts.enter_context(Cluster(prometheus=options))
    FOLDER.mkdir(parents=True, exist_ok=True)
    operator_port, fleet_port = lease_port(), lease_port()
    fleet_url = f"http://127.0.0.1:{fleet_port.port}"
    settings = {
        "prometheus": {"default": cluster.prometheus_url},
        "tickSeconds": INTERVAL_SECONDS,
        "scrapeIntervalSeconds": INTERVAL_SECONDS,
        "host": "127.0.0.1",
        "port": operator_port.port,
    }
    (FOLDER / "operator.yaml").write_text(yaml.safe_dump(settings))
    programs = f"{kubectl().parent}:{Path(sys.executable).parent}"
    variables = {
        "KUBECONFIG": str(cluster.kubeconfig),
        "KUBECACHEDIR": str(cluster.folder / "kubectl-cache"),
        "FLEET": fleet_url,
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    (FOLDER / "env").write_text("\n".join([*lines, f'export PATH={shlex.quote(programs)}:"$PATH"', ""]))
    fleet = Component(
        "fleet",
        [
            sys.executable, "-m", "firsttoken_operator.cli", "emulate", "-f", ROOT / EXAMPLE, "--fleet",
            "--kubeconfig", cluster.kubeconfig, "--port", str(fleet_port.port), "--allow-control",
            "--rate", str(REQUESTS_PER_SECOND), "--start-when-ready", str(REPLICAS_AT_FIRST),
            "--seconds", str(TRAFFIC_SECONDS),
        ],
        cluster.folder / "fleet.log",
        # NB: a library's proxy settings must not reach the loopback servers here.
        env=os.environ | {"NO_PROXY": "*", "PYTHONUNBUFFERED": "1"},
        grace_seconds=FLEET_STOP_SECONDS,
    )  # fmt: skip
    parts.callback(fleet.stop)
    cluster.add_http_sd(f"{fleet_url}/sd")
    return fleet


if __name__ == "__main__":
    sys.exit(exit_status(hold))
