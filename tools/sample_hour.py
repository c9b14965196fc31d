"""Write the sample hour of `firsttoken replay`: a wave from a quiet minute to a busy one and back, with a burst in it.

    .venv/bin/python -m tools.sample_hour

Made up here; nothing in it was recorded. Rates are shares of the busiest minute's, which the replay takes for the
declared peak.
"""

from __future__ import annotations

import math
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "operator/src/firsttoken_lab/replay/sample-hour.csv"
MINUTES = 60
QUIET, BUSY, BURST = 0.05, 0.45, 1.0
BURST_MINUTES = range(38, 42)


def share(minute: int) -> float:
    """Rate at this minute."""
    if minute in BURST_MINUTES:
        return BURST
    return QUIET + (BUSY - QUIET) * (1 - math.cos(2 * math.pi * minute / MINUTES)) / 2


def text() -> str:
    """The whole file."""
    return "t,rps\n" + "".join(f"{60 * minute},{share(minute):.3f}\n" for minute in range(MINUTES + 1))


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
