"""docs/reliability.md: all 81 cases are there, each with tests that exist, or with why there is none."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, table
from tests.fixtures.source import parsed

PAGE = ROOT / "docs/reliability.md"
CASES = {"## Metrics": ("M", 26), "## Kubernetes' API": ("K", 22), "## The process and its tenants": ("P", 12),
         "## Workloads and the cluster": ("W", 21)}  # fmt: skip
STATES = ("in part", "not covered")


def rows() -> list[tuple[str, ...]]:
    return [row for heading in CASES for row in table(PAGE, heading)]


@cache
def functions_in(file: Path) -> set[str]:
    tree = parsed(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def assert_tests_exist(cell: str) -> int:
    """Each test that a cell of a table names is there; how many it names."""
    named = re.findall(r"([\w/]+\.py)::(\w+)", cell)
    for file, test in named:
        path = ROOT / "tests" / file
        assert path.exists(), file
        assert test in functions_in(path), f"{file}::{test}"
    return len(named)


@cache
def left_out_of_make_test(file: Path) -> frozenset[str]:
    """Tests of a file of which every variant is marked `every_fault`."""
    tree = parsed(file.read_text(encoding="utf-8"))
    marks = {"pytest.mark.every_fault"}
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.value) in marks:
            marks |= {ast.unparse(target) for target in node.targets}
    whole = any(
        isinstance(node, ast.Assign)
        and "pytestmark" in map(ast.unparse, node.targets)
        and "every_fault" in ast.unparse(node)
        for node in tree.body
    )
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(f.name for f in functions if whole or any(ast.unparse(d) in marks for d in f.decorator_list))


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


def test_what_make_test_leaves_out_is_marked() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`( \(long\))?", PAGE.read_text(encoding="utf-8"))
    said = {(file, test) for file, test, mark in named if mark}
    unsaid = {(file, test) for file, test, mark in named if not mark}
    left_out = {(file, test) for file, test in said | unsaid if test in left_out_of_make_test(ROOT / "tests" / file)}

    assert left_out
    assert said == left_out
    assert not unsaid & left_out
