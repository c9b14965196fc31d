"""The chart's dashboards are what the generator writes, and ask for metrics that there are."""

from __future__ import annotations

import json
import re

import pytest

from firsttoken_operator.families import FAMILIES
from firsttoken_operator.run.metrics import OperatorMetrics
from tests.e2e.panels import questions
from tools.dashboards import FOLDER, boards

NAMES = sorted(boards())


def test_the_files_are_up_to_date() -> None:
    assert {file.name: file.read_text() for file in FOLDER.iterdir()} == boards(), "run: python -m tools.dashboards"


@pytest.mark.parametrize("name", NAMES)
def test_every_metric_of_a_query_exists(name: str) -> None:
    published = {each for names in OperatorMetrics().registry._collector_to_names.values() for each in names}
    queries = " ".join(query for family in FAMILIES for query in family.queries(60.0, 40.0))
    engines = {name.removesuffix("_count") for name in re.findall(r"([a-z_:]+)\{", queries)}
    asked = " ".join(questions(json.loads(boards()[name])).values())
    found = set(re.findall(r"\b(firsttoken_\w+)", asked))

    assert found, "no query"
    assert found <= published
    assert {of.removesuffix("_count") for of in re.findall(r"\b([a-z_:]+)\{", asked)} - published <= engines | {""}


@pytest.mark.parametrize("name", NAMES)
def test_panels_have_a_title_a_text_a_source_and_a_place_of_their_own(name: str) -> None:
    panels = json.loads(boards()[name])["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}

    assert len(places) == len(panels) == len({panel["title"] for panel in panels})
    for panel in panels:
        assert panel["description"]
        assert {panel["datasource"]["uid"], *(target["datasource"]["uid"] for target in panel["targets"])} == {
            "${datasource}"
        }


def test_scalings_are_marks_at_their_time_with_their_reason() -> None:
    (marks,) = json.loads(boards()["deployment.json"])["annotations"]["list"]

    assert marks["useValueForTime"]
    assert marks["expr"].endswith("* 1000"), "Grafana's times are milliseconds"
    assert marks["textFormat"] == "{{reason}}"
