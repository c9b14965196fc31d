"""docs/reliability.md: all 81 cases are there, each with tests that exist, or with why there is none."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, table

PAGE = ROOT / "docs/reliability.md"
CASES = {"## Metrics": ("M", 26), "## Kubernetes' API": ("K", 22), "## The process and its tenants": ("P", 12),
         "## Workloads and the cluster": ("W", 21)}  # fmt: skip
STATES = ("in part", "not covered")


def rows() -> list[tuple[str, ...]]:
    return [row for heading in CASES for row in table(PAGE, heading)]


@cache
def functions_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def assert_tests_exist(cell: str) -> int:
    """Each test that a cell of a table names is there; how many it names."""
    named = re.findall(r"([\w/]+\.py)::(\w+)", cell)
    for file, test in named:
        path = ROOT / "tests" / file
        assert path.exists(), file
        assert test in functions_in(path), f"{file}::{test}"
    return len(named)


def state(held: str) -> str:
    return next((state for state in STATES if held.startswith(f"**{state}**: ")), "covered")


def test_all_cases_are_there_once_and_in_order() -> None:
    expected = [f"{letter}{number}" for letter, count in CASES.values() for number in range(1, count + 1)]

    assert len(expected) == 81
    assert [row[0] for row in rows()] == expected


@pytest.mark.parametrize("row", rows(), ids=lambda row: str(row[0]))
def test_a_case_is_held_by_tests_that_exist_or_says_why_not(row: tuple[str, ...]) -> None:
    _, case, then, held = row

    assert case
    assert then
    assert assert_tests_exist(held) or state(held) == "not covered"


def test_the_page_counts_right() -> None:
    states = [state(row[3]) for row in rows()]
    covered, part, none = (states.count(each) for each in ("covered", *STATES))

    assert f"Of 81 cases {covered} are covered, {part} in part, {none} not." in PAGE.read_text(encoding="utf-8")
