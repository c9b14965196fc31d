"""The pages of day two: needs have answers, commands have flags that exist, manifests are what the chart takes."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from firsttoken_operator.domain import ConditionType, Reason
from tests.docs.pages import ROOT, blocks, links, table
from tests.helm.chart import CHART, run_helm
from tools.cluster import build, helm, kubectl

NAMES = ("upgrade", "uninstall", "gitops", "migrate", "multi-tenancy", "troubleshooting", "versions")
PAGES = {name: ROOT / f"docs/{name}.md" for name in NAMES}


def commands() -> list[list[str]]:
    """The words of every command of the pages, without what a shell makes of them."""
    lines = [line for page in PAGES.values() for block in blocks(page, "sh") for line in block.text.splitlines()]
    return [shlex.split(line.partition(" > ")[0], comments=True) for line in lines if line.strip()]


@cache
def offered(program: str, verbs: tuple[str, ...]) -> str:
    tool = {"helm": helm, "kubectl": kubectl, ".venv/bin/python": lambda: sys.executable}[program]()
    more = [[tool, *verbs, "--help"], *([[tool, "options"]] if program == "kubectl" else [])]
    return "".join(subprocess.run(line, capture_output=True, text=True, check=True).stdout for line in more)


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_has_a_verb_and_flags_that_exist(words: list[str]) -> None:
    program, *rest = words
    if rest[0] in ("-n", "--namespace"):
        rest = rest[2:]
    with_noun = rest[0] in ("create", "rollout") if program == "kubectl" else rest[0] == "get"
    verbs = tuple(rest[: 1 + with_noun])
    said = offered(program, verbs)

    assert f"{program} {verbs[0]}" in said or f"usage: {Path(verbs[0]).name} " in said
    for flag in (word.partition("=")[0] for word in rest if word.startswith("-")):
        assert re.search(rf"(?<![\w-]){flag}(?![\w-])", said), f"{flag} of {' '.join(words)}"


def values_of(document: dict[str, Any]) -> dict[str, Any] | None:
    """Values that a GitOps manifest gives the chart."""
    spec = document.get("spec", {})
    found = spec.get("values") or spec.get("source", {}).get("helm", {}).get("valuesObject")
    return found if isinstance(found, dict) else None


def test_the_chart_takes_the_values_of_the_pages(tmp_path: Path) -> None:
    given = [yaml.safe_load(b.text) for page in PAGES.values() for b in blocks(page, "yaml") if b.file == "values.yaml"]
    manifests = [yaml.safe_load(block.text) for block in blocks(PAGES["gitops"], "yaml")]
    given += [values for values in map(values_of, manifests) if values is not None]

    assert len(given) == 3
    for values in given:
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        done = run_helm("template", "firsttoken", CHART, "-f", file)
        assert done.returncode == 0, done.stderr


def test_each_gitops_tool_leaves_the_replicas_of_the_deployment_alone() -> None:
    manifests = {block.file: yaml.safe_load(block.text)["spec"] for block in blocks(PAGES["gitops"], "yaml")}
    argo, flux = manifests["application-workload.yaml"], manifests["helm-release-workload.yaml"]

    (ignored,) = argo["ignoreDifferences"]
    assert (ignored["group"], ignored["kind"], ignored["jsonPointers"]) == ("apps", "Deployment", ["/spec/replicas"])
    assert "RespectIgnoreDifferences=true" in argo["syncPolicy"]["syncOptions"]
    (drift,) = flux["driftDetection"]["ignore"]
    assert drift["paths"] == ["/spec/replicas"]
    assert drift["target"]["kind"] == "Deployment"
    assert "PruneLast=true" in manifests["application-operator.yaml"]["syncPolicy"]["syncOptions"]


def test_the_versions_are_those_of_the_tests() -> None:
    rows = {row[0]: row for row in table(PAGES["versions"], "# Supported versions")}
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert rows["Kubernetes"][2].startswith(build.KUBERNETES_VERSION)
    assert f">={rows['Kubernetes'][1].split()[0]}.0-0" == chart["kubeVersion"]
    assert rows["Prometheus"][2] == build.PROMETHEUS_VERSION
    assert run_helm("version", "--template", "{{.Version}}").stdout == rows["Helm"][2]
    said = subprocess.run([kubectl(), "version", "--client"], capture_output=True, text=True, check=True).stdout
    assert rows["kubectl"][2] in said
    project = (ROOT / "pyproject.toml").read_text()
    assert f'requires-python = ">={rows["Python"][1].split()[0]}"' in project
    assert f"!{rows['Grafana'][1].split(': ')[1].split()[0]}.0" in project


def test_the_reasons_and_conditions_of_the_symptoms_exist() -> None:
    rows = table(PAGES["troubleshooting"], "# Troubleshooting")
    text = PAGES["troubleshooting"].read_text()
    limits = {"ClosedLoop", "WhenPoolShort"}
    named = set(re.findall(r"`([A-Z][a-zA-Z]*[a-z][A-Za-z]*)`", text)) - limits

    assert len(rows) >= 15
    assert named <= {reason.value for reason in Reason} | {kind.value for kind in ConditionType}


def test_every_need_of_day_two_has_an_answer() -> None:
    page = ROOT / "docs/day-two.md"
    rows = table(page, "# Day two")

    assert len(rows) == len({need for need, _ in rows}) == 22
    assert all(re.search(r"\[[^\]]+\]\([^)\s]+\)", answer) for _, answer in rows)
    named = {link.partition("#")[0] for link in links(page)}
    assert {path.name for path in PAGES.values()} <= named


@pytest.mark.parametrize("name", [*NAMES, "day-two"])
def test_the_readme_leads_to_the_page(name: str) -> None:
    assert f"docs/{name}.md" in links(ROOT / "README.md")
