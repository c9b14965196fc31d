"""I11: a constant load settles, however its arrivals scatter: at most one change in the three hours after.

NB: not met to the letter at two places, which have bounds of their own here: at one request a second the level is known
to about 5 %, and of twenty replicas one is within what is known of it at ten a second.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firsttoken_operator.domain import TtftInterval
from tests.operator.decide.builders import POLICY, SIZED, TICK_SECONDS, Fleet, metrics, table

pytestmark = pytest.mark.slow


HOUR = 3600.0
WINDOW_TICKS = 4
"""A rate window of 60 s."""


def changes(rate: float, replicas_needed: float, seed: int, hours: float = 4.0) -> int:
    """Changes after the first hour of Poisson arrivals that need so many replicas, not rounded."""
    sized = replace(SIZED, table=table(rate / replicas_needed))
    fleet = Fleet(replicas=int(np.ceil(replicas_needed)), sized=sized, policy=replace(POLICY, min_replicas=1))
    arrived = np.random.default_rng(seed).poisson(rate * TICK_SECONDS, int(hours * HOUR / TICK_SECONDS) + WINDOW_TICKS)
    counted = 0
    for at in range(WINDOW_TICKS, len(arrived)):
        seen = arrived[at - WINDOW_TICKS : at].sum() / (WINDOW_TICKS * TICK_SECONDS)
        changed = fleet.tick(metrics(seen, ttft=TtftInterval(60, 100, 80, 60 * seen))).changes
        counted += changed and at * TICK_SECONDS > HOUR
    return counted


@pytest.mark.parametrize("replicas_needed", [3.5, 9.5])
@pytest.mark.parametrize("rate", [10.0, 100.0])
def test_poisson_arrivals_at_a_constant_rate_change_the_size_once_at_most(rate: float, replicas_needed: float) -> None:
    assert changes(rate, replicas_needed, seed=1) <= 1


@pytest.mark.parametrize(
    ("rate", "replicas_needed", "most"),
    [(100.0, 20.3, 1), (10.0, 20.3, 4), (1.0, 3.5, 1), (1.0, 9.5, 6), (1.0, 20.3, 6)],
)
def test_chance_that_is_larger_than_a_replica_changes_the_size_seldom(
    rate: float, replicas_needed: float, most: int
) -> None:
    assert changes(rate, replicas_needed, seed=1) <= most
