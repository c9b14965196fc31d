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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import urllib3
from kubernetes.client import ApiException
from rich.console import Console

from demo.chart import SYSTEM_NAMESPACE
from demo.declared import INDEPENDENT_USERS, declare
from demo.live import live_display, render_verdict
from demo.page import write_page
from demo.real import DECLARED, KINDS, RealServer, real_server
from demo.record import RealReplica, Record, Sample
from demo.scenario import BUSY_HOUR, Expectation, Scenario
from demo.stage import EXAMPLE, ROOT, Place, Stage, prometheus_options
from demo.verdict import cannot_pass, judge
from demo.watching import TargetWatch, complaints, take_sample
from firsttoken_operator.families import NIM1
from tools.cluster import Cluster, SetupError, under_way

SAMPLE_SECONDS = 0.5
START_SECONDS = 120.0
LOOPBACK = "127.0.0.1"
OPERATORS = 2
"""Pods of the release, where there is one: as the chart has it."""
ARTIFACTS = ROOT / "artifacts"
FAILURES = (SetupError, RuntimeError, TimeoutError, ApiException, urllib3.exceptions.HTTPError)
"""Failures of a cluster, told in one line each. `RuntimeError` is kubectl's complaint, or a part that ended."""


def main() -> int:
    """Run the demo; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--freeze", action="store_true", help="run the operator as a dry run: nothing is scaled")
    parser.add_argument(
        "--fleet-ports",
        type=int,
        nargs=2,
        metavar="PORT",
        default=(None, None),
        help="where a Prometheus of your own looks for the emulated fleets",
    )
    parser.add_argument(
        "--fleet-address",
        default=LOOPBACK,
        metavar="ADDRESS",
        help="where they listen, for a Prometheus that is not on this machine (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--image",
        default="",
        help="image of firsttoken, on a cluster of your own with real nodes: the chart installs the operator, and the"
        " pods of both fleets run it",
    )
    parser.add_argument(
        "--runtime",
        choices=(NIM1.runtime, *KINDS),
        default=NIM1.runtime,
        help=f"whose metrics the fleets have; {' or '.join(KINDS)}: and one replica is a real one (default: nim)",
    )
    parser.add_argument("--page", type=Path, default=ARTIFACTS / "demo.html", help="where the HTML page goes")
    arguments = parser.parse_args()
    console, scenario = Console(), BUSY_HOUR
    arguments.page.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _runs(scenario, console, arguments) as (scaled, frozen, identity):
            expected = scaled.stage.expectation()
            held_up = _play(scaled, frozen, identity, expected, console, freeze=arguments.freeze)
    except FAILURES as error:
        console.print(f"demo: {' '.join(str(error).split())}", style="red")
        return 1
    criteria = judge(scenario, expected, scaled.record, frozen.record)
    console.print(render_verdict(criteria))
    write_page(arguments.page, scenario, expected, scaled.record, frozen.record, criteria)
    passed = all(c.passed for c in criteria)
    for complaint in () if passed else held_up:
        console.print(complaint, style="red", markup=False)
    late, without = scaled.record.missed, frozen.record.missed
    console.print(
        f"{'PASSED' if passed else 'FAILED'}: {late:,} of {scaled.record.requests:,} requests were late,"
        f" without scaling {without:,}; page in {arguments.page}"
    )
    return 0 if passed else 1


@dataclass(frozen=True, slots=True)
class Run:
    """One of the two fleets that the same traffic goes to. `real`: the server that is a replica of it."""

    stage: Stage
    record: Record = field(default_factory=Record)
    options: tuple[str, ...] = ()
    real: RealServer | None = None

    def add(self, sample: Sample) -> None:
        """Record one sample."""
        self.record.samples.append(sample)
        self.record.seconds = min(sample.seconds, self.stage.scenario.duration_seconds)

    def read_truth(self, ttft_sla_milliseconds: float) -> None:
        """Judge every request by the truth, not by the live figures."""
        assert self.stage.fleet is not None, "the fleet was started"
        if self.stage.fleet.running:
            self.stage.fleet.stop()
        lines = (self.stage.place.folder / "truth.jsonl").read_text().splitlines()
        self.record.add_truth([json.loads(line) for line in lines], ttft_sla_milliseconds)
        if self.record.real is not None and self.real is not None:
            self.record.real.counted = self.real.counted()
            self.record.real.ttft_bucket_milliseconds = self.real.ttft_bucket(0.5)


@contextmanager
def _runs(scenario: Scenario, console: Console, arguments: argparse.Namespace) -> Iterator[tuple[Run, Run, Path]]:
    """Both fleets on the user's cluster or on a local one, and the kubeconfig that the operator runs under."""
    kubeconfig, prometheus_url = os.environ.get("KUBECONFIG"), os.environ.get("PROMETHEUS_URL")
    fleet_ports, address = arguments.fleet_ports, arguments.fleet_address
    if arguments.runtime in KINDS and (arguments.image or address != LOOPBACK):
        name, choice = KINDS[arguments.runtime].name, f"RUNTIME={arguments.runtime}"
        raise SetupError(f"the real {name} is on 127.0.0.1: leave out NODE, --image and --fleet-address, or {choice}")
    if kubeconfig and prometheus_url:
        place = Place(Path(kubeconfig), prometheus_url, ARTIFACTS, image=arguments.image, fleet_address=address)
        with _staged(place, scenario, fleet_ports, arguments.runtime) as (scaled, frozen):
            urls = " and ".join(run.stage.discovery_url for run in (scaled, frozen))
            console.print(f"Prometheus must discover the emulated fleets at {urls}")
            yield scaled, frozen, place.kubeconfig
            names = (SYSTEM_NAMESPACE, scaled.stage.namespace, frozen.stage.namespace)
            console.print(f"left in the cluster: the custom resource definitions, {', '.join(names)}")
        return
    options = prometheus_options(scenario)
    with ExitStack() as parts:
        with under_way("local control plane: API server, scheduler, 8 servers with 8 GPUs each, Prometheus"):
            cluster = parts.enter_context(
                Cluster(nodes=scenario.servers, gpus_per_node=scenario.gpus_per_server, prometheus=options)
            )
        place = Place(cluster.kubeconfig, cluster.prometheus_url, cluster.folder)
        with _staged(place, scenario, fleet_ports, arguments.runtime) as (scaled, frozen):
            for run in (scaled, frozen):
                cluster.add_http_sd(run.stage.discovery_url, job=run.stage.namespace)
            yield scaled, frozen, cluster.service_account_kubeconfig(SYSTEM_NAMESPACE, "firsttoken")


@contextmanager
def _staged(
    place: Place, scenario: Scenario, fleet_ports: Sequence[int | None], runtime: str
) -> Iterator[tuple[Run, Run]]:
    beside = replace(place, folder=place.folder / "frozen")
    kind = KINDS.get(runtime)
    declared = INDEPENDENT_USERS | (DECLARED if kind is not None else {})
    example = declare(EXAMPLE, place.folder / "scaled.yaml", "call-center", declared)
    untouched = declared | {"scaling": declared.get("scaling", {}) | {"mode": "Advisory"}}
    same = declare(EXAMPLE, beside.folder / "frozen.yaml", "call-center-frozen", untouched)
    with (
        Stage(place, scenario, example=example, fleet_port=fleet_ports[0]) as scaled,
        Stage(beside, scenario, example=same, fleet_port=fleet_ports[1]) as frozen,
    ):
        with under_way("definitions, rights and two deployments"):
            scaled.set_up()
            frozen.declare()
        if kind is not None:
            with real_server(kind, scaled.question(), place.folder / kind.runtime) as real:
                record = Record(real=RealReplica(name=kind.name, is_paced=kind.is_paced))
                yield Run(scaled, record, options=real.options, real=real), Run(frozen, options=kind.likewise)
        else:
            yield Run(scaled), Run(frozen)


def _play(
    scaled: Run, frozen: Run, identity: Path, expected: Expectation, console: Console, *, freeze: bool
) -> list[str]:
    """Play it; returns what the operator complains of at the end."""
    runs, scenario = (scaled, frozen), scaled.stage.scenario
    watching = [TargetWatch(run.stage, run.record) for run in runs]
    with under_way(f"{scenario.initial_replicas} replicas of both fleets load their model"):
        for run in runs:
            run.stage.wait_until_ready(START_SECONDS + scenario.scaled(scenario.cold_start_seconds))
    with under_way("operator"):
        if scaled.stage.place.image:
            scaled.stage.release(replicas=OPERATORS, advisory=freeze)
        else:
            scaled.stage.start_operator(identity, advisory=freeze)
    with under_way("traffic"):
        for run in runs:
            run.stage.begin_fleet(scenario.phases, scenario.duration_seconds, *run.options)
        for run in runs:
            run.stage.wait_for_fleet()
    for run, watch in zip(runs, watching, strict=True):
        stats = run.stage.stats()
        assert stats is not None, "the fleet was just seen"
        watch.start_clock(time.monotonic() - stats["elapsedSeconds"])
    table = scaled.stage.sizing().table
    assert table is not None, "an expectation stands on a feasible sizing"
    with live_display(console, scenario, expected) as show:
        while scaled.stage.fleet is not None and scaled.stage.fleet.running:
            samples = [take_sample(run.stage, table.replicas_for) for run in runs]
            known = [sample for sample in samples if sample is not None]
            # NB: both or none: the table shows the two side by side.
            if len(known) == len(runs):
                for run, sample in zip(runs, known, strict=True):
                    run.add(sample)
                show(scaled.record, frozen.record)
                if cannot_pass(scenario, scaled.record, scaled.record.seconds):
                    console.print("the load was not answered: giving up", style="red")
                    break
            time.sleep(SAMPLE_SECONDS)
    held_up = complaints(scaled.stage.status())
    for run, watch in zip(runs, watching, strict=True):
        watch.stop()
        run.read_truth(expected.ttft_sla_milliseconds)
    return held_up


if __name__ == "__main__":
    sys.exit(main())
