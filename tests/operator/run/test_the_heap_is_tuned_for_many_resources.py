"""The heap of a process with many resources: cycles are looked for rarely, and still found."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc, weakref
from firsttoken_operator.run.heap import YOUNG, tune

class Cycle:
    def __init__(self):
        self.own = self

tune()
begun = gc.get_stats()[0]["collections"]
alive = [weakref.ref(Cycle()) for _ in range(3 * YOUNG)]
collections = gc.get_stats()[0]["collections"] - begun
print(gc.get_freeze_count() > 1_000, collections < 20, sum(r() is not None for r in alive) < 2 * YOUNG)
"""


def test_cycles_are_looked_for_rarely_and_found() -> None:
    # NB: in a process of its own, because what is frozen stays so.
    told = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60)

    assert told.stdout.split() == ["True", "True", "True"]
