"""Invariants I1 to I10 of docs/design/faults.md hold for any sequence of any signals, by Hypothesis."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import FleetSnapshot, Metrics, PoolSnapshot, ScalingMode, Target, Value
from tests.fixtures.hypothesis_scale import examples
from tests.operator.decide.builders import POLICY, TICK_SECONDS, Fleet, metrics, resource, target
from tests.operator.decide.strategies import TRUSTED, UNTRUSTED, any_metrics, pods

sequences = st.lists(st.tuples(any_metrics(), pods), min_size=1, max_size=15)
Sequence = list[tuple[Metrics, dict[str, int]]]


@given(replicas=st.integers(0, 200), sequence=sequences)
@settings(max_examples=examples(60))
def test_it_never_raises_and_stays_between_its_bounds(replicas: int, sequence: Sequence) -> None:
    fleet = Fleet(replicas=replicas)
    for mtr, changes in sequence:
        before = fleet.replicas
        decision = fleet.tick(mtr, **changes)
        if decision.to_replicas > before:
            assert decision.to_replicas <= 60
        if decision.to_replicas < before:
            assert decision.to_replicas >= POLICY.min_replicas


@given(replicas=st.integers(1, 80), sequence=sequences, last=any_metrics(UNTRUSTED))
@settings(max_examples=examples(60))
def test_untrusted_data_never_lowers(replicas: int, sequence: Sequence, last: Metrics) -> None:
    fleet = Fleet(replicas=replicas)
    for mtr, changes in sequence:
        fleet.tick(mtr, **changes)
    before = fleet.replicas

    assert fleet.tick(last).to_replicas >= before


@given(replicas=st.integers(1, 80), sequence=sequences)
@settings(max_examples=examples(60))
def test_no_scale_down_without_a_full_window_of_trusted_samples(replicas: int, sequence: Sequence) -> None:
    fleet = Fleet(replicas=replicas, policy=replace(POLICY, stabilization_seconds=90))
    trusted_since: float | None = None
    for mtr, changes in sequence:
        now, before = fleet.now_seconds, fleet.replicas
        trusted_since = (now if trusted_since is None else trusted_since) if mtr.health in TRUSTED else None
        decision = fleet.tick(mtr, **changes)
        if decision.to_replicas < before:
            assert trusted_since is not None
            assert now - trusted_since >= 90


@given(replicas=st.integers(1, 80), load=st.floats(0, 500), more=st.floats(0, 500), waiting=st.floats(0, 1000))
@settings(max_examples=examples(60))
def test_more_load_never_gives_fewer_replicas(replicas: int, load: float, more: float, waiting: float) -> None:
    fewer, greater = Fleet(replicas=replicas), Fleet(replicas=replicas)
    for fleet, rate in ((fewer, load), (greater, load + more)):
        fleet.run(metrics(rate, waiting=Value(waiting)), 420)

    assert greater.replicas >= fewer.replicas


@given(loads=st.lists(st.floats(0, 300), min_size=30, max_size=60), restart_at=st.integers(0, 59))
@settings(max_examples=examples(30))
def test_a_restart_at_any_tick_never_ends_with_fewer_replicas(loads: list[float], restart_at: int) -> None:
    steady, restarted = Fleet(replicas=40), Fleet(replicas=40)
    for i, load in enumerate(loads):
        if i == restart_at:
            restarted.restart()
        steady.tick(metrics(load))
        restarted.tick(metrics(load))
        # NB: compared while both still follow the same size; afterwards their step limits differ.
        if steady.replicas >= 40 or restarted.replicas >= steady.replicas:
            continue
        raise AssertionError(f"restart at {restart_at}: {restarted.replicas} < {steady.replicas}")


@given(
    wants=st.lists(st.tuples(st.integers(1, 40), st.floats(0, 400), st.integers(0, 3)), min_size=1, max_size=6),
    gpus=st.sampled_from([1, 2, 4, 8]),
    budget=st.integers(0, 300),
)
@settings(max_examples=examples(60))
def test_a_pool_is_never_exceeded_by_what_is_granted(
    wants: list[tuple[int, float, int]], gpus: int, budget: int
) -> None:
    members = tuple(
        resource(
            target(n, uid=f"d-{i}", gpus_per_replica=gpus),
            metrics(load),
            uid=str(i),
            name=str(i),
            pool="p",
            priority=priority,
        )
        for i, (n, load, priority) in enumerate(wants)
    )
    pool = PoolSnapshot(
        "p", budget, budget, on_prem=True, scale_down_limit_percent=20, scale_down_limit_window_seconds=600
    )
    decisions, _ = decide(FleetSnapshot(0, TICK_SECONDS, members, {"p": pool}), Memory())

    used_before = sum(m.target.replicas * gpus for m in members if isinstance(m.target, Target))
    used_after = sum(d.to_replicas * gpus for d in decisions)
    assert used_after <= max(budget, used_before)


@given(
    arrivals=st.lists(st.floats(40, 240), min_size=4, max_size=4),
    sizes=st.lists(st.integers(1, 40), min_size=4, max_size=4),
    order=st.permutations(range(4)),
)
@settings(max_examples=examples(100))
def test_the_order_of_resources_does_not_matter(arrivals: list[float], sizes: list[int], order: list[int]) -> None:
    members = [
        resource(target(n, uid=f"d-{i}"), metrics(load), uid=str(i), name=str(i), pool="p")
        for i, (n, load) in enumerate(zip(sizes, arrivals, strict=True))
    ]
    pools = {
        "p": PoolSnapshot(
            "p", 100, 100, on_prem=False, scale_down_limit_percent=20, scale_down_limit_window_seconds=600
        )
    }
    straight, _ = decide(FleetSnapshot(0, TICK_SECONDS, tuple(members), pools), Memory())
    shuffled, _ = decide(FleetSnapshot(0, TICK_SECONDS, tuple(members[i] for i in order), pools), Memory())

    assert {d.uid: d.to_replicas for d in straight} == {d.uid: d.to_replicas for d in shuffled}


@given(load=st.floats(0, 250), replicas=st.integers(2, 60))
@settings(max_examples=examples(25))
def test_constant_load_settles_and_stays(load: float, replicas: int) -> None:
    fleet = Fleet(replicas=replicas)
    fleet.run(metrics(load), 3600)
    settled = fleet.replicas

    assert {d.to_replicas for d in fleet.run(metrics(load), 900)} == {settled}
    assert settled >= math.ceil(load / 5 - 1e-9)


@given(jumps=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=19))
@settings(max_examples=examples(100))
def test_no_jumps_of_the_clock_bring_a_scale_down_within_half_a_window_of_ticks(jumps: list[float]) -> None:
    fleet = Fleet(replicas=40, policy=replace(POLICY, stabilization_seconds=2 * TICK_SECONDS * 20))
    for jump in jumps:
        fleet.now_seconds += jump
        fleet.tick(metrics(10))

    assert fleet.replicas == 40


@given(mtr=any_metrics(), mode=st.sampled_from([ScalingMode.PAUSED]))
def test_paused_changes_nothing(mtr: Metrics, mode: ScalingMode) -> None:
    assert not Fleet(replicas=7, policy=replace(POLICY, mode=mode)).tick(mtr).changes
