"""Manifests of the examples with `runtime`, read by eye; `python -m tests.operator.act.golden` writes them anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from firsttoken_operator.act.manifests import manifests, pods_of
from firsttoken_operator.act.pods import Rendering
from firsttoken_operator.act.render import WORKLOAD_KINDS
from firsttoken_operator.api.convert import sizing_request
from firsttoken_operator.api.documents import load_documents
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.domain.pods import KEEPER_KIND
from firsttoken_sizing.catalog import resolve_gpu
from firsttoken_sizing.optimize import size

POD_KINDS = WORKLOAD_KINDS | {KEEPER_KIND}
"""Kinds that have pods."""
ROOT = Path(__file__).parents[3]
EXAMPLES = tuple(sorted((ROOT / "examples").glob("*-runtime.yaml")))
GOLDEN = ROOT / "tests/fixtures/rendered"


def example(path: Path) -> InferenceDeployment:
    """The resource of an example, as it comes from a cluster."""
    (declared,) = load_documents(path).deployments
    metadata = declared.metadata.model_copy(update={"namespace": "team", "uid": "1-1", "generation": 1})
    return declared.model_copy(update={"metadata": metadata})


def rendering(path: Path) -> Rendering:
    """Rendering of an example with the configuration that it is sized to."""
    declared = example(path)
    key = size(sizing_request(declared, {}, ())).configuration
    assert key is not None
    products = resolve_gpu(key.gpu).node_labels
    return Rendering(declared, key, {}, {"release": "prometheus"}, 15, products, spans_servers=True, pre_pulls=True)


def templates(workload: dict[str, Any]) -> list[dict[str, Any]]:
    """Templates of the pods of a workload, or of what keeps its image: one, or those of leader and workers."""
    pods = pods_of(workload)
    return [pods] if "spec" in pods else [pods["leaderTemplate"], pods["workerTemplate"]]


def golden(path: Path) -> Path:
    """The file that holds what the example becomes."""
    return GOLDEN / path.name


def text(documents: Any) -> str:
    """YAML without a number in a style of its own."""
    return yaml.safe_dump_all(documents, sort_keys=False, width=110)


if __name__ == "__main__":
    for each in EXAMPLES:
        golden(each).write_text(text(manifests(rendering(each))))
        print(golden(each))
