"""Tables and samples of the pages say what the code has: reasons, metrics, defaults, chart values, paths."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from firsttoken_lab.replay.compare import NAMES as POLICIES_OF_THE_REPLAY
from firsttoken_operator.api.convert import sizing_request
from firsttoken_operator.api.documents import load_documents, parse_documents
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.scorecard import ScorecardStatus
from firsttoken_operator.api.status import GPUPoolStatus, InferenceDeploymentStatus
from firsttoken_operator.domain import Sized
from firsttoken_operator.run.metrics import OperatorMetrics
from firsttoken_sizing import size
from tests.docs.pages import PAGES, ROOT, anchors, blocks, links, table
from tests.operator.decide.builders import Fleet, metrics

OPERATE, DECLARE, INSTALL, REPLAY = (
    ROOT / "docs" / name for name in ("operate.md", "declare.md", "install.md", "replay.md")
)
CONTRACT = ROOT / "docs/design/api.md"
OURS = "firsttoken.dev/"
SUFFIXES = {".py", ".md", ".yaml", ".tpl", ".txt", ".svg"}
_DOCS_PATH = re.compile(r"(?<![\w./-])docs/[\w./-]*\w")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []


def test_every_page_that_a_file_of_the_project_names_exists() -> None:
    folders = [
        ROOT / name for name in ("sizing", "operator", "tests", "demo", "benchmarks", "examples", "helm", "docs")
    ]
    files = [file for folder in folders for file in folder.rglob("*") if file.suffix in SUFFIXES]
    missing = [
        f"{file.relative_to(ROOT)}: {path}"
        for file in (*files, ROOT / "Makefile", ROOT / "README.md", ROOT / "pyproject.toml")
        for path in _DOCS_PATH.findall(file.read_text(encoding="utf-8"))
        if not (ROOT / path).exists()
    ]

    assert missing == []


@pytest.mark.parametrize(
    "block",
    [b for page in PAGES for b in blocks(page, "yaml") if OURS in b.text],
    ids=lambda block: block.name,
)
def test_every_custom_resource_in_the_pages_is_accepted(block: Any) -> None:
    documents = parse_documents(block.text)

    shown = [d for d in yaml.safe_load_all(block.text) if str(d["apiVersion"]).startswith(OURS)]
    assert len(documents.deployments) + len(documents.pools) + len(documents.benchmarks) == len(shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_yaml_block_is_yaml(page: Path) -> None:
    for block in blocks(page, "yaml"):
        assert all(isinstance(document, dict) for document in yaml.safe_load_all(block.text)), block.name


def test_the_table_of_metrics_is_what_the_operator_publishes() -> None:
    published = {}
    for metric in OperatorMetrics().registry._collector_to_names:
        (family,) = metric.describe()  # type: ignore[attr-defined]
        name = family.name + ("_total" if family.type == "counter" else "")
        published[name] = ", ".join(metric._labelnames)  # type: ignore[attr-defined]

    assert {name: labels for name, labels, _ in table(OPERATE, "## Metrics of the operator")} == published


def test_the_contract_names_every_field_of_the_status() -> None:
    named = {field for row in table(CONTRACT, "## Status of an InferenceDeployment") for field in row[0].split(", ")}
    aliases = {info.alias for info in InferenceDeploymentStatus.model_fields.values()}

    assert named == aliases


def test_the_page_explains_every_field_of_the_scorecard() -> None:
    named = {field for row in table(OPERATE, "## Is it worth it?") for field in row[0].split(", ")}

    assert named | {"days"} == {info.alias for info in ScorecardStatus.model_fields.values()}


def test_the_states_of_a_pools_gpus_are_those_of_its_status() -> None:
    (row,) = (row for row in table(OPERATE, "## Metrics of the operator") if row[0] == "firsttoken_pool_gpus")
    fields = {str(info.alias) for info in GPUPoolStatus.model_fields.values()}

    for state in ("budget", "inventory", "charged", "free", "unmet"):
        assert state in row[2]
        assert state == "budget" or f"{state}GPUs" in fields


def test_the_documented_defaults_are_the_models() -> None:
    (smallest,) = (block for block in blocks(DECLARE, "yaml") if block.file == "smallest.yaml")
    resource = InferenceDeployment.model_validate(yaml.safe_load(smallest.text))
    document = json.loads(resource.model_dump_json(by_alias=True))

    for field, default in table(DECLARE, "### Defaults"):
        value: Any = document
        for key in field.split("."):
            value = value[key]
        assert (field, str(value)) == (field, default)


def test_the_documented_chart_values_exist() -> None:
    values = yaml.safe_load((ROOT / "helm/firsttoken/values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((ROOT / "helm/firsttoken/values.schema.json").read_text(encoding="utf-8"))
    of_prometheus = schema["definitions"]["source"]["properties"]

    for keys, _, _ in table(INSTALL, "## The chart"):
        for key in keys.split(", "):
            if key.startswith("prometheus.<name>."):
                assert key.removeprefix("prometheus.<name>.") in of_prometheus
                continue
            value: Any = values
            for part in key.split("."):
                assert part in value, key
                value = value[part]


def test_the_sample_of_a_scaling_is_the_operators_own_sentence() -> None:
    documents = load_documents(ROOT / "examples/call-center.yaml")
    request = sizing_request(documents.deployments[0], documents.pools, documents.benchmarks)
    answer = size(request)
    assert answer.table is not None
    assert answer.configuration is not None
    sized = Sized(answer.configuration, answer.table, request.sla, answer.replicas, answer.replicas_for_average)
    decision = Fleet(replicas=16, sized=sized).tick(metrics(150.0))
    shown = [block.text.strip() for block in blocks(OPERATE, "text")]

    assert f"{decision.announcement}; 2026-11-21T10:02:15Z" in shown


def test_every_policy_of_the_replay_has_a_row_in_its_page() -> None:
    assert tuple(row[0] for row in table(REPLAY, "## Policies")) == POLICIES_OF_THE_REPLAY
