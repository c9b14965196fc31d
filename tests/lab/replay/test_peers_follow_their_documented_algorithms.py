from __future__ import annotations

import pytest

from firsttoken_lab.replay.policies.hpa import Hpa, KedaQueue
from firsttoken_lab.replay.policies.knative import Knative
from tests.lab.replay.worlds import view


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        pytest.param(43, 4, id="7.5 % above the target is within the tolerance"),
        pytest.param(37, 4, id="7.5 % below it, too"),
        pytest.param(45, 5, id="12.5 % above it needs ceil(45 / 10)"),
        pytest.param(75, 8, id="ceil(75 / 10)"),
        pytest.param(400, 8, id="at once by max(4 pods, 100 %) only"),
    ],
)
def test_hpa_divides_usage_by_the_target(running: float, expected: int) -> None:
    assert Hpa(10, 4, 40).desired(view(15, 4, running=running)) == expected


def test_hpa_goes_up_by_4_pods_where_that_is_more_than_double() -> None:
    assert Hpa(10, 2, 40).desired(view(15, 2, running=400)) == 6


def test_hpa_takes_pods_that_are_not_ready_to_be_idle() -> None:
    # 50 / 40 asks for more, 50 / 60 does not: hold. 90 / 60 still does: ceil(90 / 10).
    assert Hpa(10, 4, 40).desired(view(15, 6, ready=4, running=50)) == 6
    assert Hpa(10, 4, 40).desired(view(15, 6, ready=4, running=90)) == 9


def test_hpa_goes_down_when_no_recommendation_of_300_s_says_otherwise() -> None:
    hpa = Hpa(10, 4, 40)
    asked = [hpa.desired(view(0, 4, running=40))]
    asked += [hpa.desired(view(at, 4, running=10)) for at in range(15, 315, 15)]

    assert asked[:-1] == [4] * 20
    assert asked[-1] == 1  # at 300 s the recommendation of 4 is out of the window


def test_hpa_remembers_the_largest_recommendation_of_the_window() -> None:
    hpa = Hpa(10, 8, 40)
    recommended = [80, 60, 30, 50, 30]
    asked = [hpa.desired(view(15.0 * i, 8, running=running)) for i, running in enumerate(recommended)]
    later = hpa.desired(view(15.0 * 1 + 299, 8, running=30))
    after = hpa.desired(view(15.0 * 1 + 301, 8, running=30))

    assert asked == [8] * 5
    assert (later, after) == (6, 5)


def test_keda_counts_the_queue_whatever_is_ready() -> None:
    assert KedaQueue(5, 2, 40).desired(view(15, 2, running=500, waiting=26)) == 6
    assert KedaQueue(5, 4, 40).desired(view(15, 4, ready=1, running=0, waiting=21)) == 4


def test_knative_panics_at_twice_what_is_ready_and_holds_until_a_stable_window_after() -> None:
    knative = Knative(10, 1, 100)
    calm = [knative.desired(view(at, 1, running=0, held=5)) for at in range(2, 62, 2)]
    # Six seconds of 100 requests: the panic window asks for 10, the stable window for 2.
    burst = [knative.desired(view(at, 1, running=0, held=100)) for at in (62, 64, 66)]
    after = [knative.desired(view(at, 10, running=0, held=5)) for at in range(68, 140, 2)]

    assert set(calm) == {1}
    assert burst[-1] == 10
    still = sum(asked == 10 for asked in after)
    # Nothing is given back until 60 s after the last panic, then at most half at once.
    assert 28 <= still <= 31
    assert after[still] == 5


def test_knative_without_panic_follows_the_average_of_60_s() -> None:
    knative = Knative(10, 4, 100)
    asked = [knative.desired(view(at, 4, running=0, held=30 if at <= 30 else 50)) for at in range(2, 62, 2)]

    assert asked[0] == 3
    assert asked[-1] == 4  # the mean of 30 and 50 requests
