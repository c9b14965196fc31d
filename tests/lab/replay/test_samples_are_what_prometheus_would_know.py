from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firsttoken_lab.replay.play import play
from firsttoken_lab.replay.policies.view import View
from firsttoken_operator.domain import Idle, Metrics, Reason, Value
from firsttoken_sizing.simulation.requests import Requests
from firsttoken_sizing.workload import Limit, Percentile
from tests.lab.replay.worlds import stage, traffic


class Watcher:
    """Never changes anything, and keeps what it saw."""

    name = "watcher"
    interval_seconds = 15.0

    def __init__(self, replicas: int) -> None:
        self.initial = replicas
        self.views: list[View] = []

    def desired(self, view: View) -> int:
        self.views.append(view)
        return self.initial


def watched(requests: Requests, replicas: int, percentile: Percentile = Percentile.P95) -> list[View]:
    watcher = Watcher(replicas)
    play(watcher, requests, replace(stage(), ttft_limit=Limit(2000, percentile)))
    return watcher.views


def arrivals(metrics: Metrics) -> float:
    assert isinstance(metrics.arrivals, Value)
    return metrics.arrivals.value


def test_nothing_is_known_before_the_rate_window_is_full() -> None:
    views = watched(traffic([(300, 3.0)]), 4)

    # One sample makes no rate.
    assert [view.metrics.health for view in views[:4]] == [Reason.MISSING, *[Reason.RECOVERING] * 3]
    assert views[4].now_seconds == 75
    assert {view.metrics.health for view in views[4:]} == {Reason.PRESENT}


def test_a_sample_is_as_old_as_the_lag_says() -> None:
    # Traffic ends at 300 s. The look at 300 s sees the samples of 250 to 295 s, the one at 330 s those of 280 to 325 s,
    # of which 20 s have traffic.
    views = {view.now_seconds: view for view in watched(traffic([(300, 8.0), (300, 0.0), (60, 1.0)]), 8)}

    assert arrivals(views[300.0].metrics) == pytest.approx(8, rel=0.2)
    assert arrivals(views[330.0].metrics) == pytest.approx(8 * 20 / 45, rel=0.3)
    assert isinstance(views[375.0].metrics.arrivals, Idle)


def test_arrivals_count_the_growth_of_the_queue_and_not_only_what_is_served() -> None:
    # One replica serves about 2 requests/s, 6 come.
    last = watched(traffic([(300, 6.0)]), 1)[-1].metrics

    assert isinstance(last.first_tokens, Value)
    assert last.first_tokens.value < 4
    assert arrivals(last) == pytest.approx(6, rel=0.15)
    assert isinstance(last.waiting, Value)
    assert last.waiting.value > 500


def test_a_percentile_is_known_by_its_bucket() -> None:
    requests = traffic([(300, 3.0)])
    seen = watched(requests, 4)[-1].metrics.ttft
    mean = watched(requests, 4, Percentile.MEAN)[-1].metrics.ttft
    played = play(Watcher(4), requests, stage())
    at = played.arrival_seconds + played.ttft_seconds
    # The last look is at 285 s, and sees the samples of 235 to 280 s; the rate is extended to all 60 s of the window.
    ttft = 1000 * played.ttft_seconds[(at > 235) & (at <= 280)]

    assert seen is not None
    assert mean is not None
    assert seen.requests == pytest.approx(len(ttft) * 60 / 45)
    assert (seen.low_milliseconds, seen.high_milliseconds) in ((250, 500), (500, 750))
    assert seen.high_milliseconds is not None
    assert seen.low_milliseconds < np.quantile(ttft, 0.95, method="inverted_cdf") <= seen.high_milliseconds
    assert seen.mean_milliseconds == pytest.approx(ttft.mean())
    assert mean.low_milliseconds == mean.high_milliseconds == mean.mean_milliseconds == seen.mean_milliseconds


def test_no_traffic_is_idle_and_not_a_rate_of_zero() -> None:
    views = {view.now_seconds: view for view in watched(traffic([(60, 3.0), (300, 0.0), (30, 3.0)]), 4)}

    assert views[330.0].metrics.health is Reason.IDLE
    assert isinstance(views[330.0].metrics.arrivals, Idle)


def test_a_lag_longer_than_the_scrape_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="scrape_lag_seconds"):
        replace(stage(), scrape_lag_seconds=15.0)
