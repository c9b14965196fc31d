"""Parts of the end-to-end tests: a stage with its cluster, traffic that can be changed, and the recorded events."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.record import Record, ReplicaEvent
from demo.scenario import Phase, Scenario
from demo.stage import EXAMPLE, SYSTEM_NAMESPACE, Place, Stage, prometheus_options
from demo.watching import TargetWatch
from tests.faults.proxy import FaultProxy
from tools.cluster import Cluster

LONG_SECONDS = 1800.0


@dataclass
class Play:
    """A running stage. Times are seconds of wall time since the traffic began."""

    cluster: Cluster
    stage: Stage
    identity: Path
    record: Record
    began: float = 0.0
    metrics_proxy: FaultProxy | None = None
    """Proxy between the operator and Prometheus."""

    @property
    def now(self) -> float:
        """Seconds since the traffic began."""
        return time.monotonic() - self.began

    def load(self, requests_per_second: float) -> None:
        """Change the true load."""
        self.stage.control("load", {"requestsPerSecond": requests_per_second})

    def sleep_until(self, seconds: float) -> None:
        """Let the play go on until this second."""
        time.sleep(max(0.0, seconds - self.now))

    def events_since(self, seconds: float) -> list[ReplicaEvent]:
        """The watch events of the target since then, and before them its state at that second."""
        before = ReplicaEvent(seconds, self.record.replicas_at(seconds), 0)
        return [before, *(e for e in self.record.events if e.seconds > seconds)]

    def sizes_since(self, seconds: float) -> list[int]:
        """The distinct sizes that the target had since then, in order."""
        sizes: list[int] = []
        for event in self.events_since(seconds):
            if not sizes or event.replicas != sizes[-1]:
                sizes.append(event.replicas)
        return sizes

    def operator_log(self) -> list[dict[str, Any]]:
        """The JSON log lines of every operator process of this play."""
        lines = (self.stage.place.folder / "operator.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def held(self) -> float:
        """Decisions that changed nothing because something was unknown, since the operator started."""
        found = self.stage.operator_metrics()
        return sum(v for k, v in found.items() if k.startswith("firsttoken_decisions_total") and 'outcome="held"' in k)


@contextmanager
def play(
    scenario: Scenario,
    *,
    initial_load: float = 80,
    example: Path = EXAMPLE,
    runtime: str = "nim",
    scaling: Mapping[str, int] | None = None,
    metrics_through: Callable[[str], FaultProxy] | None = None,
) -> Iterator[Play]:
    """Cluster, stage, operator and fleet, with `initial_load` running and the metrics of `runtime`.

    `scaling` overrides fields of `spec.scaling`; `metrics_through` puts something before Prometheus.
    """
    options = prometheus_options(scenario)
    cold_start_seconds = scenario.scaled(scenario.cold_start_seconds)
    with (
        Cluster(nodes=scenario.servers, ready_delay_seconds=cold_start_seconds, prometheus=options) as cluster,
        metrics_through(cluster.prometheus_url) if metrics_through else nullcontext() as proxy,
    ):
        place = Place(cluster.kubeconfig, proxy.url if proxy else cluster.prometheus_url, cluster.folder)
        with Stage(place, scenario, example=example) as stage:
            stage.set_up()
            if scaling:
                stage.patch_spec({"scaling": dict(scaling)})
            cluster.add_http_sd(stage.discovery_url)
            record = Record()
            watching = TargetWatch(stage, record)
            identity = cluster.service_account_kubeconfig(SYSTEM_NAMESPACE, "firsttoken")
            stage.start_operator(identity)
            stage.wait_until_ready(60 + cold_start_seconds)
            stage.start_fleet((Phase(0, initial_load),), LONG_SECONDS, runtime=runtime, control=True)
            stats = stage.stats()
            assert stats is not None
            began = time.monotonic() - stats["elapsedSeconds"]
            watching.start_clock(began)
            try:
                yield Play(cluster, stage, identity, record, began, proxy)
            finally:
                watching.stop()
