"""Fleets that look at nothing: of one size, or after a schedule made beforehand, as for a known future."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from firsttoken_lab.replay.policies.view import View

SLOT_SECONDS = 60.0


class Schedule:
    """So many serving replicas in every minute; each is asked for `lead_seconds` before it has to serve."""

    interval_seconds = 15.0

    def __init__(self, name: str, replicas: NDArray[np.int64], lead_seconds: float) -> None:
        """`replicas`: a number >= 1 for each minute. `lead_seconds`: of one start; rounded up to the interval."""
        self.name = name
        self._replicas = replicas
        self._started = np.cumsum(np.maximum(0, np.diff(replicas, prepend=replicas[0])))
        self._lead_seconds = math.ceil(lead_seconds / self.interval_seconds) * self.interval_seconds
        # What the first minute needs, and what will be needed before anything could be started.
        self.initial = self._asked(0.0)

    def desired(self, view: View) -> int:
        """Ask for what serves now, and what has to start now to serve in time."""
        return self._asked(view.now_seconds)

    def _asked(self, now_seconds: float) -> int:
        last = len(self._replicas) - 1
        now, ahead = (min(last, int(at // SLOT_SECONDS)) for at in (now_seconds, now_seconds + self._lead_seconds))
        return int(self._replicas[now] + self._started[ahead] - self._started[now])


class Static:
    """The same number of replicas all the time."""

    interval_seconds = 3600.0

    def __init__(self, name: str, replicas: int) -> None:
        """`name`: which static fleet it is; `replicas`: its size."""
        self.name, self.initial = name, replicas

    def desired(self, view: View) -> int:
        """Size of the static fleet."""
        return self.initial
