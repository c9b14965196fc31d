from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_lab.replay.play import Stage, play
from firsttoken_lab.replay.policies.hpa import Hpa, KedaQueue
from firsttoken_lab.replay.policies.knative import Knative
from firsttoken_lab.replay.policies.llm_d import LlmD
from firsttoken_lab.replay.policies.view import Policy, View
from firsttoken_operator.domain import Missing, Reason, Value
from tests.lab.replay.worlds import stage, traffic

OUTAGE = (300.0, 500.0)
RISING = [(300.0, 2.0), (600.0, 12.0)]


class Recorder:
    """Three replicas, and every view there was."""

    name = "recorder"
    initial = 3

    def __init__(self, interval_seconds: float = 15.0) -> None:
        self.interval_seconds = interval_seconds
        self.views: list[View] = []

    def desired(self, view: View) -> int:
        self.views.append(view)
        return 3


def dark(**fields: object) -> Stage:
    return replace(stage(), metric_outages=(OUTAGE,), **fields)  # type: ignore[arg-type]


def views(world: Stage, interval_seconds: float = 15.0) -> list[View]:
    recorder = Recorder(interval_seconds)
    play(recorder, traffic([(900, 3.0)]), world)
    return recorder.views


@pytest.mark.slow
def test_during_an_outage_pods_are_seen_and_nothing_else_is() -> None:
    for view in views(dark()):
        if OUTAGE[0] <= view.now_seconds < OUTAGE[1]:
            assert view.ready == 3
            assert view.is_blind
            assert view.metrics.health is Reason.MISSING
            for measurement in (view.metrics.arrivals, view.metrics.waiting, view.metrics.running):
                assert isinstance(measurement, Missing)
                assert measurement.reason is Reason.SOURCE_UNREACHABLE
            assert view.metrics.ttft is None
            assert (view.running_requests, view.waiting_requests) == (None, None)
            assert (view.gateway, view.requests_in_pods) == (None, None)


def test_before_an_outage_everything_is_seen() -> None:
    known = [view for view in views(dark()) if 90 <= view.now_seconds < OUTAGE[0]]
    assert known
    assert all(isinstance(view.metrics.arrivals, Value) and view.running_requests is not None for view in known)


def test_after_an_outage_the_rate_window_fills_anew() -> None:
    # Scrapes are at 10 + 15 n seconds: the first one after the outage is that of 505 s.
    after = {view.now_seconds: view for view in views(dark(), interval_seconds=1.0)}
    assert all(after[at].is_blind for at in range(500, 505))
    assert all(not after[at].is_blind for at in range(505, 565))
    # One sample makes no rate.
    assert all(after[at].metrics.health is Reason.MISSING for at in range(505, 520))
    assert all(after[at].metrics.health is Reason.RECOVERING for at in range(520, 565))
    assert isinstance(after[505].metrics.running, Value)
    assert after[505].running_requests is not None
    assert after[565].metrics.health is Reason.PRESENT


@pytest.mark.parametrize(
    "policy",
    [
        Hpa(4.0, 2, 12),
        KedaQueue(2.0, 2, 12),
        Knative(4.0, 2, 12),
        LlmD(2.0, None, 2, 12),
    ],
    ids=lambda policy: policy.name,
)
def test_who_sees_nothing_holds(policy: Policy) -> None:
    played = play(policy, traffic(RISING), dark())
    asked = [at for at, _ in played.changes]
    assert not any(OUTAGE[0] <= at < OUTAGE[1] for at in asked)
    assert any(at >= OUTAGE[1] for at in asked)


def test_scrapes_and_their_window_may_be_faster() -> None:
    seen = views(replace(stage(), scrape_seconds=1.5, window_seconds=6.0, scrape_lag_seconds=0.5), interval_seconds=1.0)
    at = {view.now_seconds: view.metrics for view in seen}
    assert at[6.0].health is Reason.RECOVERING
    assert at[8.0].health is Reason.PRESENT
    assert at[8.0].window_seconds == 6.0


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"metric_outages": ((5.0, 5.0),)}, "does not end after it begins"),
        ({"scrape_lag_seconds": 15.0}, "scrape_lag_seconds is in"),
        ({"scrape_seconds": 0.0}, "scrape_seconds is in"),
        ({"scrape_seconds": 90.0}, "scrape_seconds is in"),
    ],
)
def test_a_stage_that_cannot_be_is_refused(fields: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        replace(stage(), **fields)  # type: ignore[arg-type]
