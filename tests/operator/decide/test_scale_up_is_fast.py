"""Any valid signal may ask for more, at once, and pods that are starting count."""

from dataclasses import replace

import pytest

from firsttoken_operator.domain import Hindrances, Metrics, Outcome, Reason, Value
from tests.operator.decide.builders import POLICY, SIZED, Fleet, lost, metrics, table


def test_a_burst_is_answered_on_the_first_tick_that_shows_it() -> None:
    fleet = Fleet(replicas=16)
    fleet.run(metrics(75), 300)

    decision = fleet.tick(metrics(150))

    assert (decision.outcome, decision.to_replicas) == (Outcome.UP, 30)
    assert decision.reason is Reason.DEMAND_ABOVE_CAPACITY


def test_a_fresh_process_may_scale_up_on_its_first_tick() -> None:
    assert Fleet(replicas=16).tick(metrics(150)).to_replicas == 30


def test_pods_that_are_starting_are_credited() -> None:
    fleet = Fleet(replicas=30)

    decision = fleet.tick(metrics(150), ready=16, starting=14)

    assert decision.to_replicas == 30


def test_pods_that_are_stuck_are_not_credited() -> None:
    decision = Fleet(replicas=30).tick(metrics(150), ready=26, stuck=4)

    assert decision.to_replicas == 34


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ({"unschedulable": 4}, Reason.PODS_UNSCHEDULABLE),
        ({"unschedulable": 4, "hindrances": Hindrances(preempted=2)}, Reason.PODS_PREEMPTED),
        ({"unschedulable": 4, "hindrances": Hindrances(unclaimed=1)}, Reason.CLAIMS_UNALLOCATED),
        ({"failing": 4}, Reason.PODS_FAILING),
        ({"hindrances": Hindrances(unmounted=4, volume_claim="weights")}, Reason.VOLUMES_NOT_MOUNTED),
    ],
)
def test_no_more_pods_are_added_while_earlier_ones_cannot_run(trouble: dict[str, int], reason: Reason) -> None:
    decision = Fleet(replicas=30).tick(metrics(150), ready=26, stuck=4, **trouble)

    assert (decision.outcome, decision.to_replicas, decision.reason) == (Outcome.HELD, 30, reason)
    assert decision.unmet_replicas == 4


@pytest.mark.parametrize("state", [{"stuck": 4}, {"starting": 4}], ids=["for long", "from the beginning"])
@pytest.mark.parametrize("seen", [metrics(190), lost()], ids=["with metrics", "without"])
@pytest.mark.parametrize(
    ("hindrances", "reason"),
    [
        (Hindrances(gated=4, gates="kueue"), Reason.PODS_GATED),
        (Hindrances(half_made=4, refused="exceeded quota: gpus"), Reason.PODS_REFUSED),
    ],
    ids=["gates", "a quota that leaves groups without their workers"],
)
def test_no_more_pods_queue_up_behind_what_holds_pods_back(
    hindrances: Hindrances, reason: Reason, state: dict[str, int], seen: Metrics
) -> None:
    fleet = Fleet(replicas=30, policy=replace(POLICY, min_replicas=30))
    held = fleet.tick(seen, ready=26, unplaced=4, hindrances=hindrances, **state)

    assert (held.outcome, held.to_replicas, held.reason) == (Outcome.HELD, 30, reason)


def test_pods_that_the_api_server_refuses_are_not_ordered_again_and_no_more_are_asked_for() -> None:
    fleet = Fleet(replicas=30)
    quota = {"ready": 20, "refused": "exceeded quota: gpus"}
    decisions = [fleet.tick(metrics(170, waiting=Value(waiting)), **quota) for waiting in (0, 4000, 60_000)]

    assert {(d.outcome, d.to_replicas, d.reason) for d in decisions} == {(Outcome.HELD, 30, Reason.PODS_REFUSED)}
    assert decisions[0].unmet_replicas == 4


@pytest.mark.parametrize("seen", [metrics(20), lost()], ids=["with metrics", "without"])
def test_a_minimum_is_not_asked_for_either_while_pods_are_refused(seen: Metrics) -> None:
    fleet = Fleet(replicas=30, policy=replace(POLICY, min_replicas=35))
    held = fleet.tick(seen, ready=20, refused="exceeded quota: gpus")

    assert (held.to_replicas, held.reason) == (30, Reason.PODS_REFUSED)
    assert fleet.tick(seen).to_replicas == 35


def test_a_refusal_that_is_over_holds_up_nothing() -> None:
    assert Fleet(replicas=30).tick(metrics(170), refused="exceeded quota: gpus").to_replicas == 34


def test_a_backlog_is_drained_in_the_time_that_was_asked_for() -> None:
    # 600 requests in 60 s are 10 requests/s on top of 75: 17 replicas of 5 requests/s.
    assert Fleet(replicas=15).tick(metrics(75, waiting=Value(600))).to_replicas == 17


def test_the_backlog_is_the_reason_when_it_is_most_of_the_demand() -> None:
    assert Fleet(replicas=15).tick(metrics(20, waiting=Value(6000))).reason is Reason.BACKLOG


def test_one_tick_at_most_doubles_the_fleet() -> None:
    decision = Fleet(replicas=10).tick(metrics(75_000))

    assert (decision.to_replicas, decision.limited_by) == (20, Reason.SCALE_UP_STEP)


def test_a_small_fleet_may_grow_by_four() -> None:
    assert Fleet(replicas=2).tick(metrics(30)).to_replicas == 6


def test_the_burst_headroom_is_never_exceeded_and_what_is_missing_is_said() -> None:
    decision = Fleet(replicas=50).tick(metrics(400))

    assert (decision.to_replicas, decision.limit, decision.unmet_replicas) == (60, 60, 20)
    assert decision.limited_by is Reason.BURST_HEADROOM
    assert "limited by BurstHeadroom, 20 replicas unmet" in decision.message


def test_max_replicas_limits_below_the_headroom() -> None:
    fleet = Fleet(replicas=20, policy=replace(POLICY, max_replicas=24))

    assert (fleet.tick(metrics(200)).to_replicas, fleet.tick(metrics(200)).limited_by) == (24, Reason.MAX_REPLICAS)


def test_the_headroom_is_rounded_up_without_floating_point_noise() -> None:
    sized = replace(SIZED, replicas_for_declared_peak=10)
    fleet = Fleet(replicas=9, policy=replace(POLICY, burst_headroom_percent=10), sized=sized)

    assert fleet.tick(metrics(400)).limit == 11


@pytest.mark.parametrize("signal", [metrics(5), lost()], ids=["with metrics", "without metrics"])
def test_a_fleet_below_its_minimum_is_raised(signal: object) -> None:
    fleet = Fleet(replicas=2, policy=replace(POLICY, min_replicas=5))

    decision = fleet.tick(signal)  # type: ignore[arg-type]

    assert (decision.to_replicas, decision.reason) == (5, Reason.BELOW_MINIMUM)


def test_a_partial_set_of_pods_may_ask_for_more() -> None:
    decision = Fleet(replicas=16).tick(metrics(150, health=Reason.PARTIAL, arrivals=Value(150, coverage=0.5)))

    assert decision.to_replicas == 30


def test_a_target_that_was_scaled_to_zero_from_outside_stays_there() -> None:
    decision = Fleet(replicas=0).tick(metrics(150))

    assert (decision.to_replicas, decision.reason) == (0, Reason.TARGET_AT_ZERO)


def test_a_decision_predicts_one_less_and_one_more() -> None:
    decision = Fleet(replicas=16).tick(metrics(150))

    assert decision.prediction is not None
    predicted = [
        p.ttft.p95 for p in (decision.prediction.n_minus_1, decision.prediction.n, decision.prediction.n_plus_1) if p
    ]
    assert predicted == sorted(predicted, reverse=True)
    assert predicted[1] == pytest.approx(300, rel=0.01)
    assert table().at(150 / 29).ttft.p95 == predicted[0]
