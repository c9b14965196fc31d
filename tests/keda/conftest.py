"""Tests with the real KEDA: its programs take three minutes to build, and half a minute to follow anything."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test-keda` runs them."""
    parser.addoption("--real-keda", action="store_true", help="also what needs KEDA's own programs")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `real_keda`, unless it is asked for."""
    if config.getoption("--real-keda", default=False):
        return
    left_out = [item for item in items if item.get_closest_marker("real_keda")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
