"""Faults that every run of the tests plays, and the stage that they share."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.faults.proxy import FaultProxy
from tests.faults.stage import Stage, staged
from tests.on_demand import leave_out

MOST_REQUESTS = 500
"""So many are shown of a test that failed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test-faults` plays everything."""
    parser.addoption("--every-fault", action="store_true", help="also the faults that `make test` leaves out")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `every_fault`, unless it is asked for."""
    leave_out(config, items, marked="every_fault", unless="--every-fault")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the requests of a test that failed with its report."""
    report = yield
    if report.failed:
        for proxy in FaultProxy.running:
            report.sections.append((f"requests at {proxy.url}", proxy.told(MOST_REQUESTS)))
    return report


@pytest.fixture(scope="module")
def stage(control_plane: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The operator behind a proxy, with a fresh cluster, for this module."""
    with staged(tmp_path_factory.mktemp("faults")) as made:
        yield made
