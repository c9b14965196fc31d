"""docs/values.md is what values.yaml says, and docs/chart.md names values that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import ROOT
from tests.helm.chart import CHART
from tools.values import pages

VALUES = (CHART / "values.yaml").read_text()


@pytest.mark.parametrize(("page", "text"), pages(VALUES).items(), ids=lambda each: getattr(each, "name", ""))
def test_a_page_of_values_is_up_to_date(page: Path, text: str) -> None:
    assert page.read_text() == text, "run: python -m tools.values"


def test_every_value_has_a_place_in_the_schema_and_no_other_has() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    assert set(schema["properties"]) - {"global"} == set(yaml.safe_load(VALUES))


def test_the_comparison_names_values_that_there_are() -> None:
    text = (ROOT / "docs/chart.md").read_text().split("| Karpenter |\n")[1].split("\n\n")[0]
    rows = [line.split("|") for line in text.splitlines()][1:]
    defaults, named = yaml.safe_load(VALUES), list[str]()

    assert len(rows) >= 30
    for row in rows:
        for name in re.findall(r"`([a-z][A-Za-z.]*)`", row[2]):
            named.append(name)
            values = defaults
            for key in name.split("."):
                assert key in values, name
                values = values[key]
    assert len(named) >= 60
