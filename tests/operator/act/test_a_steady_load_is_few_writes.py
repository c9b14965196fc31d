"""Statuses of a steady load: few in the first quarter of an hour, while all is learned, and then next to none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from firsttoken_operator.act.scale import ScaleResult, Write
from firsttoken_operator.act.scorecard import Look, Scorecard, advance
from firsttoken_operator.act.status import Answer, Observed, says_the_same, sizing_status, status_of
from firsttoken_operator.api.status import InferenceDeploymentStatus
from firsttoken_operator.domain import Metrics
from tests.operator.act.test_the_status_changes_only_when_it_must import DECLARED, SIZING
from tests.operator.decide.builders import SIZED, TICK_SECONDS, Fleet, late, metrics, resource, target

START = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
RATE = 19.0
"""Requests a second: 95 % of what four replicas carry, where most is learned of them."""
WINDOW_TICKS = 4
MINUTES = 45
MOST_IN_A_QUARTER = 6
"""First sight, the first figures of the scorecard, and what chance does."""


def windows(seed: int) -> list[Metrics]:
    """Independent arrivals, as overlapping windows of a minute see them, and as few late as fast replicas have."""
    random = np.random.default_rng(seed)
    came = random.poisson(RATE * TICK_SECONDS, round(MINUTES * 60 / TICK_SECONDS) + WINDOW_TICKS)
    sums = np.convolve(came, np.ones(WINDOW_TICKS), "valid")
    return [
        metrics(
            float(requests / (WINDOW_TICKS * TICK_SECONDS)),
            ttft=late(float(random.binomial(int(requests), 0.0005) / requests), float(requests)),
        )
        for requests in sums
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_steady_load_is_written_a_few_times_and_then_once_an_hour(seed: int) -> None:
    fleet, status, card, written = Fleet(4), InferenceDeploymentStatus(), Scorecard(START), list[float]()
    news = list[bool]()
    for number, seen in enumerate(windows(seed)):
        about, now = resource(target(fleet.replicas), seen), START + timedelta(seconds=TICK_SECONDS * number)
        made = fleet.tick(seen)
        card = advance(card, Look(now, about, made))
        answer = Answer(SIZED, sizing_status(SIZING), DECLARED)
        result = ScaleResult(Write.DONE, made.reason, "", made.to_replicas) if made.changes else ScaleResult(Write.NONE)
        new = status_of(status, Observed(about, made, result, answer, now, None, card))
        if new != status:
            written.append((now - START) / timedelta(minutes=1))
        news.append(new != status and not says_the_same(status, new))
        status = new

    assert news[0], "who is told for the first time is told what was decided"
    assert sum(news) < len(written), "the first figures are told after what was decided of all others"
    assert fleet.capacity_factor > 1.02, "something is learned all the time"
    assert sum(minute < 15 for minute in written) <= MOST_IN_A_QUARTER, written
    assert sum(minute >= 15 for minute in written) <= 2, written
