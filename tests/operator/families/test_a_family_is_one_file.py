"""Names of series stand in the file of their family and nowhere else; a family has what everything reads of it."""

from __future__ import annotations

import re

import pytest

from firsttoken_operator.families import FAMILIES, Metric, MetricFamily, Signal, TokenPart
from tests.fixtures.source import strings

HOME = re.compile(r"firsttoken_operator/families/\w+\.py")
NAMES = {series.name for family in FAMILIES for series in family.page}


def test_no_series_is_named_outside_the_families() -> None:
    leaks = [(module, text) for module, text in strings() if not HOME.match(module) and any(n in text for n in NAMES)]

    assert leaks == []


def test_each_series_is_named_in_the_file_of_its_family() -> None:
    homes: dict[str, set[str]] = {}
    for module, text in strings():
        if HOME.match(module) and text in NAMES:
            homes.setdefault(text, set()).add(module)

    assert homes.keys() == NAMES
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_has_every_signal_and_every_part(family: MetricFamily) -> None:
    assert all("WINDOW" not in family.query(signal, 60.0, 40.0) for signal in Signal)
    assert set(family.tokens) == set(TokenPart)
    assert len({series.metric for series in family.page}) == len(family.page)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_publishes_what_live_and_past_queries_ask_for(family: MetricFamily) -> None:
    read = (Metric.RUNNING, Metric.WAITING, Metric.TTFT, Metric.REQUEST_PROMPT_TOKENS, Metric.REQUEST_GENERATION_TOKENS)

    assert all(family.series(metric) for metric in read)
    assert family.series(Metric.TTFT).bounds == tuple(sorted(family.series(Metric.TTFT).bounds))


def test_families_are_told_apart_by_name_and_by_runtime() -> None:
    assert len({family.name for family in FAMILIES}) == len({family.runtime for family in FAMILIES}) == len(FAMILIES)
