"""docs/runbook.md: every condition, reason, alert and warning has an entry, none is stale, what it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Any

import pytest
import yaml

from firsttoken_operator.cli import COMMANDS
from firsttoken_operator.domain import ConditionType, Reason
from firsttoken_operator.run.metrics import OperatorMetrics
from tests.docs.pages import ROOT, blocks, table
from tests.fixtures.source import modules
from tests.helm.chart import of_kind, render

RUNBOOK = ROOT / "docs/runbook.md"
TEXT = RUNBOOK.read_text(encoding="utf-8")
LOUD = {"warning", "error", "exception", "critical"}
KUBECTL_VERBS = {"apply", "auth", "describe", "get", "logs", "port-forward", "rollout", "run", "scale"}
OBJECTS = {
    "infd", "gpupools", "hpa", "deployment", "deployments", "pods", "events", "nodes", "configmap", "crds", "lease",
    "namespaces", "replicaset", "resourcequota", "priorityclasses", "resourceclaims", "resourceslices",
    "persistentvolumeclaims",
}  # fmt: skip
"""Objects that the page's `get` and `describe` name; each exists on a cluster with the chart."""


OUTCOMES = {
    "up", "down", "steady", "held", "error", "ok", "done", "gone", "denied", "conflict", "failed", "throttled",
    "no turn",
}  # fmt: skip


def alerts() -> dict[str, dict[str, Any]]:
    (manifest,) = of_kind(render("prometheusRule.enabled=true", "prometheusRule.runbookUrl=book"), "PrometheusRule")
    return {rule["alert"]: rule for group in manifest["spec"]["groups"] for rule in group["rules"]}


@cache
def log_messages() -> tuple[str, ...]:
    """Messages that the operator may log above INFO, with `…` for what differs."""
    found = []
    for module, tree in modules():
        if not module.startswith("firsttoken_operator/"):
            continue
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOUD):
                continue
            if isinstance(node.func.value, ast.Name) and node.func.value.id == "logger":
                text = node.args[0]
                assert isinstance(text, ast.Constant), f"{module}: a message is a constant with its values beside it"
                found.append(re.sub(r"%[-.0-9]*[a-z]", "…", str(text.value)))
    return tuple(found)


def test_the_table_of_conditions_is_the_enumeration() -> None:
    assert [row[0] for row in table(RUNBOOK, "## Conditions")] == [kind.value for kind in ConditionType]


def test_the_table_of_reasons_is_the_enumeration() -> None:
    assert [row[0] for row in table(RUNBOOK, "## Reasons")] == [reason.value for reason in Reason]


def test_the_reasons_that_the_conditions_table_names_exist() -> None:
    rows = TEXT.split("\n## Conditions\n")[1].split("\n## Reasons\n")[0]
    named = set(re.findall(r"`([A-Z][A-Za-z]+)`", rows))

    assert named - {kind.value for kind in ConditionType} <= {reason.value for reason in Reason}


def test_every_alert_has_an_entry_to_which_it_leads() -> None:
    headings = re.findall(r"^### (Firsttoken\w+)$", TEXT, re.MULTILINE)

    assert headings == list(alerts())
    assert {name: rule["annotations"]["runbook_url"] for name, rule in alerts().items()} == {
        name: f"book#{name.lower()}" for name in headings
    }


def test_every_alert_says_what_to_check_and_to_fix() -> None:
    for entry in re.split(r"^### ", TEXT.split("\n## Conditions\n")[0], flags=re.MULTILINE)[1:]:
        assert re.search(r"\*\*Check\*\* `", entry), entry.splitlines()[0]
        assert "**Fix**" in entry, entry.splitlines()[0]


def test_every_warning_of_the_log_has_an_entry() -> None:
    assert sorted(row[0] for row in table(RUNBOOK, "## Warnings and errors in the log")) == sorted(set(log_messages()))


@pytest.mark.parametrize("heading", ["## Conditions", "## Reasons", "## Warnings and errors in the log"])
def test_every_entry_says_what_it_means_how_to_check_it_and_how_to_mend_it(heading: str) -> None:
    rows = [line for line in TEXT.split(f"\n{heading}\n")[1].split("\n## ")[0].splitlines() if line.startswith("| `")]
    checks = {row[0] for row in table(RUNBOOK, "## First look")}
    for line in rows:
        cells = [cell.strip() for cell in line[1:-1].split("|")]
        assert all(cells), line
        check = cells[-2]
        assert set(re.findall(r"^`([a-z]+)`", check)) <= checks, line
        assert re.search(r"`([a-z]+|kubectl [^`]+|[^`]*\{[^`]*)`", check), f"no command: {line}"


def test_every_check_that_the_page_defines_is_used() -> None:
    rest = TEXT.split("\n## Alerts\n")[1]

    assert {row[0] for row in table(RUNBOOK, "## First look") if f"`{row[0]}`" not in rest} == set()


def commands() -> list[str]:
    """Every command that the page shows: in its blocks and between backticks."""
    shown = [line for block in blocks(RUNBOOK, "sh") for line in block.text.splitlines()]
    shown += re.findall(r"`([^`\n]+)`", TEXT)
    return [text for text in shown if text.startswith(("kubectl ", "firsttoken "))]


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_page_exists(command: str) -> None:
    program, *words = re.sub(r"(-n|--namespace) \S+ ", "", command.split("#")[0]).split()
    if program == "firsttoken":
        assert words[0] in COMMANDS
        return
    assert words[0] in KUBECTL_VERBS
    if words[0] in ("get", "describe") and len(words) > 1:
        assert {word.partition("/")[0] for word in words[1].split(",")} <= OBJECTS


def test_every_metric_of_the_page_and_of_the_alerts_exists() -> None:
    published = {name for names in OperatorMetrics().registry._collector_to_names.values() for name in names}
    said = TEXT + " ".join(rule["expr"] for rule in alerts().values())

    assert set(re.findall(r"\bfirsttoken_[a-z_]+", said)) - published == set()


def test_every_label_that_an_alert_selects_by_exists() -> None:
    reasons, outcomes = {reason.value for reason in Reason}, OUTCOMES
    for name, rule in alerts().items():
        for label, values in re.findall(r'(\w+)[=!]~?"([^"]+)"', rule["expr"]):
            known = {"reason": reasons, "outcome": outcomes, "type": set(ConditionType)}
            assert set(values.split("|")) <= known[label], name


def test_every_field_that_the_page_names_exists() -> None:
    kinds = ("inferencedeployments", "gpupools")
    definitions = [yaml.safe_load((ROOT / f"crds/firsttoken.dev_{kind}.yaml").read_text()) for kind in kinds]
    schemas = [d["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for d in definitions]
    sections = set(schemas[0]["properties"]["spec"]["properties"])
    named = re.findall(r"`((?:spec|status|" + "|".join(sections) + r")\.[A-Za-z0-9.]+)`", TEXT)

    def exists(path: list[str], schema: dict[str, Any]) -> bool:
        inner = schema.get("properties", {}).get(path[0])
        return inner is not None and (len(path) == 1 or exists(path[1:], inner))

    assert len(named) > 10
    for name in named:
        path = name.split(".")
        full = path if path[0] in ("spec", "status") else ["spec", *path]
        assert any(exists(full, schema) for schema in schemas), name
