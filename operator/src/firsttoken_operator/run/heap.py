"""Heap of a process that keeps a million objects, makes few cycles and reads answers of megabytes.

Nearly everything is freed when its last reference goes. What Python looks for beyond that is cycles, by going through
all that is kept, and with thousands of resources it would do so several times a tick: a sixth of the CPU time, in
pauses of up to a second. The C library keeps a heap for each thread, and what an answer took of it stays there.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

YOUNG, MIDDLE, OLD = 20_000, 50, 10
"""New objects after which the young ones are looked through (a few MB), and how many times before the older ones are.

Chosen: about once in a tick of a thousand resources, and the older ones every few minutes.
"""
_ARENA_MAX, _MMAP_THRESHOLD = -8, -3
"""Parameters of glibc's mallopt(3)."""
LARGE_BYTES = 64 * 1024
"""Size from which on a block is given back to the system when it is freed: a piece of an answer."""


def tune() -> None:
    """Look for cycles less often and never in what was imported, and give large blocks back.

    Call it once, before any thread is started.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
    # NB: another C library has no such function.
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_ARENA_MAX, 1)
        libc.mallopt(_MMAP_THRESHOLD, LARGE_BYTES)
