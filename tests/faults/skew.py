"""A process whose clock is wrong: Python tells it a time of day that is so many seconds off; durations are right."""

from __future__ import annotations

import os
from pathlib import Path

TWENTY_MINUTES = 1200.0
_SHIFT = """
import datetime
import os
import time

AHEAD_SECONDS = float(os.environ["CLOCK_AHEAD_SECONDS"])
right, right_ns = time.time, time.time_ns
time.time = lambda: right() + AHEAD_SECONDS
time.time_ns = lambda: right_ns() + round(AHEAD_SECONDS * 1e9)


class Shifted(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls):
        return cls.fromtimestamp(time.time(), datetime.timezone.utc).replace(tzinfo=None)


datetime.datetime = Shifted
"""


def ahead(folder: Path, seconds: float) -> dict[str, str]:
    """Environment of a Python process whose clock is so far ahead; behind, where it is negative."""
    (folder / "sitecustomize.py").write_text(_SHIFT)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), "CLOCK_AHEAD_SECONDS": str(seconds)}
