"""A pod that ends leaves its last request so much time, and no more than its server or its grace period does."""

from __future__ import annotations

import pytest

from firsttoken_operator.domain import Ending
from firsttoken_operator.runtimes.settings import Drain


def of(seconds: float) -> Drain:
    return Drain("--shutdown-timeout", seconds)


@pytest.mark.parametrize(
    ("ending", "seconds"),
    [
        pytest.param(Ending(60), 60, id="killed at its end"),
        pytest.param(Ending(60, 5), 55, id="of which it sleeps"),
        pytest.param(Ending(60, 5, of(45)), 45, id="the server's own limit"),
        pytest.param(Ending(60, 5, of(600)), 55, id="a limit that the grace period does not reach"),
        pytest.param(Ending(60, 5, of(0)), 0, id="a server that aborts"),
        pytest.param(Ending(60, 55, of(0)), 45, id="a server that aborts after a long sleep"),
        pytest.param(Ending(30, 45, of(10)), 20, id="a sleep that the grace period cuts"),
        pytest.param(Ending(60, None, of(0)), 60, id="a hook that may wait for the answers"),
    ],
)
def test_the_last_request_has_what_is_left(ending: Ending, seconds: float) -> None:
    assert ending.answer_seconds == seconds
