from __future__ import annotations

import numpy as np
import pytest

from firsttoken_lab.replay import causal
from firsttoken_lab.replay.causal import Chooser, Moving, causal_bound, known_load
from firsttoken_lab.replay.load import costs
from firsttoken_lab.replay.moves import alike
from firsttoken_lab.replay.play import play
from firsttoken_lab.replay.policies.hpa import Hpa
from firsttoken_lab.replay.score import score
from firsttoken_lab.replay.series import Series
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.work import work_of
from tests.lab.replay.worlds import SLA, STEP, stage, traffic

WORK = work_of(STEP, Lengths(1000.0, 1000.0, 100.0), 16.0)
HOURS = 8
MINUTES = 60 * HOURS


def waves(minutes: int, period: int = 90) -> Moving:
    """Load between 1 and 5 replicas, again and again."""
    load = 3 - 2 * np.cos(2 * np.pi * np.arange(minutes) / period)
    return Moving(load, 60 * load)


def chooser(known: Moving, start_seconds: float = 180.0) -> Chooser:
    """A replica answers all up to 0.9 of what it carries, and nothing beyond."""

    def late(load: causal.Floats) -> causal.Floats:
        return np.clip((load - 0.9) * 20, 0.0, 1.0)

    return Chooser(known, (late,) * 8, start_seconds, 1)


@pytest.mark.parametrize("seen", [130, 250, 400])
def test_what_is_asked_for_depends_on_the_past_alone(seen: int) -> None:
    known = waves(MINUTES)
    other = Moving(known.replicas.copy(), known.requests.copy())
    other.replicas[seen:], other.requests[seen:] = 7.0, 420.0
    grid = chooser(Moving(np.append(known.replicas, 7.0), np.append(known.requests, 420.0)))

    before = grid.at(30.0)[0][:seen]

    assert chooser(other).at(30.0)[0][:seen].tolist() == before.tolist()


def test_the_minutes_that_are_taken_for_alike_are_over() -> None:
    log_load = np.log(waves(MINUTES).replicas)
    found = alike(log_load, np.array([1, 5]), 0.01, 0.0, 24, 16)
    now = np.arange(MINUTES)[:, np.newaxis]

    assert (found <= np.maximum(now - 24, -1)).all()
    assert (found[200:] >= 0).all()
    # One period ago the load moved as it does now.
    assert np.abs(log_load[found[300]] - log_load[300]).max() < 0.2


def test_a_wave_that_was_seen_before_is_met_in_time() -> None:
    known = waves(MINUTES)
    asked, expected = chooser(known).at(1e3)

    later = slice(MINUTES // 2, None)
    assert expected[later].sum() < 0.002 * known.requests[later].sum()
    assert asked[later].mean() < 1.5 * known.replicas[later].mean()


def test_a_dearer_miss_costs_more_replicas_and_fewer_misses() -> None:
    own = chooser(waves(MINUTES))
    (few, many_late), (many, few_late) = own.at(0.5), own.at(50.0)

    assert few.sum() < many.sum()
    assert many_late.sum() > few_late.sum()


def test_the_load_that_is_known_is_that_of_the_series() -> None:
    requests = traffic([(600.0, 2.0), (600.0, 6.0)])
    cost = costs(WORK, requests)
    series = Series(np.array([0.0, 599.0, 601.0, 1200.0]), np.array([2.0, 2.0, 6.0, 6.0]))
    drawn, recorded = (known_load(requests, cost, WORK, given) for given in (series, None))

    assert drawn.replicas[11] / drawn.replicas[5] == pytest.approx(3.0)
    assert drawn.requests[5] == pytest.approx(120.0)
    # Without the series it is the work of the minute before, which scatters.
    assert recorded.replicas[2:10].mean() == pytest.approx(drawn.replicas[5], rel=0.15)
    assert recorded.replicas[11:].mean() == pytest.approx(drawn.replicas[12], rel=0.15)


@pytest.mark.slow
def test_it_attains_what_is_asked_with_less_than_an_autoscaler_needs() -> None:
    wave = [(300.0, rate) for rate in (1.5, 4.0, 7.0, 4.0)] * 8
    requests = traffic(wave, seed=3)
    at = np.cumsum([0.0] + [seconds for seconds, _ in wave])
    rates = [rate for _, rate in wave]
    points = np.sort(np.concatenate((at[:-1], at[1:] - 1)))
    series = Series(points, np.repeat(rates, 2).astype(np.float64))
    known = known_load(requests, costs(WORK, requests), WORK, series)
    world = stage(slots=30, cold_start_seconds=120)

    began = float(at[len(at) // 2])
    bound = score(causal_bound(requests, world, known, SLA, 95.0, 1, 14, began, lambda _: None), SLA, 1, began)
    peers = [score(play(Hpa(target, 2, 14), requests, world), SLA, 1, began) for target in (3.0, 5.0, 8.0)]

    assert bound.attainment_percent >= 95
    for peer in peers:
        assert peer.gpu_hours > bound.gpu_hours or peer.attainment_percent < 95
