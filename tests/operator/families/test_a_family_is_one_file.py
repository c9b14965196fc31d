"""Names of series stand in the file of their family and nowhere else; a family has what everything reads of it."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest

from firsttoken_operator.families import EMULATED, FAMILIES, FRESHNESS, Metric, MetricFamily, Signal, TokenPart
from firsttoken_operator.observe.session import LONGEST_QUERY_CHARACTERS
from tests.fixtures.moving import recorded, series
from tests.fixtures.source import strings

HOME = re.compile(r"firsttoken_operator/families/\w+\.py")
PAGES = {
    "vLLM": "vllm", "NIM 1.x": "nim-1", "SGLang": "sglang", "trtllm-serve": "trtllm-serve",
    "Dynamo frontend": "dynamo-frontend", "Triton": "triton", "Triton TensorRT-LLM": "triton-tensorrt-llm",
    "Triton vLLM": "triton-vllm",
}  # fmt: skip
RENAMED = {"vllm:gpu_cache_usage_perc"}
"""Read where an older version of a server published it."""


def asked(family: MetricFamily) -> dict[str, set[str]]:
    """The series that the queries of a family read, each with the labels that it is selected by."""
    found: dict[str, set[str]] = {}
    for name, matchers in re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", " ".join(family.queries(60.0, 40.0))):
        found.setdefault(name, set()).update(re.findall(r"(\w+)[!=]~?", matchers))
    return found


NAMES = {name for family in FAMILIES for name in asked(family)} | {s.name for family in FAMILIES for s in family.page}


def bare(name: str) -> str:
    """The name of the histogram that a series may be a part of."""
    return re.sub("_(bucket|count|sum)$", "", name)


def test_no_series_is_named_outside_the_families() -> None:
    leaks = [(module, text) for module, text in strings() if not HOME.match(module) and any(n in text for n in NAMES)]

    assert leaks == []


def test_each_series_is_named_in_one_file() -> None:
    homes: dict[str, set[str]] = {}
    for module, text in strings():
        if HOME.match(module) and text in NAMES | {bare(name) for name in NAMES}:
            homes.setdefault(text, set()).add(module)

    assert {name for name in NAMES if name not in homes and bare(name) not in homes} == set()
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_server_publishes_what_is_asked_for_with_the_labels_that_select_it(family: MetricFamily) -> None:
    page = series(recorded(PAGES[family.name]))
    scraped = {"namespace", "pod"}

    assert asked(family).keys() - page.keys() - RENAMED == set()
    assert {
        name: labels - page[name] - scraped
        for name, labels in asked(family).items()
        if name in page and labels - page[name] - scraped
    } == {}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_tells_what_a_decision_cannot_do_without(family: MetricFamily) -> None:
    assert set(family.signals) >= {*FRESHNESS, Signal.ENDED, Signal.WAITING, Signal.WAITING_SLOPE}
    assert not any("WINDOW" in query for query in family.queries(60.0, 40.0))
    assert set(family.tokens) in (set(), set(TokenPart))
    assert len({series.metric for series in family.page}) == len(family.page)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_costs_at_most_two_queries_that_fit_into_an_address(family: MetricFamily) -> None:
    queries = family.queries(60.0, 52.5)

    assert len(queries) <= 2
    assert all(len(urlencode({"query": query, "timeout": 7.5})) <= LONGEST_QUERY_CHARACTERS for query in queries)


@pytest.mark.parametrize("family", EMULATED, ids=lambda family: family.name)
def test_an_emulated_engine_publishes_what_its_family_is_read_by(family: MetricFamily) -> None:
    read = [Metric.WAITING, Metric.TTFT]
    read += [Metric.RUNNING] if family.running else []
    read += [Metric.REQUEST_PROMPT_TOKENS, Metric.REQUEST_GENERATION_TOKENS] if family.tokens else []

    assert all(family.series(metric) for metric in read)
    assert family.series(Metric.TTFT).bounds == tuple(sorted(family.series(Metric.TTFT).bounds))


def test_families_are_told_apart_by_name_and_by_runtime() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    assert len({family.runtime for family in EMULATED}) == len(EMULATED)
