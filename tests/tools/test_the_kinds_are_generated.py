"""The kinds that the chart's `scale.kinds` takes by name are those that the operator knows."""

from __future__ import annotations

import json

from firsttoken_operator.domain.target_kinds import NAMED
from tests.helm.chart import CHART
from tools.kinds import FILE, text


def test_the_file_is_up_to_date() -> None:
    assert FILE.read_text() == text(), "run: python -m tools.kinds"


def test_the_schema_of_the_values_takes_their_names() -> None:
    scale = json.loads((CHART / "values.schema.json").read_text())["properties"]["scale"]
    by_name, _ = scale["properties"]["kinds"]["items"]["oneOf"]

    assert by_name["enum"] == list(NAMED)
