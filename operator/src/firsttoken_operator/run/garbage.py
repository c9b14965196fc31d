"""Collection of garbage in a process that keeps a million objects and makes few cycles.

Nearly everything is freed when its last reference goes. What Python looks for beyond that is cycles, by going through
all that is kept, and with thousands of resources it would do so several times a tick: a sixth of the CPU time, in
pauses of up to a second.
"""

from __future__ import annotations

import gc

YOUNG, MIDDLE, OLD = 20_000, 50, 10
"""New objects after which the young ones are looked through (a few MB), and how many times before the older ones are.

Chosen: about once in a tick of a thousand resources, and the older ones every few minutes.
"""


def collect_rarely() -> None:
    """Look for cycles less often, and never in what was imported. Call it once, before anything runs."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
