"""Traffic made up for what recordings of minutes do not show: steps, bursts, metrics that fail, tiny fleets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from firsttoken_lab.replay.series import Series

_MINUTE, _HOUR = 60.0, 3600.0


@dataclass(frozen=True, slots=True)
class Episode:
    """Straight lines between (seconds, requests a second), and when metrics are out (from, to; seconds)."""

    name: str
    what: str
    points: tuple[tuple[float, float], ...]
    metric_outages: tuple[tuple[float, float], ...] = ()

    @property
    def series(self) -> Series:
        """Rates of the episode as a trace."""
        at, rates = zip(*self.points, strict=True)
        return Series(np.array(at), np.array(rates))


def _low_day() -> tuple[tuple[float, float], ...]:
    """A day between 1.6 and 8.4 requests a second, in steps of 10 minutes."""
    return tuple(
        (float(at), 5.0 - 3.4 * math.cos(2 * math.pi * at / (24 * _HOUR))) for at in range(0, 24 * 3600 + 1, 600)
    )


EPISODES = (
    Episode(
        "step",
        "x 3 in 10 s, for an hour",
        ((0, 8), (_HOUR, 8), (_HOUR + 10, 24), (2 * _HOUR, 24), (2 * _HOUR + 10, 8), (3 * _HOUR, 8)),
    ),
    Episode(
        "burst",
        "x 4 for 3 minutes",
        ((0, 8), (_HOUR, 8), (_HOUR + 5, 32), (_HOUR + 185, 32), (_HOUR + 190, 8), (2 * _HOUR, 8)),
    ),
    Episode(
        "outage",
        "metrics are out for 20 minutes of a rise to 3 times the load",
        ((0, 8), (_HOUR, 8), (_HOUR + 40 * _MINUTE, 24), (3 * _HOUR, 24)),
        ((_HOUR + 10 * _MINUTE, _HOUR + 30 * _MINUTE),),
    ),
    Episode("small-fleet", "a day of one or two replicas", _low_day()),
)
