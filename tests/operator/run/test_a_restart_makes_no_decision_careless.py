"""Facts that a new process takes from the last one's status only ever ask for more replicas, never for fewer (I8)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from firsttoken_operator.act.status import document
from firsttoken_operator.api.status import CalibrationStatus, InferenceDeploymentStatus
from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import (
    FleetSnapshot,
    Metrics,
    Reason,
    ResourceSnapshot,
    ScalingMode,
    TargetMissing,
    Tick,
    Unsized,
    Value,
)
from firsttoken_operator.estimate import ResourceMemory, sizing_key
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.restore import SEEN_AFTER_TICKS, Restoring, restored
from tests.fixtures.hypothesis_scale import examples
from tests.operator.decide.builders import (
    POLICY,
    SIZED,
    TICK_SECONDS,
    late,
    lost,
    metrics,
    resource,
    table,
    target,
)
from tests.operator.decide.test_beyond_a_doubling_two_signals_agree import ABSURD
from tests.operator.estimate.reading import consumed, factor, speed, used, windows
from tests.operator.observe.bodies import NAMESPACE, deployment, inference_deployment
from tests.operator.run.lives import EPOCH, POOL, UID, Life, read_back

NOW = Tick(0.0, TICK_SECONDS, EPOCH, TICK_SECONDS)
SEEN = resource(target(10), metrics(20.0))
SLACK = SEEN_AFTER_TICKS * TICK_SECONDS + 1.0


def at(seconds: float) -> str:
    """The time `seconds` after the restart, as a status has it."""
    return datetime.fromtimestamp(EPOCH + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def record(seconds: float, before: int, after: int) -> dict[str, Any]:
    return {"time": at(seconds), "from": before, "to": after, "reason": "DemandBelowCapacity"}


def written(**fields: Any) -> InferenceDeploymentStatus:
    """A status of the same sizing, written a minute before the restart."""
    life = Life(10)
    life.tell(SEEN, decide(life.snapshot(metrics(20.0)), Memory())[0][0])
    base = document(life.status) | {"decisions": [record(-60, 10, 10)]}
    return InferenceDeploymentStatus.model_validate(base | fields)


def calibrated(percent: int) -> dict[str, Any]:
    return {"state": "Learned", "serviceFactorPercent": percent}


def memory_of(status: InferenceDeploymentStatus, seen: ResourceSnapshot = SEEN, **options: Any) -> ResourceMemory:
    made = restored(status, seen, NOW, **options)
    assert made is not None
    return made


@pytest.mark.parametrize(("percent", "expected"), [(70, 0.7), (99, 0.99), (100, 1.0), (140, 1.0), (3, 0.5)])
def test_less_capacity_than_sized_is_remembered_and_more_is_not(percent: int, expected: float) -> None:
    assert factor(memory_of(written(calibration=calibrated(percent))).calibration) == expected


@pytest.mark.parametrize("percent", [70, 100, 125])
def test_how_fast_replicas_are_is_kept_apart_so_that_it_is_not_counted_twice(percent: int) -> None:
    known = memory_of(written(calibration=calibrated(60) | {"speedPercent": percent})).calibration

    assert factor(known) == pytest.approx(0.6)
    assert speed(known) == pytest.approx(percent / 100)


def test_what_was_overspent_still_keeps_more_free_and_holds_for_longer() -> None:
    life = Life(20)
    for _ in range(240):
        life.tick(metrics(90.0, ttft=late(0.3)))
    steady = life.memory.resources[UID].calibration
    restarted = life.successor(metrics(90.0)).resources[UID].calibration

    assert consumed(steady) > 2
    assert used(restarted) <= used(steady) < 1
    assert windows(restarted) >= windows(steady) > 1


def test_a_capacity_that_was_learned_of_another_sizing_is_not_taken_over() -> None:
    status = written(calibration=calibrated(70))
    other = replace(SEEN, sized=replace(SIZED, table=table(6.0)))
    wider = replace(SEEN, sized=replace(SIZED, configuration=replace(SIZED.configuration, tensor_parallel=2)))

    assert factor(memory_of(status, other).calibration) == 1.0
    assert factor(memory_of(status, wider).calibration) == 1.0
    assert memory_of(status).sized_key == sizing_key(SIZED)


@pytest.mark.parametrize("absurd", ABSURD)
@pytest.mark.parametrize("ticks_before", range(4))
def test_one_absurd_sample_doubles_at_most_wherever_in_its_window_a_process_follows(
    absurd: Metrics, ticks_before: int
) -> None:
    life, before = Life(11), 11
    for _ in range(8):
        life.tick(metrics(50))
    for tick in range(4):
        if tick == ticks_before:
            life.memory = life.successor(absurd)
        life.tick(absurd)
    sizes = [life.tick(metrics(50)).to_replicas for _ in range(4)]

    assert max(sizes) == life.replicas == 2 * before


def test_a_window_that_asked_for_more_than_a_doubling_before_a_restart_is_a_witness() -> None:
    life = Life(12)
    sizes = []
    for tick in range(6):
        if tick == 2:
            life.memory = life.successor(metrics(250))
        sizes.append(life.tick(metrics(250)).to_replicas)

    assert sizes == [24, 24, 24, 24, 48, 50]


def test_gpus_given_back_within_the_hour_still_count() -> None:
    records = [record(-200, 8, 6), record(-400, 6, 8), record(-3000, 12, 6), record(-4000, 20, 12)]
    seen = resource(target(6, gpus_per_replica=2), metrics(20.0))

    decreases = memory_of(written(decisions=records), seen).decreases

    assert [(d.at_seconds, d.gpus) for d in decreases] == [(-3000 + SLACK, 12), (-200 + SLACK, 4)]


def test_a_change_of_the_future_counts_as_now() -> None:
    (decrease,) = memory_of(written(decisions=[record(+9000, 8, 6)])).decreases

    assert decrease.at_seconds == 0.0


def test_a_size_that_changed_while_it_was_not_watched_is_a_change() -> None:
    seed = memory_of(written(replicas=14))
    snapshot = FleetSnapshot(9.0, TICK_SECONDS, (SEEN,), epoch_seconds=EPOCH)
    _, after = decide(snapshot, Memory(resources={UID: seed}))

    assert after.resources[UID].changed_seconds == 0.0
    assert [d.gpus for d in after.resources[UID].decreases][-1] == 4


def test_an_outage_of_the_metrics_goes_on_where_it_was() -> None:
    life = Life(10)
    life.tick(metrics(20.0))
    for _ in range(round(POLICY.metrics_loss_grace_seconds / TICK_SECONDS)):
        life.tick(lost())
    memory = life.successor(lost())
    (first,), _ = decide(life.snapshot(lost()), Memory())
    (second,), _ = decide(life.snapshot(lost()), memory)

    assert first.to_replicas == 10
    assert (second.to_replicas, second.reason) == (40, Reason.DECLARED_PEAK)


def test_an_outage_goes_on_where_some_pods_told_of_themselves_before_the_restart() -> None:
    life = Life(10)
    for seen in (lost(), partial(20.0)):
        life.tick(seen)
    life.ticks += round(POLICY.metrics_loss_grace_seconds / TICK_SECONDS)
    (decision,), _ = decide(life.snapshot(lost()), life.successor(lost()))

    assert (decision.to_replicas, decision.reason) == (40, Reason.DECLARED_PEAK)


def test_pods_that_are_silent_for_an_hour_are_no_outage_after_a_restart() -> None:
    life = Life(10)
    for _ in range(round(3600 / TICK_SECONDS)):
        life.tick(partial(20.0))
    (decision,), _ = decide(life.snapshot(lost()), life.successor(lost()))

    assert decision.to_replicas == 10


def test_an_outage_goes_on_although_it_is_sized_late_and_restarted_again() -> None:
    life = Life(10)
    life.tick(lost())
    life.ticks += round(POLICY.metrics_loss_grace_seconds / TICK_SECONDS)
    unsized = replace(life.snapshot(lost()).resources[0], sized=Unsized(Reason.UNKNOWN, "not sized yet"))
    (decision,), _ = decide(replace(life.snapshot(lost()), resources=(unsized,)), life.successor(lost()))
    life.tell(unsized, decision)
    (again,), _ = decide(life.snapshot(lost()), life.successor(lost()))

    assert decision.reason is Reason.UNKNOWN
    assert again.reason is Reason.DECLARED_PEAK


def test_an_outage_is_not_told_of_anew_at_every_tick() -> None:
    life = Life(10)
    told = set()
    for _ in range(20):
        life.tick(lost())
        assert life.status.timing is not None
        told.add(life.status.timing.metrics_lost_time)
    life.tick(metrics(20.0))

    assert told == {at(0)}
    assert life.status.timing is not None
    assert life.status.timing.metrics_lost_time is None


@pytest.mark.parametrize(("minimum", "wakes_up"), [(0, True), (2, False)])
def test_a_minimum_raised_during_a_restart_wakes_up_what_slept_and_nothing_else(minimum: int, wakes_up: bool) -> None:
    asleep = replace(lost(), gateway_arrivals=Value(0.0))
    life = Life(0, policy=replace(POLICY, min_replicas=minimum))
    life.tick(asleep)
    life.policy = replace(POLICY, min_replicas=3)
    life.memory = life.successor(asleep)

    assert life.tick(asleep).to_replicas == (3 if wakes_up else 0)


@pytest.mark.parametrize("mode", [ScalingMode.ADVISORY, ScalingMode.PAUSED])
def test_it_is_woken_up_although_the_raised_minimum_was_told_of_before_the_restart(mode: ScalingMode) -> None:
    asleep = replace(lost(), gateway_arrivals=Value(0.0))
    life = Life(0, policy=replace(POLICY, min_replicas=0))
    life.tick(asleep)
    life.policy = replace(POLICY, min_replicas=3, mode=mode)
    decision = life.tick(asleep)
    life.replicas = 0  # Advice is not followed here, and what is paused stays.
    life.policy = replace(POLICY, min_replicas=3)
    life.memory = life.successor(asleep)

    assert decision.sleeps
    assert life.tick(asleep).to_replicas == 3


def test_the_last_advice_is_repeated_while_there_are_no_metrics() -> None:
    advisory = replace(POLICY, mode=ScalingMode.ADVISORY)
    seen = resource(target(10), lost(), policy=advisory)
    status = written(desiredReplicas=17)
    memory = Memory(resources={UID: memory_of(status, seen)})
    (decision,), _ = decide(FleetSnapshot(9.0, TICK_SECONDS, (seen,), epoch_seconds=EPOCH), memory)

    assert decision.to_replicas == 17
    assert memory_of(status).advised_replicas is None, "only advice is repeated"


@pytest.mark.parametrize(
    ("status", "options"),
    [
        (InferenceDeploymentStatus(), {}),
        (written(observedGeneration=2), {}),
        (written(conditions=[], decisions=[record(-60, 8, 6)]), {"target_created_seconds": EPOCH - 30}),
    ],
    ids=["nothing was ever written", "of another object", "of an earlier target"],
)
def test_what_says_nothing_of_this_target_restores_nothing(
    status: InferenceDeploymentStatus, options: dict[str, Any]
) -> None:
    assert restored(status, SEEN, NOW, **options) is None


def store_with(status: dict[str, Any]) -> Store:
    store = Store()
    store.feed("InferenceDeployment", None, inference_deployment("rag", uid=UID) | {"status": status})
    store.feed("Deployment", None, deployment("nim", uid="d-1"))
    return store


def fleet(seen: ResourceSnapshot) -> FleetSnapshot:
    named = replace(seen, namespace=NAMESPACE, name="rag")
    return FleetSnapshot(9.0, TICK_SECONDS, (named,), epoch_seconds=EPOCH)


def test_what_was_learned_waits_for_the_sizing_although_the_status_is_overwritten() -> None:
    store = store_with(document(written(calibration=calibrated(70))))
    restoring = Restoring()
    unsized = replace(SEEN, sized=Unsized(Reason.UNKNOWN, "not sized yet"))
    first = restoring.seeded(Memory(), fleet(unsized), store, EPOCH)
    (_,), between = decide(fleet(unsized), first)
    store.feed("InferenceDeployment", None, inference_deployment("rag", uid=UID) | {"status": {}})
    second = restoring.seeded(between, fleet(SEEN), store, EPOCH + 15)
    (decision,), _ = decide(fleet(SEEN), second)

    assert decision.capacity_factor == pytest.approx(0.7, abs=0.01)


def test_what_was_restored_waits_for_the_sizing() -> None:
    lost_since = {"lastScaleTime": at(-100), "metricsLostTime": at(-500)}
    store = store_with(document(written(timing=lost_since, decisions=[record(-200, 14, 10)])))
    restoring = Restoring()
    unsized = replace(SEEN, sized=Unsized(Reason.UNKNOWN, "not sized yet"))
    _, between = decide(fleet(unsized), restoring.seeded(Memory(), fleet(unsized), store, EPOCH))
    seed = restoring.seeded(between, fleet(SEEN), store, EPOCH).resources[UID]

    assert seed.lost_since_seconds == -500.0
    assert seed.changed_seconds == -100.0 + SLACK
    assert len(seed.decreases) == 1


def test_a_resource_is_restored_once() -> None:
    store = store_with(document(written(calibration=calibrated(70))))
    restoring = Restoring()
    first = restoring.seeded(Memory(), fleet(SEEN), store, EPOCH)

    assert factor(first.resources[UID].calibration) == 0.7
    assert restoring.seeded(Memory(), fleet(SEEN), store, EPOCH + 15) == Memory()


def test_a_target_that_comes_later_is_not_the_one_of_the_status() -> None:
    store = store_with(document(written(calibration=calibrated(70))))
    restoring = Restoring()
    missing = replace(SEEN, target=TargetMissing(Reason.TARGET_NOT_FOUND, "gone"))
    memory = restoring.seeded(Memory(), fleet(missing), store, EPOCH)
    late = deployment("nim", uid="d-1", creationTimestamp=at(60))
    store.feed("Deployment", None, late)

    assert restoring.seeded(memory, fleet(SEEN), store, EPOCH + 75) == Memory()


def test_a_status_that_cannot_be_read_restores_nothing_and_stops_no_other() -> None:
    store = store_with({"replicas": "many", "conditions": 7})

    assert Restoring().seeded(Memory(), fleet(SEEN), store, EPOCH) == Memory()


segments = st.lists(
    st.tuples(st.floats(0, 240), st.integers(1, 20), st.sampled_from(["good", "good", "lost", "partial"])),
    min_size=2,
    max_size=7,
)


def partial(load: float) -> Metrics:
    """One of two pods tells of half the load."""
    return metrics(load, health=Reason.PARTIAL, arrivals=Value(load / 2, coverage=0.5))


def sequence(drawn: list[tuple[float, int, str]]) -> list[Metrics]:
    made = {
        "good": lambda load: metrics(load),
        "lost": lambda load: lost(),
        "partial": partial,
    }
    return [made[kind](load) for load, ticks, kind in drawn for _ in range(ticks)]


@given(
    drawn=segments,
    share=st.floats(0, 1),
    factor=st.sampled_from([50, 72, 90, 100]),
    window=st.sampled_from([0.0, 60.0, 300.0]),
    replicas=st.integers(2, 60),
)
@example(drawn=[(0.0, 1, "good"), (31.0, 6, "good")], share=0.5, factor=50, window=0.0, replicas=2)
@example(drawn=[(0.0, 1, "lost"), (0.0, 7, "partial"), (0.0, 2, "lost")], share=0.9, factor=50, window=0.0, replicas=2)
@settings(max_examples=examples(60))
def test_wherever_it_is_restarted_it_never_asks_for_fewer_replicas_than_without(
    drawn: list[tuple[float, int, str]], share: float, factor: int, window: float, replicas: int
) -> None:
    ticks = sequence(drawn)
    restart = round(share * (len(ticks) - 1))
    life = Life(replicas, policy=replace(POLICY, stabilization_seconds=window, metrics_loss_grace_seconds=120))
    first = written(calibration=calibrated(factor), replicas=replicas)
    seed = memory_of(first, resource(target(replicas), metrics(1.0)))
    life.memory = Memory(resources={UID: seed})
    successor: Memory | None = None
    for i, seen in enumerate(ticks):
        if i == restart and i > 0:
            successor = life.successor(seen)
        # Both see the same fleet at every tick: the one that was not restarted moves it.
        snapshot = life.snapshot(seen)
        steady = life.tick(seen)
        if successor is not None:
            (other,), successor = decide(snapshot, successor)
            assert other.to_replicas >= steady.to_replicas, (i, restart, other.message, steady.message)


@given(loads=st.lists(st.floats(0, 120), min_size=40, max_size=80), restarts=st.sets(st.integers(1, 79), max_size=6))
@settings(max_examples=examples(25))
def test_however_often_it_is_restarted_the_pool_gives_back_no_more_than_its_rate_limit_allows(
    loads: list[float], restarts: set[int]
) -> None:
    life = Life(60, policy=replace(POLICY, stabilization_seconds=15.0, scale_down_step_percent=100))
    given_back: list[tuple[float, int]] = []
    for i, load in enumerate(loads):
        if i in restarts:
            life.memory = life.successor(metrics(load))
        before, now = life.replicas, life.now_epoch
        life.tick(metrics(load))
        given_back.append((now, max(0, before - life.replicas)))
        window = [gpus for t, gpus in given_back if t > now - POOL.scale_down_limit_window_seconds]
        assert sum(window) <= POOL.scale_down_limit_percent * 100 / 100


def test_many_restarts_in_a_row_do_not_wear_the_capacity_down() -> None:
    life = Life(10)
    life.status = written(calibration=CalibrationStatus(state="Learned", service_factor_percent=73).model_dump())
    for _ in range(20):
        life.memory = Memory(resources={UID: memory_of(read_back(life.status))})
        life.tick(metrics(20.0))

    assert life.status.calibration is not None
    assert life.status.calibration.service_factor_percent == 73


def test_a_second_restart_before_the_sizing_loses_nothing() -> None:
    life = Life(10)
    life.status = written(calibration=calibrated(73))
    unsized = replace(SEEN, sized=Unsized(Reason.UNKNOWN, "not sized yet"))
    memory = Memory(resources={UID: memory_of(life.status, unsized)})
    (decision,), _ = decide(FleetSnapshot(9.0, TICK_SECONDS, (unsized,), epoch_seconds=EPOCH), memory)
    life.tell(unsized, decision)

    assert factor(memory_of(read_back(life.status)).calibration) == 0.73
