"""The map of forms in docs/develop.md: its classes are where it says, in that order; no other repeats their fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.fixtures.source import modules

PACKAGES = ("firsttoken_sizing", "firsttoken_operator")
DEVELOP = Path(__file__).parents[2] / "docs/develop.md"
SECTION = DEVELOP.read_text(encoding="utf-8").partition("\n## The forms a value takes\n")[2].partition("\n## ")[0]
MAPS = {
    title: re.findall(r"^\| (`.+?`) \| `(.+?)` \| .+ \|$", text, flags=re.M)
    for title, text in re.findall(r"^\*\*(.+?)\*\*(.+?)(?=^\*\*|^Fields|\Z)", SECTION, flags=re.M | re.S)
}
KEY = {"model", "gpu", "precision", "tensor_parallel", "pipeline_parallel"}
LATENCIES = {
    "ttft": ("ttft", "time_to_first_token"),
    "itl": ("itl", "inter_token_latency"),
    "end_to_end": ("end_to_end", "e2e"),
}


def names(text: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", text))


@cache
def classes() -> tuple[tuple[str, ast.ClassDef], ...]:
    """Every class of the two packages, with the path of its module below the package."""
    return tuple(
        (path, node)
        for module, tree in modules()
        for package, _, path in (module.partition("/"),)
        if package in PACKAGES
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )


@cache
def named() -> tuple[set[str], ...]:
    """The names that each module uses or defines."""
    return tuple(
        {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        | {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        for _, tree in modules()
    )


def fields(node: ast.ClassDef) -> set[str]:
    return {
        part.target.id for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }


def latencies(node: ast.ClassDef) -> set[str]:
    return {latency for name in fields(node) for latency, spellings in LATENCIES.items() if name.startswith(spellings)}


def carried(forms: set[str]) -> set[str]:
    """These forms, and the classes that the map leaves out because they only hold them."""
    held = dict(forms_held())
    found = set(forms)
    while new := {holder for holder, parts in held.items() if parts & found} - found:
        found |= new
    return found


def forms_held() -> Iterator[tuple[str, set[str]]]:
    """The classes that only hold forms, with the names in the annotations of their fields."""
    holders = names(SECTION.partition("only holds")[2].partition("is left out")[0])
    for _, node in classes():
        if node.name in holders:
            parts = (part.annotation for part in node.body if isinstance(part, ast.AnnAssign))
            yield node.name, {n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)}


def listed(title: str) -> set[str]:
    """The classes that the map allows to declare the fields of `title`."""
    row = re.search(rf"^\| {re.escape(title)} \| (.+) \|$", SECTION, flags=re.M)
    assert row is not None
    return names(row[1])


def test_no_value_takes_more_forms_than_it_needs() -> None:
    """They were 8, 13 and, of a configuration's key alone, 5 once."""
    assert {title: len(rows) for title, rows in MAPS.items()} == {
        "`spec.sla.timeToFirstToken`": 7,
        "A Prometheus sample": 10,
        "A profile point": 10,
    }
    assert len(listed("a configuration")) == 4


@pytest.mark.parametrize("value", MAPS)
def test_every_form_is_a_class_of_the_named_file(value: str) -> None:
    there = {(path, node.name) for path, node in classes()}

    assert [(path, name) for form, path in MAPS[value] for name in names(form) if (path, name) not in there] == []


@pytest.mark.parametrize("value", MAPS)
def test_each_form_is_made_of_the_one_before(value: str) -> None:
    """Some module names both: the one where one becomes the other."""
    steps = [(carried(names(before)), names(after)) for (before, _), (after, _) in pairwise(MAPS[value])]

    assert [step for step in steps if not any(step[0] & used and step[1] & used for used in named())] == []


def test_no_other_class_declares_the_fields_of_a_configuration() -> None:
    assert {node.name for _, node in classes() if len(fields(node) & KEY) >= 3} == listed("a configuration")


def test_no_other_class_declares_the_latencies_of_a_point() -> None:
    assert {node.name for _, node in classes() if len(latencies(node)) >= 2} == listed("the latencies of a point")
