"""Limits on what a namespace takes of an answer: where it is too much the largest give way and the others stay.

Any pod may expose any number of series, with labels of any length. What is counted here is bytes by namespace, and a
namespace that had to go is not asked about for some ticks: the others' answers would be too large with it.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable

MOST_BYTES = 64 * 1024 * 1024
"""Memory for one answer, and for what one source said at one tick: 5,000 pods with 25 buckets each."""
LEFT_SHARE = 7 / 8
"""Share of it in use after some gave way: not one by one, which takes long where there are many small ones."""
LEFT_OUT_SECONDS = 150.0
"""Time for which a namespace is not asked about: ten ticks by default."""
MOST_LEFT_OUT = 50
"""Names in a query: each has up to 63 characters, and some servers take no address that is longer than 8 KiB."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Shares:
    """Bytes by namespace. `overflowing` are those that had to go: nothing more of them is kept."""

    def __init__(self) -> None:
        self.overflowing: set[str] = set()
        self._seen: Counter[str] = Counter()
        self._kept = 0

    def add(self, namespace: str, size: int) -> list[str]:
        """Count what came, and name the namespaces of which all has to be dropped now."""
        self._seen[namespace] += size
        if namespace in self.overflowing:
            return []
        self._kept += size
        return [] if self._kept <= MOST_BYTES else self._give_way()

    def drop(self, namespaces: Iterable[str]) -> None:
        """Keep nothing of these, however little it is."""
        for namespace in set(namespaces) - self.overflowing:
            self.overflowing.add(namespace)
            self._kept -= self._seen[namespace]

    def loudest(self) -> frozenset[str]:
        """Name the largest namespaces, of which half of all came or more."""
        largest, left = set[str](), self._seen.total() / 2
        for namespace, size in self._seen.most_common():
            if left <= 0:
                break
            largest.add(namespace)
            left -= size
        return frozenset(largest)

    def _give_way(self) -> list[str]:
        gone = []
        for namespace, _ in self._seen.most_common():
            if self._kept <= LEFT_SHARE * MOST_BYTES:
                break
            if namespace not in self.overflowing:
                gone.append(namespace)
                self.drop([namespace])
        return gone


class LeftOut:
    """Namespaces that a source is not asked about for a while."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def names(self) -> frozenset[str]:
        """Names of now. The empty one stands for all names that Kubernetes does not allow."""
        now = self._clock()
        self._until = {name: until for name, until in self._until.items() if now < until}
        return frozenset(self._until)

    def add(self, namespaces: Iterable[str]) -> None:
        """Leave out these, too, from now on."""
        names = {name if _NAME.fullmatch(name) else "" for name in namespaces}
        new = sorted(names - self.names())[: MOST_LEFT_OUT - len(self._until)]
        self._until |= dict.fromkeys(new, self._clock() + LEFT_OUT_SECONDS)
