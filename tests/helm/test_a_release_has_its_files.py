"""The files of a release: the chart that Helm packages, the definitions in one file, and sums that hold."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

import pytest
import yaml

from firsttoken_operator.api.documents import load_documents
from tests.docs.pages import ROOT
from tests.helm.chart import CHART, CRDS, run_helm
from tools.release import artifacts, project_version


@pytest.mark.slow
def test_the_chart_and_the_definitions_are_packed_and_summed(tmp_path: Path) -> None:
    chart, definitions, sums = artifacts(ROOT, tmp_path)
    listed = dict(reversed(line.split("  ")) for line in sums.read_text().splitlines())
    names = [each["metadata"]["name"] for each in yaml.safe_load_all(definitions.read_text())]

    assert chart.name == f"firsttoken-{project_version(ROOT)}.tgz"
    assert listed == {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (chart, definitions)}
    assert names == [yaml.safe_load(file.read_text())["metadata"]["name"] for file in sorted(CRDS.glob("*.yaml"))]
    assert run_helm("template", "x", chart).returncode == 0
    with tarfile.open(chart) as packed:
        assert "firsttoken/README.md" in packed.getnames()


def test_what_a_catalog_shows_of_the_chart_is_true(tmp_path: Path) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    definitions = [yaml.safe_load(file.read_text()) for file in CRDS.glob("*.yaml")]
    shown = yaml.safe_load(chart["annotations"]["artifacthub.io/crds"])
    examples = tmp_path / "examples.yaml"
    examples.write_text(yaml.safe_dump_all(yaml.safe_load(chart["annotations"]["artifacthub.io/crdsExamples"])))
    read = load_documents(examples)

    assert {(each["kind"], each["name"], each["version"]) for each in shown} == {
        (each["spec"]["names"]["kind"], each["metadata"]["name"], version["name"])
        for each in definitions
        for version in each["spec"]["versions"]
    }
    assert len(read.deployments) == len(read.pools) == len(read.benchmarks) == 1
    assert chart["appVersion"] == chart["version"] == project_version(ROOT)
