"""Signs of life of the watches that kopf keeps: it takes up one that breaks for ever, and never says that it is dead.

| a watch of kopf's | other requests | what then happens |
|---|---|---|
| tells nothing for 70 s | are answered | kopf takes it up again |
| told nothing for 236 s, refused or silent | are answered | the process ends with an error: its cache is frozen |
| the same | are not answered either | the process lives on and writes nothing; a reflector says when it is enough |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from firsttoken_operator.act.connection import WATCH_SILENCE_SECONDS
from firsttoken_operator.act.errors import Unavailable
from firsttoken_operator.run.reflector import LONGEST_OUTAGE_SECONDS

LOOK_SECONDS = 5.0
LONGEST_QUIET_SECONDS = LONGEST_OUTAGE_SECONDS + 2 * WATCH_SILENCE_SECONDS
"""An outage after which others are listed and watched again, and the time to a bookmark before and after it."""


class KopfWatches:
    """Time that each collection has been quiet while the server answered. `heard_seconds`: its last other answer."""

    def __init__(self, paths: Iterable[str], heard_seconds: Callable[[], float]) -> None:
        # NB: counted by looks, not by a clock: a process that was stopped has not been listening.
        self._quiet_seconds = dict.fromkeys(paths, 0.0)
        self._heard_seconds = heard_seconds
        self._heard_before = heard_seconds()
        self._was_answered = False

    def answered(self, path: str, status: int, *, is_watch: bool) -> None:
        """Take the beginning of an answer. A watch that is taken has told nothing yet; a page of a list has."""
        self._was_answered = True
        if status < 400 and not is_watch:
            self._note(path)

    def told(self, path: str) -> None:
        """Take a part of what a watch says."""
        self._was_answered = True
        self._note(path)

    async def run(self) -> None:
        """Look for ever. Raises `Unavailable` when a watch is dead and the server is not."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Count the time since the last look, and raise `Unavailable` as `run` does."""
        heard, before = self._heard_seconds(), self._heard_before
        is_answering, self._heard_before, self._was_answered = self._was_answered or heard > before, heard, False
        for path in self._quiet_seconds if is_answering else ():
            self._quiet_seconds[path] += LOOK_SECONDS
            if self._quiet_seconds[path] > LONGEST_QUIET_SECONDS:
                raise Unavailable(f"GET {path}: the watch has told nothing for {self._quiet_seconds[path]:.0f} s")

    def _note(self, path: str) -> None:
        if path in self._quiet_seconds:
            self._quiet_seconds[path] = 0.0
