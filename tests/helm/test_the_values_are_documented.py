"""docs/values.md is what values.yaml says, and docs/chart.md names values that there are."""

from __future__ import annotations

import json
import re

import yaml

from tests.docs.pages import ROOT
from tests.helm.chart import CHART
from tools.values import reference

VALUES = (CHART / "values.yaml").read_text()


def test_the_page_of_values_is_up_to_date() -> None:
    assert (ROOT / "docs/values.md").read_text() == reference(VALUES), "run: python -m tools.values > docs/values.md"


def test_every_value_has_a_place_in_the_schema_and_no_other_has() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    assert set(schema["properties"]) - {"global"} == set(yaml.safe_load(VALUES))


def test_the_comparison_names_values_that_there_are() -> None:
    text = (ROOT / "docs/chart.md").read_text().split("## Beside other charts")[1].split("\n## ")[0]
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")][1:]
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
