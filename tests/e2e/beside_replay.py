"""One trace twice: as traffic to a fleet that the operator scales on a real API server, and replayed.

Every duration of the control loop is divided by the time scale in both, so both run in seconds of wall time; requests
are as they are. The replay is told what the cluster really has: the cold start of its pods, which has no spread, the
scrape interval, the rate window, the tick and when the ticks fall.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from demo.record import Record
from demo.scenario import Scenario
from demo.stage import SYSTEM_NAMESPACE, Place, Stage, prometheus_options
from demo.watching import TargetWatch
from firsttoken_lab.replay.compare import scene_of
from firsttoken_lab.replay.play import play
from firsttoken_lab.replay.policies.ours import Ours
from firsttoken_lab.replay.replicas import ColdStart
from firsttoken_lab.replay.setting import Setting, setting_of
from firsttoken_lab.replay.traffic import Shaping, read_traffic
from firsttoken_operator.api.convert import scaling_policy
from firsttoken_operator.api.documents import load_documents
from firsttoken_operator.domain import ScalingMode
from tests.e2e.trajectories import Trajectory
from tools.cluster import Cluster, wait_until

AFTER_SECONDS = 60.0
"""Time that the emulated fleet stays after the last request."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Inputs that both get: the resource, the trace, and the clocks of the control loop."""

    resource: Path
    trace: Path
    seconds: float
    """Wall time from the first request to the end of the comparison."""
    scenario: Scenario
    seed: int = 1

    def setting(self) -> Setting:
        """The resource as `firsttoken replay` sizes it, with the durations of its policy divided by the time scale."""
        documents = load_documents(self.resource)
        (deployment,) = documents.deployments
        setting = setting_of(deployment, documents.pools, documents.benchmarks)
        assert isinstance(setting, Setting), setting
        policy = scaling_policy(deployment, None, time_scale=self.scenario.time_scale)
        return replace(setting, policy=replace(policy, mode=ScalingMode.ACTIVE))


@dataclass(frozen=True, slots=True)
class Operated:
    """Life of the target under the operator, in seconds since the first request."""

    trajectory: Trajectory
    """Each change at the tick that decided on it."""
    log: tuple[str, ...]
    """Sentences that it said when it changed something."""
    first_tick_seconds: float
    """One of its ticks; the others are whole intervals later."""
    lateness_p99_seconds: float
    """Lag of the emulated fleet behind its own clock."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """Life of the target under the replayed operator, in seconds since the first request."""

    trajectory: Trajectory
    log: tuple[str, ...]


class _TraceStage(Stage):
    """A stage whose traffic is a trace, and begins when the first replicas are ready."""

    def start_trace(self, trace: Path, seconds: float) -> None:
        """Start the emulated fleet, with the metrics whose TTFT buckets the replay has."""
        self.fleet = self._start(
            "fleet", "emulate", "-f", self.example, "--fleet", "--runtime", "vllm",
            "--kubeconfig", self.place.kubeconfig, "--trace", trace, "--seconds", f"{seconds:g}",
            "--start-when-ready", str(self.scenario.initial_replicas), "--seed", str(self.scenario.seed),
            "--port", str(urlsplit(self.discovery_url).port),
        )  # fmt: skip


def operate(inputs: Inputs) -> Operated:
    """Let the operator scale under the trace, on a cluster of its own, and say what it did."""
    setting = inputs.setting()
    # A replay begins with what the operator would create; a Deployment of the user's has what its manifest says.
    scenario = replace(inputs.scenario, initial_replicas=Ours(setting.sized, setting.policy).initial)
    cold_start_seconds = scenario.scaled(scenario.cold_start_seconds)
    with Cluster(nodes=scenario.servers, prometheus=prometheus_options(scenario)) as cluster:
        place = Place(cluster.kubeconfig, cluster.prometheus_url, cluster.folder)
        with _TraceStage(place, scenario, example=inputs.resource) as stage:
            # First: Prometheus finds a pod up to 7.5 s after its discovery names it, which the cold start covers.
            cluster.add_http_sd(stage.discovery_url)
            stage.set_up()
            stage.start_trace(inputs.trace, inputs.seconds + AFTER_SECONDS)
            record = Record()
            watching = TargetWatch(stage, record)
            stage.start_operator(cluster.service_account_kubeconfig(SYSTEM_NAMESPACE, "firsttoken"))
            wait_until(lambda: _elapsed(stage) > 0, 60 + cold_start_seconds, "the traffic")
            began, began_wall = (clock() - _elapsed(stage) for clock in (time.monotonic, time.time))
            watching.start_clock(began)
            time.sleep(max(0.0, began + inputs.seconds - time.monotonic()))
            watching.stop()
            stats = stage.stats()
            assert stats is not None
            lines = (place.folder / "operator.log").read_text().splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    (first,) = (_seconds(entry) - began_wall for entry in logged if entry["message"].endswith("first tick starts"))
    tick_seconds = scenario.tick_wall_seconds
    # A change is written some time after the tick that decided on it, and before the next one.
    events = [(e.seconds - (e.seconds - first) % tick_seconds, e.replicas) for e in record.events]
    return Operated(
        trajectory=Trajectory.of(events, 0.0, inputs.seconds),
        log=tuple(f"{_seconds(e) - began_wall:.2f} s: {e['message']}" for e in logged if "outcome" in e),
        first_tick_seconds=first,
        lateness_p99_seconds=stats["latenessP99Seconds"],
    )


def replay(inputs: Inputs, first_tick_seconds: float = 0.0) -> Replayed:
    """Replay as `firsttoken replay --policy firsttoken` does, on the cluster's clocks."""
    scenario, setting = inputs.scenario, inputs.setting()
    shaping = Shaping(longest_tokens=setting.longest_tokens, seed=inputs.seed)
    traffic = read_traffic(inputs.trace, setting.subject.lengths, shaping)
    cold_start_seconds = scenario.scaled(scenario.cold_start_seconds)
    scene = scene_of(traffic, setting, cold_start_seconds, inputs.seed)
    scrape_seconds, tick_seconds = scenario.scaled(scenario.scrape_interval_seconds), scenario.tick_wall_seconds
    stage = replace(
        scene.stage,
        cold_start=ColdStart(cold_start_seconds, jitter_percent=0.0),
        scrape_seconds=scrape_seconds,
        # Pods are scraped at moments of their own: their samples are half an interval old on average.
        scrape_lag_seconds=scrape_seconds / 2,
        window_seconds=scenario.scaled(scenario.rate_window_seconds),
    )
    # A replay ticks at whole intervals; its traffic begins as long after one as the cluster's does.
    shift = -first_tick_seconds % tick_seconds
    requests = replace(traffic.requests, arrival_s=traffic.requests.arrival_s + shift)
    ours = Ours(setting.sized, setting.policy, tick_seconds)
    played = play(ours, requests, stage)
    changes = [(at - shift, replicas) for at, replicas in played.changes]
    messages = (decision.message for decision in ours.decisions)
    return Replayed(
        trajectory=Trajectory.of(changes, 0.0, inputs.seconds),
        log=tuple(f"{at:.2f} s: {message}" for (at, _), message in zip(changes[1:], messages, strict=True)),
    )


def _elapsed(stage: Stage) -> float:
    stats = stage.stats()
    return 0.0 if stats is None else float(stats["elapsedSeconds"])


def _seconds(entry: dict[str, str]) -> float:
    return datetime.fromisoformat(entry["time"]).timestamp()
