"""`runtime: NIM`: an image change, a restart and a re-render in the middle of a burst change no replica."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from demo.scenario import Scenario
from demo.stage import EXAMPLE
from tests.e2e.play import Play, play
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

# 28.54 requests/s on average need 6 replicas: what a new Deployment in the cloud starts with.
SCENARIO = Scenario(cold_start_seconds=60, initial_replicas=6)
RUNTIME = {
    "type": "NIM",
    "image": "nvcr.io/nim/meta/llama3-8b-instruct:1.0.3",
    "authSecret": {"name": "ngc-api-secret"},
}


@pytest.fixture
def rendered_example(tmp_path: Path) -> Path:
    """The call center, with the operator rendering its Deployment."""
    documents = list(yaml.safe_load_all(EXAMPLE.read_text()))
    for document in documents:
        if document["kind"] == "InferenceDeployment":
            del document["spec"]["targetRef"]
            document["spec"]["runtime"] = RUNTIME
    path = tmp_path / "rendered.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return path


def test_nothing_but_a_decision_changes_replicas(rendered_example: Path) -> None:
    with play(SCENARIO, initial_load=25, example=rendered_example) as p:
        p.load(100)
        wait_until(lambda: p.record.replicas_at(p.now) >= 12, 20, "the burst is being answered")
        burst = p.now

        p.stage.patch_spec({"runtime": {"image": "nvcr.io/nim/meta/llama3-8b-instruct:1.0.4"}})
        wait_until(lambda: image_of(p).endswith(":1.0.4"), 15, "the new image in the Deployment")
        only_decisions_changed_replicas(p, burst)

        p.stage.start_operator(p.identity)
        only_decisions_changed_replicas(p, burst)

        p.stage.patch_spec({"runtime": {"env": [{"name": "NIM_LOG_LEVEL", "value": "WARNING"}]}})
        wait_until(lambda: "WARNING" in p.stage.kubectl(*GET, "-o", "yaml"), 15, "the Deployment rendered again")
        p.sleep_until(p.now + 15)
        only_decisions_changed_replicas(p, burst)


def only_decisions_changed_replicas(p: Play, since: float) -> None:
    """Every change of size is in the operator's own log as a decision, and none lowered the fleet."""
    sizes = p.sizes_since(since)
    decided = {(e["from"], e["to"]) for e in p.operator_log() if e.get("message", "").startswith("done: ")}
    assert sizes == sorted(sizes), f"something lowered the fleet: {sizes}"
    assert set(pairwise(sizes)) <= decided, f"{sizes} are not all decisions: {sorted(decided)}"


GET = ("-n", "call-center", "get", "deployment", "support-rag")


def image_of(p: Play) -> str:
    return p.stage.kubectl(*GET, "-o", "jsonpath={.spec.template.spec.containers[0].image}")
