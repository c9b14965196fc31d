"""A rendered Deployment, traffic that bursts and goes, kept sizings; the process is killed at one write of each kind.

What its requests and the Deployment keep to then is what they keep to without any kill; how many replicas a burst takes
is measured and no two runs share it, so bounds and ends are compared.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from demo.scenario import Scenario
from demo.stage import EXAMPLE, SYSTEM_NAMESPACE
from tests.e2e.play import Play, play
from tests.faults.actions import Kill
from tests.faults.lawful import assert_lawful
from tests.faults.proxy import FaultProxy
from tests.faults.stage import through
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.every_fault, pytest.mark.timeout(900)]

NAME, NAMESPACE = "support-rag", "call-center"
SCENARIO = Scenario(cold_start_seconds=60, initial_replicas=6)
SCALING = {"minReplicas": 5, "maxReplicas": 30, "scaleDownStabilizationSeconds": 150}
IMAGE = "nvcr.io/nim/meta/llama3-8b-instruct"
RUNTIME = {"type": "NIM", "image": f"{IMAGE}:1.0.3", "authSecret": {"name": "ngc-api-secret"}}
LOAD, BURST = 25.0, 100.0


def rendered(folder: Path) -> Path:
    """The call center, with the operator rendering its Deployment."""
    documents = list(yaml.safe_load_all(EXAMPLE.read_text()))
    for document in documents:
        if document["kind"] == "InferenceDeployment":
            del document["spec"]["targetRef"]
            document["spec"] |= {"runtime": RUNTIME, "scaling": document["spec"]["scaling"] | SCALING}
    path = folder / "rendered.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return path


class Killed:
    """A play whose operator is killed at a write that an act brings about, and started again."""

    def __init__(self, p: Play, proxy: FaultProxy, kubeconfig: Path, *, forwarding: bool) -> None:
        self.p, self.proxy, self.kubeconfig, self.forwarding = p, proxy, kubeconfig, forwarding
        self.start()

    def start(self) -> None:
        """Start it, or another one in its place."""
        self.p.stage.start_operator(self.kubeconfig, sizing_store=f"{SYSTEM_NAMESPACE}/firsttoken-sizings")

    def at(self, path: str, act: Callable[[], object]) -> None:
        """Kill it at the first write of this path after the act."""
        operator = self.p.stage.operator
        assert operator is not None
        kill = Kill(lambda: operator.send_signal(signal.SIGKILL), forwarding=self.forwarding)
        with self.proxy.injecting(kill, method="PATCH|POST|PUT", path=path, times=1):
            act()
            assert kill.done.wait(90), f"no write of {path}"
        operator.wait(10)
        self.start()

    def spec(self, path: str) -> str:
        """A field of the Deployment, as kubectl's jsonpath reads it."""
        get = ("-n", NAMESPACE, "get", "deployment", NAME, "--ignore-not-found", "-o", f"jsonpath={{.spec.{path}}}")
        return self.p.stage.kubectl(*get)

    def replicas(self) -> int:
        """Replicas that the Deployment asks for; 0 while it is not there."""
        return int(self.spec("replicas") or 0)

    def until(self, predicate: Callable[[int], bool], seconds: float, what: str) -> int:
        """Wait for replicas like that; how many they are."""
        wait_until(lambda: predicate(self.replicas()), seconds, what)
        return self.replicas()


@pytest.mark.parametrize("forwarding", [False, True], ids=["before", "after"])
def test_it_bursts_shrinks_and_ends_within_its_bounds(control_plane: Path, tmp_path: Path, forwarding: bool) -> None:
    example = rendered(tmp_path)
    with (
        play(SCENARIO, initial_load=LOAD, example=example) as p,
        FaultProxy(p.cluster.api_url, p.cluster.ca) as proxy,
    ):
        life = Killed(p, proxy, through(proxy, p.identity, tmp_path / "kubeconfig"), forwarding=forwarding)
        p.stage.kubectl("-n", NAMESPACE, "delete", "infd", NAME, "--wait")
        wait_until(lambda: not life.replicas(), 60, "what it rendered gone with it")
        began = len(proxy.log)
        life.at("/deployments(/support-rag)?$", lambda: p.stage.kubectl("apply", "-f", str(example)))
        life.until(lambda replicas: replicas >= SCALING["minReplicas"], 60, "rendered after the kill")
        p.stage.wait_until_ready(90)

        life.at(f"/deployments/{NAME}/scale$", lambda: p.load(BURST))
        burst = life.until(lambda replicas: replicas >= 12, 60, "the burst answered after the kill")
        life.at(f"/inferencedeployments/{NAME}/status$", lambda: p.stage.patch_spec(peak("220")))
        life.at("/configmaps", lambda: p.stage.patch_spec(peak("240")))
        assert life.replicas() >= burst, "no restart lowers anything"

        life.at(f"/deployments/{NAME}/scale$", lambda: p.load(0.0))
        life.until(lambda replicas: replicas == SCALING["minReplicas"], 180, "idle at its minimum after the kill")
        change = {"runtime": RUNTIME | {"image": f"{IMAGE}:1.0.4"}}
        life.at(f"/deployments/{NAME}$", lambda: p.stage.patch_spec(change))
        image = "template.spec.containers[0].image"
        wait_until(lambda: life.spec(image) == f"{IMAGE}:1.0.4", 60, "the new image after the kill")
        assert life.replicas() == SCALING["minReplicas"]

        p.stage.kubectl("-n", NAMESPACE, "delete", "infd", NAME, "--wait")
        deleted = len(proxy.log)
        wait_until(lambda: not life.replicas(), 60, "what it rendered gone with it")
        time.sleep(5 * SCENARIO.tick_wall_seconds)
        assert not life.replicas(), "it is not rendered anew"
        bounds = {"least": SCALING["minReplicas"], "most": SCALING["maxReplicas"]}
        assert_lawful(proxy.since(began), NAME, **bounds, deleted=deleted)


def peak(requests_per_second: str) -> dict[str, object]:
    """A change of what is declared, after which a size is found anew."""
    return {"traffic": {"peakRequestsPerSecond": requests_per_second}}
