"""Live TTFT corrects the capacity of a replica when the model is too optimistic: in bounded steps, never back."""

from dataclasses import replace

import pytest

from firsttoken_operator.domain import Reason, ScalingMode, TtftInterval
from firsttoken_sizing.workload import Limit, Percentile, Sla
from tests.operator.decide.builders import POLICY, SIZED, Fleet, metrics

SLOW = TtftInterval(500, 750, 600, 1000)


def test_a_ttft_above_the_sla_at_a_safe_load_adds_replicas_step_by_step() -> None:
    fleet = Fleet(replicas=20)
    sizes = [d.to_replicas for d in fleet.run(metrics(95, ttft=SLOW), 2400) if d.changes]

    # 95 requests/s at 5, 4.5, 4.05, 3.645... requests/s each, down to half of the sized capacity.
    assert sizes[:3] == [22, 24, 27]
    assert max(sizes) == fleet.replicas == 38
    assert fleet.tick(metrics(95, ttft=SLOW)).capacity_factor == 0.5


def test_the_reason_is_the_ttft_and_not_the_demand() -> None:
    fleet = Fleet(replicas=20)
    reasons = {d.reason for d in fleet.run(metrics(95, ttft=SLOW), 300) if d.changes}

    assert reasons == {Reason.TTFT_ABOVE_SLA}


def test_what_was_learned_is_kept_when_ttft_is_fine_again() -> None:
    fleet = Fleet(replicas=20)
    fleet.run(metrics(95, ttft=SLOW), 240)
    learned = fleet.tick(metrics(95)).capacity_factor

    assert learned < 1
    assert fleet.run(metrics(95), 3600)[-1].capacity_factor == learned


@pytest.mark.parametrize(
    "ttft",
    [
        TtftInterval(250, 500, 280, 1000),
        TtftInterval(500, 750, 600, 20),
        None,
    ],
    ids=["the SLA is inside the bucket", "too few requests", "unknown"],
)
def test_doubtful_ttft_teaches_nothing(ttft: TtftInterval | None) -> None:
    fleet = Fleet(replicas=20)

    assert fleet.run(metrics(95, ttft=ttft), 600)[-1].capacity_factor == 1


def test_one_outlier_teaches_nothing() -> None:
    fleet = Fleet(replicas=20)
    for _ in range(10):
        fleet.tick(metrics(95, ttft=SLOW))
        fleet.tick(metrics(95))
        fleet.tick(metrics(95, ttft=SLOW))
        decision = fleet.tick(metrics(95))

    assert decision.capacity_factor == 1


@pytest.mark.parametrize(
    "pods", [{"ready": 15, "starting": 5}, {"terminating": 2}, {"rollout": True}, {"ready": 19, "stuck": 1}]
)
def test_a_fleet_in_motion_teaches_nothing(pods: dict[str, object]) -> None:
    fleet = Fleet(replicas=20)

    assert fleet.run(metrics(60, ttft=SLOW), 600, **pods)[-1].capacity_factor == 1


def test_an_overload_is_a_lack_of_replicas_and_says_nothing_of_the_model() -> None:
    fleet = Fleet(replicas=10)
    decisions = [fleet.tick(metrics(100, ttft=SLOW), apply=False) for _ in range(20)]

    assert {d.capacity_factor for d in decisions} == {1}
    assert {d.to_replicas for d in decisions} == {20}


def test_replicas_are_never_multiplied_by_the_ratio_of_ttft_and_sla() -> None:
    fleet = Fleet(replicas=20)
    terrible = TtftInterval(10_000, None, 60_000, 1000)

    assert max(d.to_replicas for d in fleet.run(metrics(95, ttft=terrible), 3600)) == 38


def test_without_a_ttft_limit_nothing_is_learned() -> None:
    fleet = Fleet(replicas=20, sized=replace(SIZED, sla=Sla(end_to_end=Limit(5000, Percentile.P95))))

    assert fleet.run(metrics(95, ttft=SLOW), 600)[-1].capacity_factor == 1


def test_one_burst_is_no_lesson() -> None:
    fleet = Fleet(replicas=20)
    for _ in range(8):
        fleet.run(metrics(95, ttft=SLOW), 90)
        decision = fleet.run(metrics(95), 600)[-1]

    assert decision.capacity_factor == 1


def test_a_slow_prefill_at_low_load_teaches_nothing() -> None:
    fleet = Fleet(replicas=20)

    assert fleet.run(metrics(5, ttft=SLOW), 1200)[-1].capacity_factor == 1


@pytest.mark.parametrize("health", [Reason.PARTIAL, Reason.ERRORS_PRESENT])
def test_untrusted_data_teaches_nothing(health: Reason) -> None:
    fleet = Fleet(replicas=20)

    assert fleet.run(metrics(95, ttft=SLOW, health=health), 1200)[-1].capacity_factor == 1


def test_another_sla_or_benchmark_starts_from_what_is_sized() -> None:
    fleet = Fleet(replicas=20)
    assert fleet.run(metrics(95, ttft=SLOW), 240)[-1].capacity_factor < 1
    fleet.sized = replace(SIZED, sla=Sla(time_to_first_token=Limit(3000, Percentile.P95)))

    assert fleet.tick(metrics(95, ttft=SLOW)).capacity_factor == 1


def test_a_pause_forgets_no_lesson() -> None:
    fleet = Fleet(replicas=20)
    learned = fleet.run(metrics(95, ttft=SLOW), 240)[-1].capacity_factor
    fleet.policy = replace(POLICY, mode=ScalingMode.PAUSED)
    fleet.tick(metrics(95))
    fleet.policy = POLICY

    assert fleet.tick(metrics(95)).capacity_factor == learned < 1
