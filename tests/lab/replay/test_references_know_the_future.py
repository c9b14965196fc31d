from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_lab.replay.clairvoyant import DRAIN_SECONDS, clairvoyant, plan
from firsttoken_lab.replay.load import costs, rates_per_minute, replicas_needed
from firsttoken_lab.replay.play import play
from firsttoken_lab.replay.policies.hpa import Hpa
from firsttoken_lab.replay.policies.schedule import SLOT_SECONDS
from firsttoken_lab.replay.score import score
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.work import work_of
from tests.fixtures.hypothesis_scale import examples
from tests.lab.replay.worlds import SLA, STEP, stage, traffic

START_SECONDS = 120.0
WORK = work_of(STEP, Lengths(1000.0, 1000.0, 100.0), 16.0)


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=1, max_size=6), st.floats(0.1, 100))
def test_no_schedule_is_cheaper_than_the_plan(columns: list[list[int]], price: float) -> None:
    late = np.array(columns, float)

    def cost(schedule: tuple[int, ...]) -> float:
        change = np.diff(schedule)
        starts, drains = change[change > 0].sum(), -change[change < 0].sum()
        missed = late[np.arange(len(late)), np.array(schedule) - 1].sum()
        return float(SLOT_SECONDS * sum(schedule) + START_SECONDS * starts + DRAIN_SECONDS * drains + price * missed)

    found = tuple(plan(late, price, START_SECONDS).tolist())
    best = min(cost(schedule) for schedule in itertools.product((1, 2, 3), repeat=len(late)))
    assert cost(found) == pytest.approx(best)


@pytest.mark.slow
def test_it_reaches_the_target_with_less_gpu_time_than_any_target_of_an_autoscaler() -> None:
    requests = traffic([(900, 2.0), (900, 8.0), (900, 3.0), (900, 10.0), (900, 1.0)], seed=3)
    world = stage(slots=30, cold_start_seconds=120)
    needed = replicas_needed(requests.arrival_s, costs(WORK, requests), 2.0)

    best = score(clairvoyant(requests, world, needed, SLA, 95.0, 1, 14, lambda _: None), SLA, 1)
    peers = [score(play(Hpa(target, 2, 14), requests, world), SLA, 1) for target in (3.0, 5.0, 8.0)]

    assert best.attainment_percent >= 95
    assert any(peer.attainment_percent >= 95 for peer in peers)
    for peer in peers:
        assert peer.gpu_hours > best.gpu_hours or peer.attainment_percent < 95


@pytest.mark.slow
def test_a_target_out_of_reach_gives_the_best_attainment_there_is() -> None:
    requests = traffic([(600, 30.0)])
    needed = replicas_needed(requests.arrival_s, costs(WORK, requests), 2.0)
    best = score(clairvoyant(requests, stage(slots=6), needed, SLA, 95.0, 1, 3, lambda _: None), SLA, 1)

    assert best.attainment_percent < 95
    assert best.gpu_hours == pytest.approx(3 * 600 / 3600, rel=0.02)


def test_load_is_weighed_by_what_requests_cost() -> None:
    requests = traffic([(600, 5.0)])
    cost = costs(WORK, requests)
    longest, shortest = requests.input_tokens.argmax(), requests.input_tokens.argmin()

    assert cost[longest] > cost[shortest]
    rates = rates_per_minute(requests.arrival_s, cost, float(cost.mean()))
    assert rates.mean() == pytest.approx(len(requests) / 600, rel=0.01)


def test_a_burst_needs_replicas_for_itself_and_not_for_the_mean_of_its_minute() -> None:
    cost = np.ones(60)
    spread, burst = (np.sort(np.append(at, 119.5)) for at in (np.arange(59.0), np.full(59, 30.2)))

    assert replicas_needed(spread, cost, 2.0)[0] == pytest.approx(59 / 62)
    assert replicas_needed(burst, cost, 2.0)[0] == pytest.approx(59 / 3)
