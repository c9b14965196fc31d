"""A namespace of several may be gone, and the rights in it: it is left out, and taken in when it is back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from firsttoken_operator.act.errors import ClusterError, Rejected, Unavailable
from firsttoken_operator.run import namespaces
from firsttoken_operator.run.namespaces import readable, until_readable
from firsttoken_operator.run.watches import WATCHED

OURS = WATCHED[0]
FORBIDDEN, BUSY = Rejected("403", 403), Unavailable("503")


class Server:
    """Refuses to list what is in some namespaces."""

    def __init__(self, **refusals: ClusterError) -> None:
        self.refusals = refusals
        self.asked: list[str] = []

    async def page(self, path: str, query: Mapping[str, str], largest_bytes: float, *, metadata_only: bool) -> str:
        assert query == {"limit": "1"}
        name = path.split("/namespaces/")[1].split("/")[0]
        self.asked.append(name)
        if name in self.refusals:
            raise self.refusals[name]
        return "{}"


async def test_only_a_refusal_leaves_a_namespace_out() -> None:
    server = Server(gone=FORBIDDEN, slow=BUSY)

    assert await readable(server, OURS, ("a", "gone", "slow")) == ("a", "slow")
    assert await readable(server, OURS, ()) == ()


async def test_it_is_told_when_one_of_them_may_be_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(namespaces, "LOOK_SECONDS", 0.0)
    server = Server(gone=FORBIDDEN, away=FORBIDDEN)
    waiting = asyncio.create_task(until_readable(server, OURS, ("gone", "away")))
    while len(server.asked) < 6:
        await asyncio.sleep(0)

    assert not waiting.done()
    del server.refusals["away"]
    await waiting
    assert "has rights now in: namespaces away" in caplog.text
