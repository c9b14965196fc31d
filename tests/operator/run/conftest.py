"""Fixtures that every test of the process has in common."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.operator.run.looped import QUEUES


@pytest.fixture(autouse=True)
async def _queues_are_closed() -> AsyncIterator[None]:
    """A queue that is left alone starts its next write while the event loop is being closed, and nothing awaits it."""
    yield
    while QUEUES:
        await QUEUES.pop().close()
