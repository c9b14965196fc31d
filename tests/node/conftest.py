"""A node with the built image; skipped where this machine cannot run one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.conftest import image  # noqa: F401  # the same fixture
from tests.node.stage import Stage, staged
from tools.image.build import Image
from tools.node.node import missing


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
