"""Tests of a pool that is too small for those who share it: minutes each, as the load waits for what follows it."""

from __future__ import annotations

import pytest

from tests.on_demand import leave_out


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test-pool` runs them."""
    parser.addoption("--crowded-pool", action="store_true", help="also the pools that take minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `crowded_pool`, unless it is asked for."""
    leave_out(config, items, marked="crowded_pool", unless="--crowded-pool")
