"""Tests with real servers: Triton always; vLLM (6 GB, minutes to start) and AIPerf where they are asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from firsttoken_operator.observe.prometheus import PrometheusSource, SourceConfig
from tests.on_demand import leave_out
from tools.cluster import Prometheus


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make engines` runs them."""
    parser.addoption("--every-engine", action="store_true", help="also what is left to `make engines`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `engines`, unless it is asked for."""
    leave_out(config, items, marked="engines", unless="--every-engine")


@pytest.fixture
async def source(prometheus: Prometheus) -> AsyncIterator[PrometheusSource]:
    """The operator's connection to the Prometheus of the module."""
    source = PrometheusSource(SourceConfig("default", prometheus.url), deadline_seconds=5.0)
    yield source
    source.close()
