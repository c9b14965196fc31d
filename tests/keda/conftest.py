"""Tests with the real KEDA: its programs take three minutes to build, and half a minute to follow anything."""

from __future__ import annotations

import pytest

from tests.on_demand import leave_out


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test-keda` runs them."""
    parser.addoption("--real-keda", action="store_true", help="also what needs KEDA's own programs")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `real_keda`, unless it is asked for."""
    leave_out(config, items, marked="real_keda", unless="--real-keda")
