"""Fixtures that the tests of several formats need."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def edited(tmp_path: Path) -> Callable[[Path, Callable[[dict[str, Any]], object]], Path]:
    """Writes a copy of a JSON fixture after a change to its object."""

    def edit(original: Path, change: Callable[[dict[str, Any]], object]) -> Path:
        data = json.loads(original.read_text())
        change(data)
        path = tmp_path / "edited.json"
        path.write_text(json.dumps(data))
        return path

    return edit
