"""An addition that has a file of its own also has its place in the table that makes it known (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType

from firsttoken_lab.replay import policies
from firsttoken_operator import families
from firsttoken_operator.decide import down
from firsttoken_sizing import engines
from tests.fixtures.source import parsed

ROOT = Path(__file__).parents[2]


def modules(package: ModuleType) -> list[ModuleType]:
    return [
        importlib.import_module(f"{package.__name__}.{each.name}") for each in pkgutil.iter_modules(package.__path__)
    ]


def test_each_engine_that_has_a_file_can_be_chosen() -> None:
    written = {module.SPEC.name for module in modules(engines) if hasattr(module, "SPEC")}

    assert written == {engine.value for engine in engines.Engine}


def test_each_metric_family_that_has_a_file_is_looked_for() -> None:
    members = [value for module in modules(families) for value in vars(module).values()]

    assert [
        each.name for each in members if isinstance(each, families.MetricFamily) and each not in families.FAMILIES
    ] == []


def test_each_rule_against_a_scale_down_is_asked() -> None:
    rules = {
        name
        for name, function in inspect.getmembers(down, inspect.isfunction)
        if function.__module__ == down.__name__ and list(inspect.signature(function).parameters) == ["step"]
    }
    asked = {rule.__name__ for rule in (*down.PRECONDITIONS, *down.SAFETY, *down.PACE)}

    assert rules - {down.veto.__name__} == asked


def test_each_policy_that_has_a_file_can_be_replayed() -> None:
    registry = ROOT / "operator/src/firsttoken_lab/replay/policies/registry.py"
    known = {node.module for node in ast.walk(parsed(registry.read_text())) if isinstance(node, ast.ImportFrom)}
    written = {
        module.__name__
        for module in modules(policies)
        for kind in vars(module).values()
        if inspect.isclass(kind) and kind.__module__ == module.__name__ and hasattr(kind, "desired")
    }

    assert len(written) > 5
    assert written <= known
