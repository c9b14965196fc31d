"""A burst of seconds hardly shows in the rate of a minute, but in what it makes late: the fleet grows by that share."""

from __future__ import annotations

import pytest

from firsttoken_operator.domain import Decision, Reason
from firsttoken_operator.estimate import DEFAULT
from tests.operator.decide.builders import TICK_SECONDS, Fleet, late, metrics


def after(replicas: int, share: float, utilization: float = 0.9, **changes: object) -> Decision:
    """The decision of a fleet of this utilization that had this share of late requests for a minute."""
    fleet = Fleet(replicas=replicas)
    fleet.run(metrics(replicas * 5 * utilization, ttft=late(0.0)), 300)
    fleet.replicas = replicas
    return fleet.tick(metrics(replicas * 5 * utilization, ttft=late(share)), **changes)


@pytest.mark.parametrize("replicas", [10, 20, 30])
def test_a_fleet_grows_by_the_share_that_was_late(replicas: int) -> None:
    assert after(replicas, 0.2).to_replicas == replicas + int(replicas * 0.2)


def test_a_small_fleet_does_not_grow_by_half_for_one_bad_minute() -> None:
    assert after(3, 0.3).to_replicas == 3


@pytest.mark.parametrize("share", [0.0, 0.04, DEFAULT.target_load.over_provisioning_miss_rate])
def test_few_misses_are_the_business_of_what_is_learned(share: float) -> None:
    assert after(20, share).to_replicas <= 20


def test_over_provisioning_is_bounded() -> None:
    assert after(20, 1.0).to_replicas <= 20 * (1 + DEFAULT.target_load.most_over_provisioning)


def test_replicas_are_never_multiplied_by_the_ratio_of_ttft_and_sla() -> None:
    """Whatever is late and for however long: no more than twice what the load needs as sized and learned."""
    fleet = Fleet(replicas=20)
    decisions = fleet.run(metrics(60, ttft=late(1.0)), 3600)

    assert max(d.to_replicas for d in decisions) <= 2 * 60 / 5


@pytest.mark.parametrize("pods", [{"ready": 15, "starting": 5}, {"rollout": True}])
def test_a_fleet_in_motion_is_not_judged_by_what_was_late_before(pods: dict[str, object]) -> None:
    assert after(20, 0.4, **pods).to_replicas == 20


def test_the_same_misses_are_not_counted_twice() -> None:
    fleet = Fleet(replicas=20)
    fleet.run(metrics(90, ttft=late(0.0)), 300)
    fleet.replicas = 20
    first = fleet.tick(metrics(90, ttft=late(0.3))).to_replicas
    sizes = [fleet.tick(metrics(90, ttft=late(0.3))).to_replicas for _ in range(round(45 / TICK_SECONDS))]

    assert set(sizes) == {first} == {26}


@pytest.mark.parametrize("health", [Reason.PARTIAL, Reason.ERRORS_PRESENT])
def test_untrusted_data_over_provisions_nothing(health: Reason) -> None:
    fleet = Fleet(replicas=20)
    fleet.run(metrics(90, ttft=late(0.0)), 300)
    fleet.replicas = 20

    assert fleet.tick(metrics(90, ttft=late(0.5), health=health)).to_replicas == 20
