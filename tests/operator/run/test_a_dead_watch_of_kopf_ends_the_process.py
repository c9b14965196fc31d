"""Watches that kopf keeps: one that is dead ends the process; a server that answers nothing is waited for."""

from __future__ import annotations

import pytest

from firsttoken_operator.act.errors import Unavailable
from firsttoken_operator.run.kopf_watches import LOOK_SECONDS, KopfWatches

PATH, QUIET = "/apis/firsttoken.dev/v1alpha1/inferencedeployments", "/apis/firsttoken.dev/v1alpha1/gpupools"
LONGEST = pytest.approx(236.0, abs=LOOK_SECONDS)


class World:
    """A clock, and a server that answers other requests or not."""

    def __init__(self) -> None:
        self.now = self.heard = 1000.0
        self.answers = True
        self.watches = KopfWatches([PATH, QUIET], lambda: self.heard)

    def look(self) -> None:
        """Pass the time of one look; the second collection hears a bookmark each minute, as a quiet one does."""
        self.now += LOOK_SECONDS
        if self.answers:
            self.heard = self.now
            if self.now % 60 == 0:
                self.watches.told(QUIET)
        self.watches.look()

    def ended_after(self, most: float) -> float | None:
        """Time until the process ends; None: it lives for `most` seconds."""
        began = self.now
        while self.now - began < most:
            try:
                self.look()
            except Unavailable:
                return self.now - began
        return None


@pytest.mark.parametrize("status", [503, 403, 200], ids=["refused", "forbidden", "taken and silent"])
def test_one_that_tells_nothing_ends_it_while_others_are_answered(status: int) -> None:
    world = World()
    world.watches.told(PATH)
    world.watches.answered(PATH, status, is_watch=True)

    assert world.ended_after(600.0) == LONGEST


@pytest.mark.parametrize("hears", ["a bookmark", "a list"])
def test_one_that_hears_anything_lives(hears: str) -> None:
    world = World()
    for _ in range(100):
        if hears == "a bookmark":
            world.watches.told(PATH)
        else:
            world.watches.answered(PATH, 200, is_watch=False)
        assert world.ended_after(60.0) is None


def test_a_server_that_answers_nothing_is_waited_for() -> None:
    """And for the bookmark that comes a minute after it is back, however long it was away."""
    world = World()
    assert world.ended_after(60.0) is None
    world.answers = False
    assert world.ended_after(3600.0) is None
    world.answers = True
    assert world.ended_after(60.0) is None


def test_refusals_are_answers_of_a_server_that_is_there() -> None:
    world = World()
    world.answers, ended = False, None
    while ended is None and world.now < 2000.0:
        world.watches.answered(PATH, 503, is_watch=True)
        ended = world.ended_after(LOOK_SECONDS)

    assert world.now - 1000.0 == LONGEST


def test_a_process_that_was_stopped_was_not_listening() -> None:
    world = World()
    world.now = world.heard = world.now + 3600.0

    assert world.ended_after(160.0) is None


def test_what_is_not_watched_is_nothing_to_it() -> None:
    world = World()
    world.watches.answered("/apis/firsttoken.dev/v1alpha1", 200, is_watch=False)
    world.watches.told("/api/v1/pods")

    assert world.ended_after(600.0) == LONGEST
