"""GPUs that are rented for as long as replicas need them, in parts of one replica: they come late and go late.

As a cluster autoscaler does it: a part is ordered when a pod waits for one, comes after the time that a new node takes,
and is given back when it was idle for long. Some are kept idle, as pods of a low priority do that any other may push
away: a replica that gets one of those need not wait for a node. Several deployments may share them.
"""

from __future__ import annotations

import math


class RentedGPUs:
    """Parts of one replica each. They are billed from when they have come until they are given back."""

    def __init__(
        self, provisioning_seconds: float, idle_seconds: float = 600.0, warm: int = 0, from_seconds: float = 0.0
    ) -> None:
        """`idle_seconds`: after so many an idle part goes. `warm`: parts that are kept idle.

        `from_seconds`: the bill begins there, and what was the most.
        """
        self._provisioning_seconds, self._idle_seconds, self._warm = provisioning_seconds, idle_seconds, warm
        self._from_seconds = from_seconds
        self._used: list[float] = []
        """Time at which each part in use came, or comes."""
        self._idle: list[tuple[float, float]] = [(-math.inf, 0.0)] * warm
        """Time since which each idle part is so, and when it came; of one that is on its way both are when it comes."""
        self._billed_seconds = 0.0
        self.most = 0
        """The most parts that were there or on their way at any time."""
        self._count(0.0)

    def begin(self, parts: int) -> None:
        """Put so many into use that are there from the beginning."""
        self._used += [0.0] * parts
        self._count(0.0)

    def take(self, now_seconds: float) -> float:
        """Take a part for a replica; seconds until it is there."""
        there = [part for part in self._idle if part[1] <= now_seconds]
        # The one that was used last, so that the others grow old; else the one that comes first.
        best = max(there) if there else min(self._idle, key=lambda part: part[1], default=None)
        if best is None:
            came = now_seconds + self._provisioning_seconds
        else:
            self._idle.remove(best)
            came = best[1]
        self._used.append(came)
        self._count(now_seconds)
        return max(0.0, came - now_seconds)

    def give_back(self, now_seconds: float) -> None:
        """Let a replica go; the part stays for a while.

        NB: it is the last that came or comes, whichever the replica had: one that waits for a node gets what is free.
        """
        came = max(self._used)
        self._used.remove(came)
        self._idle.append((max(came, now_seconds), came))

    def advance(self, now_seconds: float) -> None:
        """Order what is lacking of those that are kept idle, and give back what was idle for long."""
        while len(self._idle) < self._warm:
            came = now_seconds + self._provisioning_seconds
            self._idle.append((came, came))
        self._count(now_seconds)
        while len(self._idle) > self._warm:
            oldest = min(self._idle)
            if oldest[0] + self._idle_seconds > now_seconds:
                return
            self._idle.remove(oldest)
            self._billed_seconds += self._since(oldest[1], now_seconds)

    def billed_seconds(self, now_seconds: float) -> float:
        """Part-seconds so far."""
        came = (*self._used, *(came for _, came in self._idle))
        return self._billed_seconds + sum(self._since(each, now_seconds) for each in came)

    def _since(self, came_seconds: float, now_seconds: float) -> float:
        return max(0.0, now_seconds - max(came_seconds, self._from_seconds))

    def _count(self, now_seconds: float) -> None:
        if now_seconds >= self._from_seconds:
            self.most = max(self.most, len(self._used) + len(self._idle))
