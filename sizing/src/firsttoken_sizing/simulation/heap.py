"""A binary heap in two arrays, of pairs (key, item) with the smallest key on top: `heapq` for compiled code."""

from __future__ import annotations

from firsttoken_sizing.simulation.compiled import compiled
from firsttoken_sizing.simulation.state import Floats, Integers


@compiled
def heap_push(keys: Floats, items: Integers, count: int, key: float, item: int) -> None:
    """Add a pair to a binary heap of `count` pairs (smallest key on top); the caller counts."""
    at = count
    while at > 0:
        parent = (at - 1) >> 1
        if keys[parent] <= key:
            break
        keys[at] = keys[parent]
        items[at] = items[parent]
        at = parent
    keys[at] = key
    items[at] = item


@compiled
def heap_take(keys: Floats, items: Integers, count: int, at: int) -> int:
    """Take the item at a place (0: the smallest key) of a heap of `count` > `at` pairs; the caller counts."""
    taken = items[at]
    last = count - 1
    key, item = keys[last], items[last]
    while at > 0 and keys[(at - 1) >> 1] > key:
        parent = (at - 1) >> 1
        keys[at] = keys[parent]
        items[at] = items[parent]
        at = parent
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and keys[child + 1] < keys[child]:
            child += 1
        if key <= keys[child]:
            break
        keys[at] = keys[child]
        items[at] = items[child]
        at = child
    keys[at] = key
    items[at] = item
    return int(taken)
