"""The public surface of the sizing: every name is there, and nothing is imported for a name that is not used."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import firsttoken_sizing


def test_every_public_name_comes_from_the_module_it_is_said_to() -> None:
    said = [(module, name) for module, names in firsttoken_sizing._MODULES.items() for name in names]

    assert sorted(name for _, name in said) == sorted(firsttoken_sizing.__all__)
    for module, name in said:
        home = importlib.import_module(f"firsttoken_sizing.{module}")
        assert getattr(firsttoken_sizing, name) is getattr(home, name)


def test_a_name_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        firsttoken_sizing.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("firsttoken_sizing.traffic", ("numpy", "scipy")),
        ("firsttoken_operator.api.errors", ("pydantic", "numpy", "yaml")),
        ("firsttoken_operator.cli", ("numpy", "pydantic", "kubernetes", "rich")),
    ],
)
def test_a_light_module_does_not_wait_for_heavy_packages(module: str, heavy: tuple[str, ...]) -> None:
    program = f"import sys, {module}; print(*(set({heavy!r}) & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert found.stdout.split() == []
