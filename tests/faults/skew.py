"""A process whose clock is wrong: libfaketime has it believe another time of day; durations are right."""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass
from pathlib import Path

TWENTY_MINUTES = 1200.0
_LIBRARY = "vendor/libfaketime/src/libfaketime.so.1"


@dataclass(frozen=True, slots=True)
class WrongClock:
    """The clock of processes that are started with `environment`; it may be set while they run."""

    file: Path

    def set(self, ahead_seconds: float) -> None:
        """So far ahead from the next second on; behind, where it is negative."""
        self._tell(f"{ahead_seconds:+.3f}")

    def stop(self) -> None:
        """It stands still."""
        self._tell(time.strftime("%Y-%m-%d %H:%M:%S"))

    def _tell(self, text: str) -> None:
        made = self.file.with_suffix(".new")
        made.write_text(f"{text}\n")
        made.replace(self.file)

    @property
    def environment(self) -> dict[str, str]:
        """Variables that a process is started with. Its children have the same clock."""
        # NB: not imported, which would patch this process; only its library is wanted.
        found = importlib.util.find_spec("libfaketime")
        assert found is not None
        assert found.origin is not None
        return {
            "LD_PRELOAD": str(Path(found.origin).parent / _LIBRARY), "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_CACHE_DURATION": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }  # fmt: skip


def wrong_clock(folder: Path, ahead_seconds: float) -> WrongClock:
    """A clock that is so far ahead, kept in a file of this folder."""
    clock = WrongClock(folder / "clock")
    clock.set(ahead_seconds)
    return clock
