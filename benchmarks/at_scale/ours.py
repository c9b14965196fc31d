"""Our operator as the chart installs it: its configuration, its rights, its policies, in a process of its own."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

import yaml

from at_scale import manifests
from at_scale.api import TABLE, Api, Follower, in_parallel
from at_scale.autoscaler import Instants
from at_scale.exposition import MetricsPage
from at_scale.kinds import Workload
from at_scale.probing import Probes
from at_scale.rig import SCRAPE_SECONDS, Rig, read_text
from demo import chart
from demo.chart import SYSTEM_NAMESPACE
from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.domain import Reason
from tools.cluster import answers, wait_until, wait_until_established

OPERATOR = "operator"
START_SECONDS = 300.0
GROUP_PATH = f"/apis/{API_VERSION}"
RESOURCES = f"{GROUP_PATH}/inferencedeployments"
CYCLES = "firsttoken_cycle_duration_seconds_count"


def resources_of(workload: Workload) -> str:
    """Path of the resources in the namespace of a workload."""
    return f"{GROUP_PATH}/namespaces/{workload.namespace}/inferencedeployments"


class Ours:
    """The operator on a rig. `settings` go over the chart's: they are what is not shipped."""

    name = "firsttoken"
    processes: tuple[str, ...] = (OPERATOR,)
    has_metrics_of_pods = True

    def __init__(self, rig: Rig, settings: Mapping[str, Any]) -> None:
        self._rig, self._settings = rig, dict(settings)
        self.port = rig.lease()
        self.url = f"http://127.0.0.1:{self.port}"
        self.probes: Probes | None = None
        self._decided: Instants = {}
        self._sized: Instants = {}
        self._follower: Follower | None = None
        self.tick_seconds = 0.0
        """Interval of the ticks of the process that was started last."""

    def install(self) -> None:
        """Install the chart but for its Deployment, and start the operator under the chart's account."""
        cluster = self._rig.cluster
        self._rig.api.create("/api/v1/namespaces", {"metadata": {"name": SYSTEM_NAMESPACE}})
        documents = yaml.safe_dump_all(chart.definitions_and_rights())
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=documents)
        wait_until_established(lambda *arguments: cluster.kubectl(*arguments).stdout)
        for plural, each in (("benchmarkprofiles", manifests.benchmark_profile()), *_pools()):
            self._rig.api.create(f"{GROUP_PATH}/{plural}", each)
        self._identity = cluster.service_account_kubeconfig(SYSTEM_NAMESPACE, chart.RELEASE)
        self.start()
        wait_until(self.is_ready, START_SECONDS, "the operator ready")
        self.probes = Probes(self.url)
        self._rig.read(OPERATOR, lambda: read_text(f"{self.url}/metrics"))

    def start(self, **settings: Any) -> None:
        """Start the operator; `settings` go over all others, for this process."""
        values = (
            f"prometheus.default.url={self._rig.cluster.prometheus_url}",
            f"scrapeIntervalSeconds={SCRAPE_SECONDS:g}",
        )
        own = {"host": "127.0.0.1", "port": self.port, **self._settings, **settings}
        configuration = chart.configuration(*values) | own
        self.tick_seconds = float(configuration["tickSeconds"])
        file = self._rig.cluster.folder / "operator.yaml"
        file.write_text(yaml.safe_dump(configuration), encoding="utf-8")
        # NB: the console script `firsttoken` is this module.
        command = (sys.executable, "-m", "firsttoken_operator.cli", "operator", "--config", file)
        environment = {"POD_NAMESPACE": SYSTEM_NAMESPACE, "POD_NAME": "scale"}
        self._rig.start(OPERATOR, *command, "--kubeconfig", self._identity, environment=environment)

    def stop(self) -> None:
        """Stop what this process does for it."""
        self.stop_watching()
        if self.probes is not None:
            self.probes.stop()

    def kill(self) -> float:
        """Kill the operator as a node that dies does; returns when."""
        process = self._rig.programs[OPERATOR]
        process.send_signal(signal.SIGKILL)
        process.stop()
        return time.monotonic()

    def is_ready(self) -> bool:
        """Tell whether its first tick is over."""
        self._rig.programs[OPERATOR].require_running()
        return answers(f"{self.url}/readyz")

    def declare(self) -> None:
        """Create every InferenceDeployment, and watch for decisions in their status."""
        self._watch(self._rig.api)
        in_parallel(self.declare_one, self._rig.workloads)

    def declare_one(self, workload: Workload) -> None:
        """Create the InferenceDeployment of one workload."""
        self._rig.api.create(resources_of(workload), manifests.resource(workload))

    def withdraw(self, workload: Workload) -> None:
        """Delete the InferenceDeployment of one workload."""
        self._rig.api.delete(f"{resources_of(workload)}/{workload.name}")

    def decided(self) -> Instants:
        """Resources whose status shows a decision."""
        return dict(self._decided)

    def sized(self) -> Instants:
        """Resources whose status shows a decision that was made on a size, or on there being none."""
        return dict(self._sized)

    def stop_watching(self) -> None:
        """Follow the statuses no longer: from here on nothing of the rig reads them."""
        if self._follower is not None:
            self._follower.stop()

    def ticks(self, page: MetricsPage | None) -> float:
        """Ticks that have ended."""
        return page.sum(CYCLES) if page else 0.0

    def _watch(self, api: Api) -> None:
        shown = api.get(f"{RESOURCES}?limit=1", accept=TABLE)["columnDefinitions"]
        places = {column["name"]: place for place, column in enumerate(shown)}
        name, reason = places["Name"], places["Reason"]

        def take(row: Any, now: float) -> None:
            if row["cells"][reason]:
                self._decided.setdefault(row["cells"][name], now)
                if row["cells"][reason] != Reason.UNKNOWN:
                    self._sized.setdefault(row["cells"][name], now)

        self._follower = Follower(api, RESOURCES, take, TABLE)


def _pools() -> list[tuple[str, manifests.Manifest]]:
    return [("gpupools", pool) for pool in manifests.pools()]
