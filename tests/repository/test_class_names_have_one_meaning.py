"""A class name means one thing in a package: who reads it somewhere need not ask which of two it is."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

from tests.fixtures.source import modules

PACKAGES = ("firsttoken_sizing", "firsttoken_operator", "firsttoken_lab")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_class_name_is_defined_once(package: str) -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for module, tree in modules():
        if module.startswith(f"{package}/"):
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    homes[node.name].append(module)

    assert homes, "the package has classes"
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
