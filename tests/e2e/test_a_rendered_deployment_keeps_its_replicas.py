"""`runtime: NIM`: an image change, a restart and a re-render in the middle of a burst change no replica."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from demo.scenario import Scenario
from demo.stage import EXAMPLE
from tests.cluster import wait_until
from tests.e2e.play import Play, play

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
        # A burst that lasts; sized with room, so that noise asks for no more once it is answered.
        p.load(100)
        wait_until(lambda: p.stage.ready_replicas() >= 20, 40, "the burst is answered")
        p.sleep_until(p.now + 8)
        began, size = p.now, p.record.replicas_at(p.now)

        p.stage.patch_spec({"runtime": {"image": "nvcr.io/nim/meta/llama3-8b-instruct:1.0.4"}})
        wait_until(lambda: image_of(p).endswith(":1.0.4"), 15, "the new image in the Deployment")
        p.stage.start_operator(p.identity)
        p.stage.kubectl("-n", "call-center", "delete", "service", "support-rag")
        p.stage.patch_spec({"runtime": {"env": [{"name": "NIM_LOG_LEVEL", "value": "WARNING"}]}})
        wait_until(lambda: "support-rag" in p.stage.kubectl("-n", "call-center", "get", "service"), 15, "re-rendered")
        p.sleep_until(p.now + 15)

        sizes = p.sizes_since(began)
        assert sizes == sorted(sizes), f"something lowered the fleet: {sizes}"
        # Noise of a Poisson stream may ask for one or two more; a reset to the first replicas or to 1 would show.
        assert sizes[-1] - size <= 2, sizes


def image_of(p: Play) -> str:
    path = "jsonpath={.spec.template.spec.containers[0].image}"
    return p.stage.kubectl("-n", "call-center", "get", "deployment", "support-rag", "-o", path)
