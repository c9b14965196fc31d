"""The stage: a target Deployment, the custom resources, the operator and the emulated fleet on one cluster.

Shared by the demo and the end-to-end tests. The operator runs as its own process under the chart's own ServiceAccount,
so its rights are as real as its API server; the fleet is what Prometheus scrapes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml
from kubernetes import client, config

from demo import chart
from demo.chart import SYSTEM_NAMESPACE
from demo.scenario import Expectation, Phase, Scenario
from demo.target import target_manifest
from firsttoken_operator.api.convert import sizing_request
from firsttoken_operator.api.documents import Documents, load_documents
from firsttoken_sizing import Sizing, size
from firsttoken_sizing.request import SizingRequest
from tools.cluster import (
    Component,
    PortLease,
    PrometheusOptions,
    answers,
    kubectl,
    lease_port,
    wait_until,
    wait_until_established,
)

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "call-center.yaml"
FLEET_START_SECONDS = 120.0
"""The first one after an installation compiles the simulation."""
STOP_SECONDS = 20.0
"""A fleet writes what happened to every request before it ends."""


@dataclass(frozen=True, slots=True)
class Place:
    """Surroundings of the stage: a cluster, its Prometheus, and a folder for logs."""

    kubeconfig: Path
    prometheus_url: str
    folder: Path
    image: str = ""
    """Image of firsttoken, where pods are real: the operator is a release of the chart, and every replica a pod of it.
    Empty: pods on paper, and the operator is a process here."""
    fleet_address: str = "127.0.0.1"
    """Address here at which the emulated fleets listen, for Prometheus."""


def prometheus_options(scenario: Scenario) -> PrometheusOptions:
    """The scenario's scrape and discovery intervals, in wall time."""
    return PrometheusOptions(
        scrape_interval_seconds=scenario.scaled(scenario.scrape_interval_seconds),
        discovery_interval_seconds=scenario.scaled(scenario.discovery_interval_seconds),
    )


class Stage:
    """Sets the scene, starts and stops the actors, and tells what is to be seen."""

    def __init__(
        self, place: Place, scenario: Scenario, *, example: Path = EXAMPLE, fleet_port: int | None = None
    ) -> None:
        """`fleet_port`: where a Prometheus that is already configured will look for the fleet; None: a free port."""
        self.place, self.scenario, self.example = place, scenario, example
        self.documents: Documents = load_documents(example)
        self.deployment = self.documents.deployments[0]
        self.namespace = self.deployment.metadata.namespace or "default"
        reference = self.deployment.spec.target_ref
        self.target = reference.name if reference is not None else self.deployment.metadata.name
        self._leases: list[PortLease] = []
        self._operator_port, self._fleet_port = self._lease(), fleet_port or self._lease()
        self.operator: Component | None = None
        self.fleet: Component | None = None
        self._client: client.ApiClient = config.new_client_from_config(str(place.kubeconfig))  # type: ignore[no-untyped-call]
        self.apps, self.custom = client.AppsV1Api(self._client), client.CustomObjectsApi(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for actor in (self.operator, self.fleet):
            if actor is not None:
                actor.begin_stop()
        for actor in (self.operator, self.fleet):
            if actor is not None:
                actor.stop()
        for lease in self._leases:
            lease.release()
        self._client.close()  # type: ignore[no-untyped-call]

    def _lease(self) -> int:
        self._leases.append(lease_port())
        return self._leases[-1].port

    # -- the scene --------------------------------------------------------------------------------------------------

    @property
    def discovery_url(self) -> str:
        """URL at which Prometheus finds the fleet's pods (HTTP service discovery)."""
        return f"http://{self.place.fleet_address}:{self._fleet_port}/sd"

    @property
    def operator_url(self) -> str:
        """Address of the operator's health and metrics."""
        return f"http://127.0.0.1:{self._operator_port}"

    def set_up(self) -> None:
        """Install the chart's resources and rights, the custom resources, and what they point at."""
        if self.place.image:
            self.release(replicas=0)
        else:
            self.apply([_namespace(SYSTEM_NAMESPACE), *chart.definitions_and_rights("render.enabled=true")])
        wait_until_established(self.kubectl)
        self.declare()

    def declare(self) -> None:
        """Apply the custom resources and what they point at."""
        manifests = [_namespace(self.namespace)]
        if self.deployment.spec.target_ref is not None:
            gpus, image = self.expectation().gpus_per_replica, self.place.image
            manifests.append(
                target_manifest(self.target, self.namespace, self.scenario, gpus_per_replica=gpus, image=image)
            )
        self.apply(manifests)
        self.kubectl("apply", "-f", str(self.example))

    def wait_until_ready(self, seconds: float) -> None:
        """Wait until the first replicas are ready."""
        replicas = self.scenario.initial_replicas
        wait_until(lambda: self.ready_replicas() >= replicas, seconds, f"{replicas} replicas of {self.target} ready")

    def expectation(self) -> Expectation:
        """Sizing of the scenario."""
        sized = self.sizing()
        assert sized.table is not None, sized.reason
        assert sized.configuration is not None, sized.reason
        scaling = self.deployment.spec.scaling
        limit = self.deployment.spec.sla.time_to_first_token
        peak = sized.replicas
        return Expectation(
            replicas_for_peak=peak,
            replica_limit=-(-peak * (100 + scaling.burst_headroom_percent) // 100),
            min_replicas=scaling.min_replicas,
            ttft_sla_milliseconds=limit.milliseconds if limit is not None else float("inf"),
            gpus_per_replica=sized.configuration.gpus_per_replica,
        )

    def sizing(self) -> Sizing:
        """The sizing of the example, as the operator makes it."""
        return size(self.question())

    def question(self) -> SizingRequest:
        """The question that the sizing answers."""
        return sizing_request(self.deployment, self.documents.pools, self.documents.benchmarks)

    # -- the actors -------------------------------------------------------------------------------------------------

    def release(self, *, replicas: int, advisory: bool = False) -> None:
        """Install the chart, or upgrade it, with so many operators in pods of their own; wait until they are ready."""
        place = self.place
        chart.install(
            self._environment(), self.scenario, place.image, place.prometheus_url, replicas=replicas, advisory=advisory
        )
        status = ("rollout", "status", f"deployment/{chart.RELEASE}", f"--timeout={chart.ROLLOUT_SECONDS}s")
        self.kubectl("-n", SYSTEM_NAMESPACE, *status, timeout_seconds=2 * chart.ROLLOUT_SECONDS)

    def start_operator(
        self,
        kubeconfig: Path,
        *,
        advisory: bool = False,
        gateway: Mapping[str, object] | None = None,
        sizing_store: str = "",
    ) -> Component:
        """Start `firsttoken operator` under the given identity, in place of an earlier one; wait until it is ready.

        `gateway`: the counter that the Prometheus has of one, as the operator's configuration names it. `sizing_store`:
        where sizings are kept over a restart.
        """
        if self.operator is not None:
            self.operator.stop()
        s = self.scenario
        settings = {
            "prometheus": {
                "default": {"url": self.place.prometheus_url} | ({"gateway": dict(gateway)} if gateway else {})
            },
            "tickSeconds": s.tick_seconds,
            "scrapeIntervalSeconds": s.scrape_interval_seconds,
            "rateWindowSeconds": s.rate_window_seconds,
            "timeScale": s.time_scale,
            "host": "127.0.0.1",
            "port": self._operator_port,
            "advisory": advisory,
            "render": True,
            "sizingStore": sizing_store,
        }
        file = self.place.folder / "operator.yaml"
        file.write_text(yaml.safe_dump(settings))
        self.operator = self._start("operator", "operator", "--config", file, "--kubeconfig", kubeconfig)
        wait_until(self.operator_ready, 30, "operator ready")
        return self.operator

    def start_fleet(
        self, phases: tuple[Phase, ...], seconds: float, *, runtime: str = "nim", control: bool = False
    ) -> Component:
        """Start the emulated fleet, with the metrics of `runtime`, and its traffic; wait until it answers."""
        self.begin_fleet(phases, seconds, "--runtime", runtime, *(["--allow-control"] if control else []))
        return self.wait_for_fleet()

    def begin_fleet(self, phases: tuple[Phase, ...], seconds: float, *options: str) -> None:
        """Start the emulated fleet, with further options, without waiting for it, so that several begin at once."""
        first, *later = phases
        arguments: list[str | Path] = [
            "emulate", "-f", self.example, "--fleet", "--kubeconfig", self.place.kubeconfig,
            "--rate", f"{first.requests_per_second:g}", "--seconds", f"{seconds:g}",
            "--seed", str(self.scenario.seed), "--host", self.place.fleet_address, "--port", str(self._fleet_port),
            "--truth", self.place.folder / "truth.jsonl",
        ]  # fmt: skip
        for phase in later:
            arguments += ["--phase", f"{phase.at_seconds:g}:{phase.requests_per_second:g}"]
        self.fleet = self._start("fleet", *arguments, *options)

    def wait_for_fleet(self) -> Component:
        """Wait until the emulated fleet answers."""
        assert self.fleet is not None, "it was begun"
        wait_until(lambda: self.stats() is not None, FLEET_START_SECONDS, "emulated fleet up")
        return self.fleet

    def _start(self, name: str, *arguments: str | Path) -> Component:
        argv = [sys.executable, "-m", "firsttoken_operator.cli", *arguments]
        log = self.place.folder / f"{name}.log"
        # NB: a library's proxy settings must not reach the loopback servers here.
        environment = os.environ | {"NO_PROXY": "*", "PYTHONUNBUFFERED": "1"}
        return Component(name, argv, log, env=environment, grace_seconds=STOP_SECONDS)

    # -- what is to be seen -----------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any] | None:
        """The fleet's live score, or None while it is not up, or has played to its end."""
        if self.fleet is not None and not self.fleet.running and self.fleet.wait(0) == 0:
            return None
        if self.fleet is not None:
            self.fleet.require_running()
        return _json(f"{self.discovery_url.removesuffix('/sd')}/stats")

    def control(self, path: str, body: Mapping[str, object]) -> None:
        """Change the load (`load`) or break the scraping (`fault`) of a fleet that was started with control."""
        url = f"{self.discovery_url.removesuffix('sd')}{path}"
        request = urllib.request.Request(url, data=json.dumps(body).encode(), method="POST")
        urllib.request.urlopen(request, timeout=30).close()

    def operator_ready(self) -> bool:
        """Tell whether `/readyz` says so."""
        if self.operator is not None:
            self.operator.require_running()
        return answers(f"{self.operator_url}/readyz")

    def operator_metrics(self) -> dict[str, float]:
        """The operator's own metrics: series with its labels -> value."""
        with urllib.request.urlopen(f"{self.operator_url}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {series: float(value) for series, value in pairs}

    def resource(self) -> dict[str, Any]:
        """The InferenceDeployment as the API server has it."""
        found = self.custom.get_namespaced_custom_object(
            "firsttoken.dev", "v1alpha1", self.namespace, "inferencedeployments", self.deployment.metadata.name
        )
        assert isinstance(found, dict)
        return found

    def status(self) -> dict[str, Any]:
        """Status of the resource; empty before the operator wrote one."""
        status: dict[str, Any] = self.resource().get("status", {})
        return status

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason of one condition; ("", "") where it is not there."""
        for entry in self.status().get("conditions", []):
            if entry["type"] == kind:
                return entry["status"], entry["reason"]
        return "", ""

    def ready_replicas(self) -> int:
        """Ready replicas of the target; 0 while it is not there."""
        found = self.apps.list_namespaced_deployment(self.namespace, field_selector=f"metadata.name={self.target}")
        return sum((d.status.ready_replicas or 0) for d in found.items if d.status is not None)

    def scale_by_hand(self, replicas: int) -> None:
        """Scale the target as a person's `kubectl scale` does."""
        self.kubectl("-n", self.namespace, "scale", "deployment", self.target, f"--replicas={replicas}")

    def patch_spec(self, spec: Mapping[str, object]) -> None:
        """Change fields of the InferenceDeployment's spec, as a user would."""
        name, patch = self.deployment.metadata.name, json.dumps({"spec": spec})
        self.kubectl("-n", self.namespace, "patch", "infd", name, "--type=merge", "-p", patch)

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_seconds: float = 60.0) -> str:
        """Run the real kubectl as administrator and return its output."""
        done = subprocess.run(
            [kubectl(), *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=timeout_seconds,
            env=self._environment(),
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        place = self.place
        return os.environ | {"KUBECONFIG": str(place.kubeconfig), "KUBECACHEDIR": str(place.folder / "kubectl-cache")}

    def apply(self, documents: list[dict[str, Any]]) -> None:
        """Apply manifests as administrator."""
        # NB: a second run on the same cluster finds replicas owned by the operator; the scene is set anew all the same.
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump_all(documents))


def _namespace(name: str) -> dict[str, Any]:
    labels = {"firsttoken.dev/scale": "true", "firsttoken.dev/render": "true"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _json(url: str) -> dict[str, Any] | None:
    with suppress(OSError):
        with urllib.request.urlopen(url, timeout=2) as answer:
            found: dict[str, Any] = json.load(answer)
        return found
    return None
