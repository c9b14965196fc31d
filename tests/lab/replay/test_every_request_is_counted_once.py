from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firsttoken_lab.replay.play import play
from firsttoken_lab.replay.policies.schedule import Static
from firsttoken_lab.replay.policies.view import View
from firsttoken_lab.replay.score import inside_sla, score
from firsttoken_sizing.simulation.fleet import Fleet, Settings
from firsttoken_sizing.simulation.requests import Requests
from firsttoken_sizing.workload import Limit, Percentile, Routing, Sla
from tests.lab.replay.worlds import SLA, STEP, stage, traffic

TRAFFIC = traffic([(900, 4.0)])


class Restless:
    """Asks for another size at every look."""

    name = "restless"
    interval_seconds = 15.0
    initial = 3

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def desired(self, view: View) -> int:
        return int(self._rng.integers(1, 8))


@pytest.mark.parametrize("routing", list(Routing))
@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_the_fleet_does_every_request_is_answered_after_it_came(routing: Routing, seed: int) -> None:
    played = play(Restless(seed), TRAFFIC, stage(routing=routing))

    assert len(played.ttft_seconds) == len(played.end_to_end_seconds) == len(TRAFFIC)
    assert (played.ttft_seconds > 0).all()
    assert (played.end_to_end_seconds >= played.ttft_seconds).all()
    assert score(played, SLA, 1).requests == len(TRAFFIC)


def test_the_same_arguments_give_the_same_result() -> None:
    first, second = (play(Restless(1), TRAFFIC, stage()) for _ in range(2))

    assert (first.ttft_seconds == second.ttft_seconds).all()
    assert (first.replica_seconds, first.changes) == (second.replica_seconds, second.changes)


def test_a_replica_that_dies_loses_its_requests_and_they_count_as_misses() -> None:
    dying = replace(stage(cold_start_seconds=15), failures_per_day=1000.0)
    played = play(Static("static", 4), TRAFFIC, dying)
    lost = np.isnan(played.ttft_seconds)

    assert 0 < lost.sum() < len(TRAFFIC) / 4
    assert not inside_sla(played, SLA)[lost].any()
    # Every replica that died was replaced at once.
    assert (played.trajectory.asked == 4).all()
    assert played.trajectory.ready.min() < 4


def test_random_routing_favors_no_replica_of_a_fleet_that_is_not_full() -> None:
    count = 20_000
    ones = np.ones(count, np.int64)
    fleet = Fleet(STEP, Requests(np.arange(float(count)), ones, ones, ones), Settings(replicas=8))
    for replica in range(5):
        fleet.open(replica, 0.0)
    fleet.advance(np.inf)

    shares = np.bincount(fleet.requests.replica, minlength=8) / count
    assert shares[:5] == pytest.approx(np.full(5, 0.2), abs=0.015)
    assert not shares[5:].any()


def test_a_limit_on_the_mean_is_judged_on_the_mean_of_5_minutes() -> None:
    played = play(Static("static", 4), TRAFFIC, stage())
    first_window = played.arrival_seconds < 300
    mean_milliseconds = 1000 * played.ttft_seconds[first_window].mean()

    above, below = (
        inside_sla(played, Sla(time_to_first_token=Limit(mean_milliseconds * factor, Percentile.MEAN)))
        for factor in (1.001, 0.999)
    )
    assert above[first_window].all()
    assert not below[first_window].any()
