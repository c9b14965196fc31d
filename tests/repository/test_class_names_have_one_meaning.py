"""Names of classes and types mean one thing in a package: a reader need not ask which of two it is."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.source import parsed

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "sizing/src/firsttoken_sizing",
    "operator/src/firsttoken_operator",
    "operator/src/firsttoken_lab",
    "benchmarks",
    "demo",
    "tools",
)


def is_of_a_type(name: str) -> bool:
    return name[0].isupper() and not name.isupper()


def meanings(module: Path) -> Iterator[tuple[str, str]]:
    """Each class and each alias of a type, with what it stands for: aliases of one definition mean the same."""
    for node in parsed(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, f"a class of {module.name}"
        elif isinstance(node, ast.Assign):
            yield from ((ast.unparse(t), ast.unparse(node.value)) for t in node.targets if is_of_a_type(ast.unparse(t)))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_a_type_has_one_meaning(package: str) -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for module in sorted((ROOT / package).rglob("*.py")):
        for name, meaning in meanings(module):
            if meaning not in found[name] or meaning.startswith("a class of "):
                found[name].append(meaning)

    assert found, "the package has classes"
    assert {name: of for name, of in found.items() if len(of) > 1} == {}
