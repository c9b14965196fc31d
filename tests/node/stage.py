"""Stage on the node: emulated servers in pods, Prometheus that discovers them, load through their Service."""

from __future__ import annotations

import json
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from firsttoken_operator.observe.projections import DELETION_COST
from tests.helm.chart import CHART, NAMESPACE, run_helm
from tools.cluster import wait_until
from tools.image.build import REPOSITORY, Image
from tools.node.node import PROMETHEUS, Node
from tools.node.oci import derive

Seen = TypeVar("Seen")
MANIFESTS = Path(__file__).with_name("manifests")
FLEET = "call-center"
NAME = "support-rag"
RELEASE = "firsttoken"
NIM = "localhost/emulated-nim:1.0.3"
EMULATED_NIM = (
    *("firsttoken", "emulate", "-f", "/etc/emulated/input.yaml", "--name", "assistant"),
    *("--runtime", "nim", "--host", "0.0.0.0", "--port", "8000"),
)
TICK_SECONDS = 5
FIRST_VERSION, NEXT_VERSION = "0.0.1", "0.0.2"
"""Versions of the chart, for an upgrade from one to the other."""
VALUES = {
    "image": {"pullPolicy": "Never"},
    "tickSeconds": TICK_SECONDS,
    "scrapeIntervalSeconds": 5,
    "scale": {"chooseVictims": True},
    "render": {"enabled": True, "allowed": {"images": ["localhost/"]}},
}


def example() -> list[dict[str, Any]]:
    """The call center, with the traffic that one machine can emulate: two replicas at least, four for the peak."""
    documents: list[dict[str, Any]] = list(yaml.safe_load_all((REPOSITORY / "examples/call-center.yaml").read_text()))
    (resource,) = (document for document in documents if document["kind"] == "InferenceDeployment")
    spec = resource["spec"]
    spec["traffic"] |= {"averageRequestsPerSecond": "2", "peakRequestsPerSecond": "15"}
    spec["scaling"] |= {"minReplicas": 2, "scaleDownStabilizationSeconds": 60}
    return documents


def rendered_example() -> dict[str, Any]:
    """`spec.runtime` of the example for NIM, with an image that emulates NIM and the resources of a test."""
    (resource,) = yaml.safe_load_all((REPOSITORY / "examples/nim-runtime.yaml").read_text())
    resource["metadata"]["namespace"] = FLEET
    runtime = resource["spec"]["runtime"]
    del runtime["imagePullSecrets"], runtime["modelCache"]
    runtime |= {"image": NIM, "resources": {"cpu": "10m", "memory": "128Mi", "sharedMemory": "16Mi"}}
    resource["spec"]["traffic"] |= {"averageRequestsPerSecond": "1", "peakRequestsPerSecond": "4"}
    return dict(resource)


@dataclass
class Stage:
    """The node with everything on it, and questions that tests ask of it."""

    node: Node
    image: Image
    folder: Path
    trace: list[str] = field(default_factory=list)

    def apply(self, *manifests: dict[str, Any]) -> None:
        """Apply manifests as they are."""
        self.node.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))

    def apply_file(self, name: str, *more: dict[str, Any]) -> None:
        """Apply one of `manifests/`, with the image's name in it."""
        text = (MANIFESTS / name).read_text().replace("IMAGE", self.image.name).replace("PROMETHEUS", PROMETHEUS)
        self.apply(*(document for document in yaml.safe_load_all(text) if document), *more)

    def get(self, kind: str, name: str, namespace: str = FLEET) -> dict[str, Any]:
        """An object; empty where there is none."""
        done = self.node.kubectl("-n", namespace, "get", kind, name, "-o", "json", check=False)
        found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        return found

    def list(self, kind: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        """Objects of a kind by label."""
        answer = self.node.kubectl("-n", namespace, "get", kind, "-l", selector, "-o", "json").stdout
        items: list[dict[str, Any]] = json.loads(answer)["items"]
        return items

    def install(self, version: str, **values: Any) -> None:
        """Install or upgrade the release, from the packaged chart, and wait until its pods are ready."""
        packaged = run_helm("package", CHART, "--version", version, "--destination", self.folder)
        assert packaged.returncode == 0, packaged.stderr
        chart = self.folder / f"firsttoken-{version}.tgz"
        given = yaml.safe_dump(VALUES | values)
        options = ["--namespace", NAMESPACE, "--create-namespace", "--values", "-"]
        self.node.helm("upgrade", "--install", RELEASE, chart, *options, stdin=given)
        self.wait_installed()

    def wait_installed(self) -> None:
        """Wait until the release's pods are the wanted ones, and ready."""
        status = ["rollout", "status", f"deployment/{RELEASE}", "--timeout=120s"]
        self.node.kubectl("-n", NAMESPACE, *status, timeout_seconds=150)

    def requests_per_second(self, rate: float) -> None:
        """Send so many requests a second from now on."""
        self.node.kubectl("-n", FLEET, "set", "env", "deployment/load", f"RATE={rate:g}")

    def requests(self) -> dict[str, Any]:
        """Counts of this load's requests: answered and failed, with the last failure."""
        lines = self.node.kubectl("-n", FLEET, "logs", "deployment/load").stdout.splitlines()
        return {"answered": 0, "failed": 0} | (json.loads(lines[-1]) if lines else {})

    @contextmanager
    def watching(self, look: Callable[[], Seen]) -> Iterator[list[Seen]]:
        """Everything that a look sees, every second for as long as the block runs."""
        seen, over = [look()], threading.Event()

        def watch() -> None:
            while not over.wait(1):
                seen.append(look())

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield seen
        finally:
            over.set()
            thread.join()

    def ending(self) -> dict[str, str]:
        """Deletion cost of each pod that ends, by name; empty: it has none."""
        pods = self.list("pod", FLEET, f"app.kubernetes.io/name={NAME}")
        metadata = [pod["metadata"] for pod in pods if "deletionTimestamp" in pod["metadata"]]
        return {each["name"]: each.get("annotations", {}).get(DELETION_COST, "") for each in metadata}

    def events(self) -> set[str]:
        """Reasons of the fleet's Events."""
        answer = self.node.kubectl("-n", FLEET, "get", "events", "-o", "json").stdout
        return {event["reason"] for event in json.loads(answer)["items"]}

    @property
    def asked(self) -> int:
        """Replicas that the Deployment asks for."""
        return int(self.get("deployment", NAME)["spec"]["replicas"])

    @property
    def ready(self) -> int:
        """Replicas whose pods are ready."""
        return int(self.get("deployment", NAME)["status"].get("readyReplicas", 0))

    def condition(self, kind: str, name: str = NAME) -> str:
        """Status, reason and message of a condition of the resource."""
        for entry in self.get("infd", name).get("status", {}).get("conditions", []):
            if entry["type"] == kind:
                return f"{entry['status']} {entry['reason']}: {entry['message']}"
        return ""

    @property
    def leader(self) -> str:
        """Pod that holds the Lease; empty where none does."""
        holder = self.get("lease", RELEASE, NAMESPACE).get("spec", {}).get("holderIdentity") or ""
        return str(holder).rpartition("_")[0]

    def operators(self) -> dict[str, dict[str, Any]]:
        """The operator's pods by name."""
        pods = self.list("pod", NAMESPACE, "app.kubernetes.io/name=firsttoken")
        return {pod["metadata"]["name"]: pod for pod in pods}

    def restarts(self, pod: str) -> int:
        """Count the restarts of the operator's container in this pod."""
        (status,) = self.operators()[pod]["status"]["containerStatuses"]
        return int(status["restartCount"])

    def signal(self, pod: str, number: signal.Signals) -> None:
        """Signal the operator's process in this pod from outside, as the kernel would."""
        (status,) = self.operators()[pod]["status"]["containerStatuses"]
        container = status["containerID"].rpartition("/")[2]
        tasks = self.node.run("ctr", "--namespace=k8s.io", "tasks", "list").stdout.splitlines()
        (process,) = (line.split()[1] for line in tasks if line.startswith(container))
        self.node.run("sh", "-c", f"kill -{int(number)} {process}")

    def waits_for(self, what: str, predicate: Any, seconds: float = 120.0) -> Any:
        """Wait for something, and say after how long."""
        started = time.monotonic()
        try:
            found = wait_until(predicate, seconds, what, poll_seconds=0.5)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.report()}") from error
        self.trace.append(f"{time.monotonic() - started:6.1f} s  {what}")
        return found

    def report(self) -> str:
        """Report what the objects and logs say, for a test that failed."""
        said = [
            ("get", "pods", "-A", "-o", "wide"),
            ("-n", FLEET, "describe", "infd"),
            ("-n", FLEET, "get", "events", "--sort-by=.lastTimestamp"),
            ("-n", NAMESPACE, "logs", f"deployment/{RELEASE}", "--tail=30"),
        ]
        return "\n".join([*self.trace, *(self.node.kubectl(*command, check=False).stdout for command in said)])


@contextmanager
def staged(image: Image) -> Iterator[Stage]:
    """A node with a namespace for the fleet, two emulated servers, and Prometheus; no operator yet."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="firsttoken-images-") as folder:
        source = yaml.safe_dump_all([*example()[:3], rendered_example()]).encode()
        files = {"/etc/emulated/input.yaml": source}
        nim = derive(Path(folder) / "nim.tar", image.archive, NIM, command=EMULATED_NIM, files=files)
        with Node(images=[image.archive, nim]) as node:
            yield _set_up(Stage(node, image, Path(folder)), started)


def _set_up(stage: Stage, started: float) -> Stage:
    node = stage.node
    stage.trace.append(f"{time.monotonic() - started:6.1f} s  the node is ready")
    node.kubectl("create", "namespace", FLEET)
    node.kubectl("label", "namespace", FLEET, "firsttoken.dev/scale=true", "firsttoken.dev/render=true")
    data = {"input.yaml": yaml.safe_dump_all(example())}
    configuration = {"metadata": {"name": "emulated", "namespace": FLEET}, "data": data}
    stage.apply_file("emulated.yaml", {"apiVersion": "v1", "kind": "ConfigMap", **configuration})
    stage.apply_file("prometheus.yaml")
    stage.waits_for("two emulated servers are ready", lambda: stage.ready == 2)
    stage.apply_file("load.yaml")
    return stage
