"""`kubectl wait` ends with an error where a definition has no status yet; what waits here does not."""

from __future__ import annotations

import pytest

from tools.cluster import wait_until_established


def test_it_waits_for_the_first_and_for_each() -> None:
    said = iter(["", "\n", "True\n\n", "True\nFalse\n", "True\nTrue\n", "asked once too often"])
    wait_until_established(lambda *arguments: next(said))

    assert next(said) == "asked once too often"


def test_it_gives_up() -> None:
    with pytest.raises(TimeoutError, match="every custom resource definition established"):
        wait_until_established(lambda *arguments: "True\n\n", seconds=0.05)
