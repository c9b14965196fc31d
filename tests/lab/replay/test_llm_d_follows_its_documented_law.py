"""llm-d's control law, its signal and its HPA, against sequences worked out by hand from the guide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_lab.replay.gateway import Seen
from firsttoken_lab.replay.policies.llm_d import Law, LlmD
from firsttoken_lab.replay.policies.view import View
from firsttoken_operator.domain import Metrics, Missing, Reason
from firsttoken_sizing.errors import InvalidInput

_UNKNOWN = Missing(Reason.NOT_ENOUGH_SAMPLES)
METRICS = Metrics(
    Reason.RECOVERING, "", _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, None, 60.0
)  # fmt: skip


class Latencies:
    """A gateway whose requests all have the same latencies."""

    def __init__(self, ttft_seconds: float | None, tpot_seconds: float | None = None) -> None:
        self._seen = [np.array([]) if value is None else np.full(20, value) for value in (ttft_seconds, tpot_seconds)]

    def seen(self, window_seconds: float) -> Seen:
        return Seen(window_seconds, 20, 1000.0, 0.0, 200.0, *self._seen)


def view(now: float, replicas: int, gateway: Latencies | None, ready: int | None = None) -> View:
    ready = replicas if ready is None else ready
    return View(now, replicas, ready, replicas - ready, 0, 0.0, 0.0, lambda: METRICS, gateway)


def changes(policy: LlmD, gateway: Latencies, until: float) -> list[tuple[float, int]]:
    """Changes that a policy asks for whose replicas start at once."""
    replicas, made = policy.initial, []
    for now in np.arange(policy.interval_seconds, until + 1, policy.interval_seconds):
        wanted = policy.desired(view(float(now), replicas, gateway))
        if wanted != replicas:
            made.append((float(now), wanted))
        replicas = wanted
    return made


@pytest.mark.parametrize(
    ("saturation", "provisioned", "ready", "wanted"),
    [
        pytest.param(0.50, 6, 6, 6, id="inside the band nothing changes"),
        pytest.param(0.55, 6, 6, 6, id="the upper end belongs to the band"),
        pytest.param(0.40, 6, 6, 6, id="and so does the lower"),
        pytest.param(0.60, 6, 6, 7, id="above it the deficit is rounded up"),
        pytest.param(2.00, 4, 4, 15, id="at the clamp it asks for 3.6 times as many"),
        pytest.param(1.10, 8, 4, 8, id="half of the pods are starting, and are enough"),
        pytest.param(1.10, 8, 6, 12, id="a quarter is starting, and is not enough"),
        pytest.param(0.60, 8, 4, 8, id="credit never sheds"),
        pytest.param(1.10, 4, 0, 8, id="no ready replica is no credit"),
        pytest.param(0.20, 8, 8, 4, id="below the band half of the signal is half of the pods"),
        pytest.param(0.35, 4, 4, 4, id="rounded in favor of staying"),
        pytest.param(0.20, 8, 4, 4, id="down without credit"),
    ],
)
def test_replicas_follow_the_saturation(saturation: float, provisioned: int, ready: int, wanted: int) -> None:
    assert Law().wanted(saturation, provisioned, ready) == wanted


@given(st.floats(0, 2), st.floats(0, 2), st.integers(1, 500))
def test_more_latency_never_asks_for_less(one: float, other: float, provisioned: int) -> None:
    low, high = sorted((one, other))

    assert Law().wanted(low, provisioned, provisioned) <= Law().wanted(high, provisioned, provisioned)


def test_a_breach_is_answered_after_the_window_and_at_most_doubled_in_a_minute() -> None:
    # 2.2 s of 2 s is 1.1: twice as many each time. The 2 that the first sync finds is in the window of 30 s until 45.
    # Then 8 are wanted; the minute began with 2, so it may reach 6. At 105 the minute began with 4, so it may reach 8.
    policy = LlmD(ttft_seconds=2.0, tpot_seconds=None, initial=2, maximum=100)

    made = changes(policy, Latencies(2.2), 105.0)

    assert made == [(45.0, 4), (75.0, 6), (105.0, 8)]


def test_without_load_one_pod_leaves_every_two_minutes_after_three() -> None:
    policy = LlmD(ttft_seconds=2.0, tpot_seconds=None, initial=5, maximum=100)

    assert changes(policy, Latencies(0.2), 700.0) == [(195.0, 4), (315.0, 3), (435.0, 2), (555.0, 1)]


def test_no_traffic_is_no_saturation() -> None:
    policy = LlmD(ttft_seconds=2.0, tpot_seconds=0.05, initial=3, maximum=100)

    assert changes(policy, Latencies(None), 200.0) == [(195.0, 2)]


def test_one_sample_at_the_knee_does_not_stay_in_the_average() -> None:
    # Samples of 45 s: 2 (clamped from 90), 0.5, 0.5 average to 1; a fourth drives the spike out.
    policy = LlmD(ttft_seconds=2.0, tpot_seconds=None, initial=4, maximum=100)
    for now, ttft in ((15.0, 180.0), (30.0, 1.0), (45.0, 1.0)):
        asked = policy.desired(view(now, 4, Latencies(ttft)))

    assert asked == 8  # 4 + ceil(4 * (1.0 / 0.55 - 1)) = 8
    assert policy.desired(view(60.0, 4, Latencies(1.0))) == 4


@pytest.mark.parametrize(
    ("tpot_slo", "asked"), [pytest.param(0.05, 4, id="declared, it counts"), pytest.param(None, 2, id="else not")]
)
def test_the_worse_of_both_latencies_counts(tpot_slo: float | None, asked: int) -> None:
    policy = LlmD(ttft_seconds=2.0, tpot_seconds=tpot_slo, initial=2, maximum=100)
    for now in (15.0, 30.0, 45.0):
        wanted = policy.desired(view(now, 2, Latencies(1.0, 0.055)))

    assert wanted == asked


@pytest.mark.parametrize(
    ("law", "asked"),
    [
        pytest.param(Law(), 12, id="the HPA ignores less than a tenth"),
        pytest.param(Law(tolerance=0.0), 13, id="unless it is told not to"),
    ],
)
def test_the_tolerance_of_the_autoscaler_swallows_small_steps(law: Law, asked: int) -> None:
    policy = LlmD(ttft_seconds=2.0, tpot_seconds=None, initial=12, maximum=100, law=law)
    for now in (15.0, 30.0, 45.0):
        wanted = policy.desired(view(now, 12, Latencies(1.15)))

    assert wanted == asked


def test_it_needs_a_gateway() -> None:
    with pytest.raises(InvalidInput, match=r"view\.gateway: is missing"):
        LlmD(2.0, None, 1, 10).desired(view(15.0, 1, None))


def test_a_band_upside_down_is_refused() -> None:
    with pytest.raises(InvalidInput, match="do not ascend"):
        Law(scale_up_above=0.3)


@given(st.lists(st.floats(0, 50), min_size=1, max_size=40), st.integers(1, 5), st.integers(5, 12))
def test_bounds_hold_whatever_the_latency(latencies: list[float], minimum: int, maximum: int) -> None:
    policy = LlmD(2.0, None, minimum, maximum, minimum)
    replicas = policy.initial
    for tick, latency in enumerate(latencies):
        replicas = policy.desired(view(15.0 * (tick + 1), replicas, Latencies(latency)))

        assert minimum <= replicas <= maximum
