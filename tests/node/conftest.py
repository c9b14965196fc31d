"""A node with the built image; skipped where this machine cannot run one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.conftest import image  # noqa: F401  # the same fixture
from tests.node.stage import Stage, staged
from tools.image.build import Image
from tools.node.node import missing


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make node` plays everything."""
    parser.addoption("--whole-node", action="store_true", help="also what `make test` leaves out of a real node")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `whole_node`, unless it is asked for."""
    if config.getoption("--whole-node", default=False):
        return
    left_out = [item for item in items if item.get_closest_marker("whole_node")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="module")
def stage(control_plane: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A node with emulated servers, Prometheus and load, for this module."""
    if reason := missing():
        pytest.skip(f"no node runs here: {reason}")
    built: Image = request.getfixturevalue("image")
    failed_before = request.session.testsfailed
    with staged(built) as made:
        yield made
        print("\n".join(made.trace))
        if request.session.testsfailed > failed_before:
            made.node.keep_logs()
