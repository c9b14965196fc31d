"""Tests that are too long for `make test`: an option of pytest asks for them, and a make target of theirs gives it."""

from __future__ import annotations

import pytest


def leave_out(config: pytest.Config, items: list[pytest.Item], *, marked: str, unless: str) -> None:
    """Deselect the items with this mark where the option is not given."""
    if config.getoption(unless, default=False):
        return
    left_out = [item for item in items if item.get_closest_marker(marked)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
