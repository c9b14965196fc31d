"""The files of a release: the chart that Helm packages, the definitions in one file, and sums that hold."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import ROOT
from tests.helm.chart import CRDS, run_helm
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
