"""`python -m demo`: plays the scenario, shows it live, judges it, writes the page. Exit 0 only if every criterion held.

With KUBECONFIG and PROMETHEUS_URL set it uses those (that Prometheus must discover the fleet, see docs/demo.md);
otherwise it builds and starts the local control plane.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import urllib3
from kubernetes.client import ApiException
from rich.console import Console

from demo.live import live_display, render_verdict
from demo.page import write_page
from demo.record import Record
from demo.scenario import Expectation, Scenario
from demo.stage import ROOT, SYSTEM_NAMESPACE, Place, Stage, prometheus_options
from demo.verdict import cannot_pass, judge
from demo.watching import TargetWatch, take_sample
from tools.cluster import Cluster, SetupError

SAMPLE_SECONDS = 0.5
ARTIFACTS = ROOT / "artifacts"
FAILURES = (SetupError, RuntimeError, TimeoutError, ApiException, urllib3.exceptions.HTTPError)
"""What a cluster may answer with: told in one line. `RuntimeError` is kubectl's complaint, or a part that ended."""


def main() -> int:
    """Run the demo; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--freeze", action="store_true", help="run the operator as a dry run: nothing is scaled")
    parser.add_argument("--fleet-port", type=int, help="port of the emulated fleet, for a Prometheus of your own")
    parser.add_argument("--page", type=Path, default=ARTIFACTS / "demo.html", help="where the HTML page goes")
    arguments = parser.parse_args()
    console, scenario = Console(), Scenario()
    arguments.page.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _stage(scenario, console, arguments.fleet_port) as (stage, identity):
            expected = stage.expectation()
            record = _play(stage, identity, expected, console, freeze=arguments.freeze)
    except FAILURES as error:
        console.print(f"demo: {' '.join(str(error).split())}", style="red")
        return 1
    criteria = judge(scenario, expected, record)
    console.print(render_verdict(criteria))
    write_page(arguments.page, scenario, expected, record, criteria)
    passed = all(c.passed for c in criteria)
    console.print(f"{'PASSED' if passed else 'FAILED'}: {record.requests} requests, page in {arguments.page}")
    return 0 if passed else 1


@contextmanager
def _stage(scenario: Scenario, console: Console, fleet_port: int | None) -> Iterator[tuple[Stage, Path]]:
    """The stage on the user's cluster or on a local one, and the kubeconfig that the operator runs under."""
    kubeconfig, prometheus_url = os.environ.get("KUBECONFIG"), os.environ.get("PROMETHEUS_URL")
    if kubeconfig and prometheus_url:
        place = Place(Path(kubeconfig), prometheus_url, ARTIFACTS)
        with Stage(place, scenario, fleet_port=fleet_port) as stage:
            stage.set_up()
            console.print(f"Prometheus must discover the emulated fleet at {stage.discovery_url}")
            yield stage, place.kubeconfig
            console.print("left in the cluster: the custom resource definitions, firsttoken-system, call-center")
        return
    options = prometheus_options(scenario)
    console.print("starting a local control plane: API server, scheduler, 8 servers with 8 GPUs each, Prometheus")
    with Cluster(nodes=scenario.servers, gpus_per_node=scenario.gpus_per_server, prometheus=options) as cluster:
        place = Place(cluster.kubeconfig, cluster.prometheus_url, cluster.folder)
        with Stage(place, scenario) as stage:
            stage.set_up()
            cluster.add_http_sd(stage.discovery_url)
            yield stage, cluster.service_account_kubeconfig(SYSTEM_NAMESPACE, "firsttoken")


def _play(stage: Stage, identity: Path, expected: Expectation, console: Console, *, freeze: bool) -> Record:
    scenario, record = stage.scenario, Record()
    watching = TargetWatch(stage, record)
    console.print(f"waiting for {scenario.initial_replicas} replicas to load their model")
    stage.wait_until_ready(60 + scenario.scaled(scenario.cold_start_seconds))
    stage.start_operator(identity, advisory=freeze)
    stage.start_fleet(scenario.phases, scenario.duration_seconds)
    stats = stage.stats()
    assert stats is not None, "the fleet was just seen"
    watching.start_clock(time.monotonic() - stats["elapsedSeconds"])
    table = stage.sizing().table
    assert table is not None, "an expectation stands on a feasible sizing"
    with live_display(console, scenario, expected) as show:
        while stage.fleet is not None and stage.fleet.running:
            sample = take_sample(stage, table.replicas_for)
            if sample is not None:
                record.samples.append(sample)
                record.seconds = min(sample.seconds, scenario.duration_seconds)
                show(record)
                if cannot_pass(scenario, record, sample.seconds):
                    console.print("the burst was not answered: giving up", style="red")
                    break
            time.sleep(SAMPLE_SECONDS)
    watching.stop()
    _read_truth(stage, record)
    return record


def _read_truth(stage: Stage, record: Record) -> None:
    """The score from the truth of every request, not from the live figures."""
    assert stage.fleet is not None, "the fleet was started"
    if stage.fleet.running:
        stage.fleet.stop()
    lines = (stage.place.folder / "truth.jsonl").read_text().splitlines()
    record.add_truth([json.loads(line) for line in lines], stage.expectation().ttft_sla_milliseconds)


if __name__ == "__main__":
    sys.exit(main())
