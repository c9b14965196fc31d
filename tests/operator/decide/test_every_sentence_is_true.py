"""No sentence says a value that there is not, and none names a cause that is not the cause."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.decide import Memory, decide, judge
from firsttoken_operator.domain import (
    ConditionType,
    FleetSnapshot,
    Judgement,
    Metrics,
    Missing,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    ScaleDown,
    ScalingMode,
    ScalingPolicy,
    Sized,
    TargetMissing,
    TtftInterval,
    Unsized,
    Value,
)
from tests.fixtures.hypothesis_scale import examples
from tests.operator.decide.builders import (
    POLICY,
    SIZED,
    TICK_SECONDS,
    Fleet,
    idle,
    late,
    lost,
    metrics,
    resource,
    target,
    worked_table,
)
from tests.operator.decide.strategies import any_metrics, pods

NO_VALUE = re.compile(r"\b(None|nan|NaN|inf|infinity|0x[0-9a-f]+)\b|<[a-z_.]+ object")
POOLS = [
    None,
    PoolSnapshot("p", 12, 12, False, 20, 600),
    PoolSnapshot("p", None, None, True, 20, 600),
    PoolSnapshot("p", None, None, False, 20, 600, is_elastic=True),
]

policies = st.builds(
    lambda low, most, mode, when: replace(
        POLICY, min_replicas=low, max_replicas=most, mode=mode, scale_down=when, stabilization_seconds=15
    ),
    st.integers(0, 5), st.sampled_from([None, 6, 30]), st.sampled_from(ScalingMode), st.sampled_from(ScaleDown),
)  # fmt: skip
sizings = st.sampled_from([
    SIZED, replace(SIZED, table=worked_table()), Unsized(Reason.UNKNOWN, "not sized yet"),
    Unsized(Reason.INVALID_SPEC, "spec.traffic"),
])  # fmt: skip
ticks = st.lists(st.tuples(any_metrics(), pods, st.integers(0, 60)), min_size=1, max_size=6)


def said(about: ResourceSnapshot, pools: dict[str, PoolSnapshot], memory: Memory) -> tuple[list[str], Memory]:
    (decision,), memory = decide(FleetSnapshot(1000.0, TICK_SECONDS, (about,), pools), memory)
    return [decision.message, decision.announcement, *(j.message for j in judge(about, decision))], memory


@given(policy=policies, sized=sizings, seen=ticks, pool=st.sampled_from(POOLS), named=st.booleans())
@settings(max_examples=examples(60))
def test_no_sentence_says_a_value_that_there_is_not(
    policy: ScalingPolicy,
    sized: Sized | Unsized,
    seen: list[tuple[Metrics, dict[str, Any], int]],
    pool: PoolSnapshot | None,
    named: bool,
) -> None:
    memory, pools = Memory(), {"p": pool} if pool else {}
    for mtr, states, replicas in seen:
        tgt = target(replicas, **states)
        about = resource(tgt, mtr, policy=policy, sized=sized, pool="p" if named else None)
        sentences, memory = said(about, pools, memory)
        assert not [text for text in sentences if NO_VALUE.search(text)]


def condition(kind: ConditionType, about: ResourceSnapshot, pools: dict[str, PoolSnapshot] | None = None) -> Judgement:
    (decision,), _ = decide(FleetSnapshot(0.0, TICK_SECONDS, (about,), pools or {}), Memory())
    return next(each for each in judge(about, decision) if each.kind is kind)


def test_a_spec_that_cannot_be_read_is_not_paused() -> None:
    text = "spec.traffic.schedule.timeZone: Europe/Berln is no time zone"
    about = resource(
        TargetMissing(Reason.INVALID_SPEC, text), lost(), sized=Unsized(Reason.INVALID_SPEC, text),
        policy=replace(POLICY, mode=ScalingMode.PAUSED),
    )  # fmt: skip
    (decision,), _ = decide(FleetSnapshot(0.0, TICK_SECONDS, (about,)), Memory())

    assert not [j for j in judge(about, decision) if j.reason is Reason.PAUSED]
    assert (decision.reason, decision.message) == (Reason.INVALID_SPEC, text)


def test_without_metrics_no_number_is_asked_for() -> None:
    below = resource(target(2), lost(), policy=replace(POLICY, min_replicas=5), pool="p")
    limited = condition(ConditionType.SCALING_LIMITED, below, {"p": PoolSnapshot("p", 2, 2, False, 20, 600)})

    assert (limited.holds, limited.message) == (True, "more replicas asked for, 2 granted")


def test_a_deployment_without_a_sample_has_spent_no_budget() -> None:
    for mtr in (lost(), idle()):
        fleet = Fleet(4)
        assert {d.late_budgets_spent for d in fleet.run(mtr, 300)} == {None}
    assert Fleet(4).tick(metrics(10, ttft=late(0.01))).late_budgets_spent is not None


@pytest.mark.parametrize(("reason", "holds"), [(Reason.POOL_EXHAUSTED, False), (Reason.POOL_INVENTORY_UNKNOWN, None)])
def test_a_deployment_that_waits_for_its_first_gpus_says_so(reason: Reason, holds: bool | None) -> None:
    waits = resource(TargetMissing(reason, "pool p has no 1 free GPUs for a replica"), lost(), pool="p")
    found = condition(ConditionType.CAPACITY_AVAILABLE, waits)

    assert (found.holds, found.reason, found.message) == (holds, reason, "pool p has no 1 free GPUs for a replica")


def test_of_a_pool_that_is_not_there_no_number_of_gpus_is_missing() -> None:
    found = condition(ConditionType.CAPACITY_AVAILABLE, resource(target(4), metrics(100), pool="p"))

    assert (found.holds, found.message) == (None, "pool p: how many GPUs it has is not known")


@pytest.mark.parametrize("high", [None, float("nan"), float("inf")])
def test_a_bucket_without_an_end_does_not_meet_the_sla(high: float | None) -> None:
    about = resource(target(4), metrics(10, ttft=TtftInterval(60, high, 80, 1000)))
    found = condition(ConditionType.SLA_MET, about)

    assert (found.holds, found.reason) == (None, Reason.LOW_RESOLUTION)
    assert "(60, unbounded] ms" in found.message


def test_an_unknown_gateway_is_named_where_it_matters() -> None:
    asleep = resource(
        target(0), replace(lost(), gateway_arrivals=Missing(Reason.STALE, "the gateway is gone")),
        policy=replace(POLICY, min_replicas=0),
    )  # fmt: skip

    assert "the gateway is gone" in condition(ConditionType.METRICS_HEALTHY, asleep).message
    awake = replace(asleep, metrics=replace(lost(), gateway_arrivals=Value(0)))
    assert "the gateway counts" in condition(ConditionType.METRICS_HEALTHY, awake).message
