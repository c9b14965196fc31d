"""The share of late first tokens on full replicas moves the learned capacity: bounded, and only where they are full."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.domain import Reason, ScalingMode, TtftInterval
from firsttoken_operator.estimate import DEFAULT
from firsttoken_sizing.workload import Limit, Percentile, Sla
from tests.operator.decide.builders import POLICY, SIZED, TICK_SECONDS, Fleet, late, metrics
from tests.operator.estimate.reading import WAIT_SECONDS

pytestmark = pytest.mark.slow


FULL, HALF_FULL, IDLE = 98.0, 65.0, 20.0
"""Requests a second on twenty replicas of five."""
MANY, NONE = 0.1, 0.0
"""Shares of late first tokens, of which the SLA allows 0.05."""
DAY = 86400.0
LAW = DEFAULT.tail_capacity


def watched(load: float, share: float, seconds: float = 4 * 3600, **changes: object) -> Fleet:
    """Twenty replicas that stay twenty, after so long with this load and this share of late first tokens."""
    fleet = Fleet(replicas=20, **changes)  # type: ignore[arg-type]
    for _ in range(round(seconds / TICK_SECONDS)):
        fleet.tick(metrics(load, ttft=late(share)), apply=False)
    return fleet


def factor(fleet: Fleet) -> float:
    return fleet.capacity_factor


def test_full_replicas_with_too_many_late_carry_less_than_sized() -> None:
    assert factor(watched(FULL, MANY)) < 1


def test_full_replicas_with_hardly_a_late_request_carry_more() -> None:
    assert factor(watched(FULL, NONE)) > 1


@pytest.mark.parametrize("load", [IDLE, HALF_FULL])
def test_replicas_far_from_their_capacity_do_not_say_that_they_carry_more(load: float) -> None:
    assert factor(watched(load, NONE, DAY)) == 1


@pytest.mark.parametrize(("share", "bound"), [(MANY, LAW.least_factor), (NONE, LAW.most_factor)])
def test_it_is_bounded_and_says_when_it_stands_on_a_bound(share: float, bound: float) -> None:
    fleet = watched(FULL, share, 1800)
    for _ in range(round(DAY / TICK_SECONDS)):
        # Full by what is known now.
        fleet.tick(metrics(FULL * factor(fleet), ttft=late(share)), apply=False)

    assert factor(fleet) == pytest.approx(bound)


def test_the_reason_is_the_ttft_and_not_the_demand() -> None:
    fleet = watched(FULL, MANY)

    decision = fleet.tick(metrics(FULL, ttft=late(MANY)))

    assert (decision.reason, decision.to_replicas > 20) == (Reason.TTFT_ABOVE_SLA, True)


def test_one_window_moves_it_by_a_tenth_at_most() -> None:
    fleet = watched(FULL, 0.05, WAIT_SECONDS + 60)
    before = factor(fleet)
    for _ in range(4):
        fleet.tick(metrics(FULL, ttft=late(1.0)), apply=False)

    assert before > factor(fleet) >= before * (1 - LAW.first_step_down)


def test_misses_count_sooner_than_their_absence() -> None:
    fleets = {share: watched(FULL, 0.05, WAIT_SECONDS) for share in (0.2, NONE)}
    moved = {}
    for share, fleet in fleets.items():
        before = factor(fleet)
        for _ in range(20):
            fleet.tick(metrics(FULL * factor(fleet), ttft=late(share)), apply=False)
        moved[share] = abs(factor(fleet) - before)

    assert moved[0.2] > 2 * moved[NONE]


def test_an_overload_is_a_lack_of_replicas_and_says_nothing_of_the_model() -> None:
    assert factor(watched(200.0, 1.0)) == 1


def test_updates_wait_for_the_speed_of_the_replicas() -> None:
    assert factor(watched(FULL, MANY, WAIT_SECONDS - 60)) == 1


@pytest.mark.parametrize(
    "ttft", [TtftInterval(500, 750, 600, 1000), late(MANY, requests=20), None],
    ids=["late requests are not counted", "too few requests", "unknown"],
)  # fmt: skip
def test_doubtful_ttft_updates_nothing(ttft: TtftInterval | None) -> None:
    fleet = Fleet(replicas=20)

    assert fleet.run(metrics(FULL, ttft=ttft), 2 * 3600)[-1].capacity_factor == 1


@pytest.mark.parametrize(
    "pods", [{"ready": 15, "starting": 5}, {"terminating": 2}, {"rollout": True}, {"ready": 19, "stuck": 1}]
)
def test_a_fleet_in_motion_updates_nothing(pods: dict[str, object]) -> None:
    fleet = Fleet(replicas=20)
    for _ in range(480):
        decision = fleet.tick(metrics(FULL, ttft=late(MANY)), apply=False, **pods)

    assert decision.capacity_factor == 1


@pytest.mark.parametrize("health", [Reason.PARTIAL, Reason.ERRORS_PRESENT, Reason.STALE])
def test_untrusted_data_updates_nothing(health: Reason) -> None:
    fleet = Fleet(replicas=20)
    for _ in range(480):
        decision = fleet.tick(metrics(FULL, ttft=late(MANY), health=health), apply=False)

    assert decision.capacity_factor == 1


def test_without_a_ttft_limit_nothing_is_learned() -> None:
    sized = replace(SIZED, sla=Sla(end_to_end=Limit(5000, Percentile.P95)))

    assert factor(watched(FULL, MANY, sized=sized)) == 1


def test_what_was_learned_is_kept_while_nothing_new_is_said() -> None:
    fleet = watched(FULL, MANY)
    learned = factor(fleet)

    for _ in range(240):
        fleet.tick(metrics(HALF_FULL * learned, ttft=late(NONE)), apply=False)

    assert factor(fleet) == learned < 1


def test_another_sla_or_benchmark_starts_from_what_is_sized() -> None:
    fleet = watched(FULL, MANY)
    fleet.sized = replace(SIZED, sla=Sla(time_to_first_token=Limit(3000, Percentile.P95)))
    learned = factor(fleet)
    fleet.tick(metrics(FULL, ttft=late(0.05)), apply=False)

    assert learned < 0.95
    assert factor(fleet) == pytest.approx(1, abs=0.03)


def test_a_pause_forgets_nothing() -> None:
    fleet = watched(FULL, MANY)
    learned = factor(fleet)
    fleet.policy = replace(POLICY, mode=ScalingMode.PAUSED)
    fleet.tick(metrics(FULL))
    fleet.policy = POLICY
    fleet.tick(metrics(FULL), apply=False)

    assert factor(fleet) == learned < 1
